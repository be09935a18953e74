"""GPU kernels as OpenCL C, translated from the IR that `engine/llvm` writes.

What the builder writes for GPUs without vectors is a small part of LLVM's language: arithmetic on
scalars, loads and stores, branches, and a few intrinsics.  Each line becomes a statement of C; a
register becomes a variable, a block a label, and a phi an assignment before the jump.

Integers are unsigned in C and cast where LLVM takes them as signed.  A float16 is its bits, since
devices need not compute with it; 128 bits are two words of 64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from tawny.engine.opencl.prelude import HALVES, PRELUDE, WARPS, WIDE

SUMS: Final = "{ float, float, float, float }"
"""What a product of small tiles gives."""

TYPES: Final = {
    "i1": "bool",
    "i8": "uchar",
    "i16": "ushort",
    "i32": "uint",
    "i64": "ulong",
    "i128": "ulong2",
    "half": "ushort",
    "float": "float",
    "double": "double",
    SUMS: "float4",
}
"""The type of C that holds a value of LLVM's."""

SIGNED: Final = {"i8": "char", "i16": "short", "i32": "int", "i64": "long"}

BYTES: Final = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}

SPACES: Final = {0: "__private", 1: "__global", 3: "__local", 4: "__constant"}
"""How C calls LLVM's address spaces."""

BINARY: Final = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<",
    "lshr": ">>",
    "udiv": "/", "urem": "%", "fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/",
}  # fmt: skip
SIGNED_BINARY: Final = {"sdiv": "/", "srem": "%", "ashr": ">>"}

COMPARISONS: Final = {
    "eq": "{a} == {b}", "ne": "{a} != {b}",
    "ult": "{a} < {b}", "ule": "{a} <= {b}", "ugt": "{a} > {b}", "uge": "{a} >= {b}",
    "slt": "{s}{a} < {s}{b}", "sle": "{s}{a} <= {s}{b}",
    "sgt": "{s}{a} > {s}{b}", "sge": "{s}{a} >= {s}{b}",
}  # fmt: skip
FLOAT_COMPARISONS: Final = {
    "oeq": "{a} == {b}", "olt": "{a} < {b}", "ole": "{a} <= {b}", "ogt": "{a} > {b}",
    "oge": "{a} >= {b}", "one": "({a} < {b} || {a} > {b})", "ord": "!isnan({a}) && !isnan({b})",
    "ueq": "!({a} < {b} || {a} > {b})", "ult": "!({a} >= {b})", "ule": "!({a} > {b})",
    "ugt": "!({a} <= {b})", "uge": "!({a} < {b})", "une": "{a} != {b}",
    "uno": "isnan({a}) || isnan({b})",
}  # fmt: skip
"""LLVM's comparisons; those that begin with `u` hold beside a NaN."""

INTRINSICS: Final = {
    "fma": "fma({0}, {1}, {2})", "sqrt": "sqrt({0})", "fabs": "fabs({0})", "floor": "floor({0})",
    "ceil": "ceil({0})", "trunc": "trunc({0})", "rint": "rint({0})", "roundeven": "rint({0})",
    "copysign": "copysign({0}, {1})", "umin": "min({0}, {1})", "umax": "max({0}, {1})",
    "smin": "({u})min({s}{0}, {s}{1})", "smax": "({u})max({s}{0}, {s}{1})",
    "ctlz": "clz({0})", "ctpop": "popcount({0})",
    "cttz": "({u})(popcount(({u})(~{0} & ({u})({0} - 1))))",
    "bswap": "tawny_bswap({0})",
    "fshl": "({0} << ({2} & {m})) | ({2} & {m} ? {1} >> ({w} - ({2} & {m})) : 0)",
    "fshr": "({1} >> ({2} & {m})) | ({2} & {m} ? {0} << ({w} - ({2} & {m})) : 0)",
}  # fmt: skip
"""Intrinsics of LLVM that an expression of C computes: operands by number, `{u}` and `{s}` for the
unsigned and signed type, `{w}` for its bits and `{m}` for one less."""

REGISTERS: Final = {
    "tid": "get_local_id", "ntid": "get_local_size", "ctaid": "get_group_id",
    "nctaid": "get_num_groups",
}  # fmt: skip
"""Where a thread is, by NVIDIA's names and OpenCL's."""


WARP_FUNCTIONS: Final = {
    "llvm.nvvm.mma.m16n8k8.row.col.tf32": "tawny_multiply(tawny_factors, {})",
    "llvm.nvvm.f2tf32.rna": "tawny_tf32({})",
    "llvm.nvvm.cp.async.cg.shared.global.16.s": "tawny_copy({}, 16)",
    "llvm.nvvm.cp.async.ca.shared.global.4.s": "tawny_copy({}, 4)",
    "llvm.nvvm.cp.async.commit.group": "(void)0",
    "llvm.nvvm.cp.async.wait.group": "(void)0",
}
"""Instructions of NVIDIA's warps, by functions that do what they do, and take their time."""


class UntranslatableError(Exception):
    """IR that has no translation to OpenCL C."""


def opencl_source(ir: str) -> str:
    """The OpenCL C of a module of GPU kernels, given its IR."""
    functions = [_TranslatedFunction(m[0]) for m in _FUNCTION.finditer(ir)]
    tables = [_constant_table(m) for m in _TABLE.finditer(ir)]
    shared = {m["name"]: int(m["count"]) * BYTES[m["type"]] for m in _SHARED.finditer(ir)}
    shared |= {m["name"]: int(m["count"]) for m in _DYNAMIC.finditer(ir)}
    bodies = [f.text(shared) for f in functions]
    helpers = [HALVES] * ("half" in ir) + [WIDE] * ("i128" in ir) + [WARPS] * (SUMS in ir)
    prototypes = [f"{f.head};" for f in functions if not f.is_kernel]
    return "\n".join([PRELUDE, *helpers, *tables, *prototypes, *bodies])


_FUNCTION: Final = re.compile(r"^define .*?^}", re.MULTILINE | re.DOTALL)
_TABLE: Final = re.compile(
    r"^@(?P<name>[\w.]+) = .*?(?:addrspace\((?P<space>\d+)\) )?constant "
    r"\[(?P<count>\d+) x (?P<type>\w+)\] \[(?P<items>.*?)\]",
    re.MULTILINE,
)
_SHARED: Final = re.compile(
    r"^@(?P<name>[\w.]+) = .*?addrspace\(3\) global \[(?P<count>\d+) x (?P<type>\w+)\]",
    re.MULTILINE,
)
_DYNAMIC: Final = re.compile(
    r"^@(?P<name>[\w.]+) = external addrspace\(3\) .*; (?P<count>\d+) bytes$", re.MULTILINE
)
_HEAD: Final = re.compile(
    r"define (?P<words>[\w ]*?)(?P<returns>void|\w+) @(?P<name>[\w.]+)\((?P<arguments>.*)\)[^)]*$"
)
_POINTER: Final = re.compile(r"ptr(?: addrspace\((\d+)\))?")
_VALUE: Final = r"(?:%[\w.]+|@[\w.]+|0x[0-9A-FH]+|-?\d+|true|false|null|poison)"
_OPERAND: Final = re.compile(rf"(?P<type>ptr(?: addrspace\(\d+\))?|\w+) (?P<value>{_VALUE})")


def _constant_table(found: re.Match[str]) -> str:
    """A constant array."""
    kind = found["type"]
    items = [_literal(kind, item.split()[1]) for item in found["items"].split(",")]
    return f"__constant {TYPES[kind]} {found['name']}[] = {{{', '.join(items)}}};"


def _literal(kind: str, text: str) -> str:
    """A constant of a type."""
    if text in ("true", "false"):
        return text
    if text == "poison":
        return f"({TYPES[kind]})(0)"
    if kind == "float":
        return f"as_float(0x{_float_bits(text):X}u)"
    if kind == "double":
        return f"as_double(0x{int(text, 16):X}ul)"
    if kind == "half":
        return f"(ushort)0x{text.removeprefix('0xH')}"
    number = int(text)
    if kind == "i128":
        return f"(ulong2)(0x{number & _MASK:X}ul, 0x{number >> 64 & _MASK:X}ul)"
    bits = 8 * BYTES[kind]
    return f"({TYPES[kind]})0x{number & (1 << bits) - 1:X}ul"


_MASK: Final = 2**64 - 1


def _float_bits(text: str) -> int:
    """The bits of a float32, which LLVM writes as those of the equal float64."""
    return int(np.uint64(int(text, 16)).view(np.float64).astype(np.float32).view(np.uint32))


class _Phi(NamedTuple):
    """A register whose value depends on the block control came from."""

    register: str
    kind: str
    sources: dict[str, str]


class _TranslatedFunction:
    """One function: its blocks as labels, its registers as variables."""

    def __init__(self, text: str) -> None:
        head, *self._lines = text.splitlines()
        found = _HEAD.match(head)
        if found is None:
            raise UntranslatableError(head)
        self.is_kernel = "ptx_kernel" in found["words"]
        self._declared: dict[str, str] = {}
        """The declaration of each variable."""
        self._spaces: dict[str, int] = {}
        """The address space of each pointer."""
        self._arrays: list[str] = []
        self._block = "entry"
        self._phis: dict[str, list[_Phi]] = {}
        arguments = [self._argument(a) for a in found["arguments"].split(", ") if a]
        kind = "__kernel void" if self.is_kernel else TYPES.get(found["returns"], "void")
        self.head = f"{kind} {found['name']}({', '.join(arguments)})"

    def _argument(self, text: str) -> str:
        kind, _, name = text.rpartition(" ")
        own = _c_name(name)
        pointer = _POINTER.fullmatch(kind)
        if pointer is None:
            return f"{TYPES[kind]} {own}"
        space = int(pointer[1] or 0)
        self._spaces[name] = space
        return f"{SPACES[space]} uchar *{own}"

    def text(self, shared: dict[str, int]) -> str:
        """The definition; `shared` are the arrays that threads of a block share, in bytes."""
        self._find_phis()
        statements = [s for line in self._lines[:-1] for s in self._statements(line.strip())]
        declarations = [f"{kind}{name};" for name, kind in self._declared.items()]
        text = "\n".join(statements)
        arrays = [
            f"__local uchar {name}[{nbytes}] __attribute__((aligned(16)));"
            for name, nbytes in shared.items()
            if re.search(rf"\b{name}\b", text)
        ]
        if "tawny_multiply" in text:
            arrays.append("__local uint tawny_factors[1536];")
        body = "\n".join([*arrays, *self._arrays, *declarations, text])
        return f"{self.head} {{\n{body}\n}}\n"

    def _find_phis(self) -> None:
        block = "entry"
        for line in self._lines:
            label = _LABEL.match(line)
            if label:
                block = label[1]
            found = _PHI.match(line.strip())
            if found:
                kind, pairs = found[2], re.findall(r"\[ (.*?), %([\w.]+) \]", found[3])
                phi = _Phi(found[1], kind, {source: value for value, source in pairs})
                self._phis.setdefault(block, []).append(phi)

    # -------------------------------------------------------------- statements

    def _statements(self, line: str) -> Sequence[str]:
        label = _LABEL.match(line)
        if label:
            self._block = label[1]
            return [] if self._block == "entry" else [f"{label[1]}: ;"]
        result, equals, instruction = line.partition(" = ")
        if not equals or not result.startswith("%"):
            return self._effect(line)
        name, _, rest = instruction.partition(" ")
        if name == "phi":
            return []
        rule = _RULES.get(name)
        if rule is not None:
            return [rule(self, result, rest)]
        if name in BINARY or name in SIGNED_BINARY:
            return [self._binary(result, name, rest)]
        raise UntranslatableError(line)

    def _effect(self, line: str) -> Sequence[str]:
        """A line without a result."""
        name, _, rest = line.partition(" ")
        match name:
            case "ret":
                found = _OPERAND.search(rest)
                return [f"return {self._value(*found.groups())};" if found else "return;"]
            case "br":
                return self._branch(rest)
            case "store":
                value, place = _OPERAND.finditer(rest.partition(", align")[0])
                kind = value["type"]
                stored = self._value(kind, value["value"])
                return [
                    f"*({self._cast(kind, place['value'])}){_c_name(place['value'])} = {stored};"
                ]
            case "call":
                return [f"{self._call_text(rest)};"]
            case "fence" | "unreachable":
                return []
            case _:
                raise UntranslatableError(line)

    def _branch(self, rest: str) -> Sequence[str]:
        labels = re.findall(r"label %([\w.]+)", rest)
        ways = [f"{self._moves(label)} goto {label};" for label in labels]
        if len(ways) == 1:
            return [f"{{ {ways[0]} }}"]
        condition = self._value("i1", rest.split(",", maxsplit=1)[0].split()[1])
        return [f"if ({condition}) {{ {ways[0]} }} else {{ {ways[1]} }}"]

    def _moves(self, label: str) -> str:
        """What is assigned on the way to a block, all at once."""
        phis = self._phis.get(label, [])
        values = [(phi, self._value(phi.kind, phi.sources[self._block])) for phi in phis]
        for phi in phis:
            self._declare(phi.register, phi.kind, phi.sources[self._block])
        read = "".join(
            [f"{self._type(p.register, p.kind)}t{i} = {v}; " for i, (p, v) in enumerate(values)]
        )
        return read + " ".join(
            [f"{_c_name(p.register)} = t{i};" for i, (p, _) in enumerate(values)]
        )

    # ------------------------------------------------------------ instructions

    def _assign(self, result: str, kind: str, expression: str) -> str:
        self._declare(result, kind)
        return f"{_c_name(result)} = {expression};"

    def _declare(self, register: str, kind: str, like: str | None = None) -> None:
        if like is not None and kind.startswith("ptr"):
            self._spaces[register] = self._space(kind, like)
        self._declared[_c_name(register)] = self._type(register, kind)

    def _type(self, register: str, kind: str) -> str:
        if kind.startswith("ptr"):
            return f"{SPACES[self._spaces.get(register, 0)]} uchar *"
        return f"{TYPES[kind]} "

    def _space(self, kind: str, value: str) -> int:
        pointer = _POINTER.fullmatch(kind)
        own = int(pointer[1] or 0) if pointer else 0
        return self._spaces.get(value, 4 if value.startswith("@") and not own else own)

    def _cast(self, kind: str, place: str) -> str:
        """The type of a pointer to values of a type, where `place` points to."""
        space = self._spaces.get(place, 3 if place.startswith("@") else 0)
        return f"{SPACES[space]} {TYPES[kind]} *"

    def _value(self, kind: str, text: str) -> str:
        if text.startswith(("%", "@")):
            return _c_name(text)
        return _literal(kind, text)

    def _binary(self, result: str, name: str, rest: str) -> str:
        rest = re.sub(r"^(?:(?:nuw|nsw|exact|disjoint|contract|fast) )+", "", rest)
        kind, _, operands = rest.partition(" ")
        a, b = (self._value(kind, o) for o in operands.split(", "))
        if kind == "i128":
            return self._assign(result, kind, f"wide_{name}({a}, {b})")
        if kind == "i1" and name in ("add", "sub"):
            name = "xor"
        if name in SIGNED_BINARY:
            signed = SIGNED[kind]
            expression = f"({signed}){a} {SIGNED_BINARY[name]} ({signed}){b}"
        else:
            expression = f"{a} {BINARY[name]} {b}"
        wraps = kind in ("i1", "i8", "i16") or name in SIGNED_BINARY
        return self._assign(result, kind, f"({TYPES[kind]})({expression})" if wraps else expression)

    def negate(self, result: str, rest: str) -> str:
        """The other sign."""
        kind, _, value = rest.partition(" ")
        return self._assign(result, kind, f"-{self._value(kind, value)}")

    def compare(self, result: str, rest: str) -> str:
        """A truth."""
        predicate, kind, operands = rest.split(" ", 2)
        if kind == "addrspace" or kind.startswith("ptr"):
            raise UntranslatableError(rest)
        a, b = (self._value(kind, o) for o in operands.split(", "))
        if kind == "i128":
            return self._assign(result, "i1", f"wide_{predicate}({a}, {b})")
        table = FLOAT_COMPARISONS if kind in ("float", "double") else COMPARISONS
        signed = f"({SIGNED[kind]})" if kind in SIGNED else ""
        return self._assign(result, "i1", table[predicate].format(a=a, b=b, s=signed))

    def select(self, result: str, rest: str) -> str:
        """One of two values."""
        condition, yes, no = _OPERAND.finditer(rest)
        kind = yes["type"]
        chosen = (
            f"{self._value('i1', condition['value'])} ? {self._value(kind, yes['value'])}"
            f" : {self._value(kind, no['value'])}"
        )
        if kind.startswith("ptr"):
            self._spaces[result] = self._space(kind, yes["value"])
        return self._assign(result, kind, chosen)

    def convert(self, name: str, result: str, rest: str) -> str:
        """A value as another type."""
        given, _, to = rest.rpartition(" to ")
        kind, _, text = given.rpartition(" ")
        value = self._value(kind, text)
        target = TYPES[to]
        match name, kind, to:
            case ("zext", _, "i128"):
                expression = f"wide_zext({value})"
            case ("trunc", "i128", _):
                expression = f"({target}){value}.x"
            case ("trunc", _, "i1"):
                expression = f"({value} & 1) != 0"
            case ("zext" | "trunc" | "uitofp" | "ptrtoint" | "inttoptr", _, _):
                expression = f"({target}){value}"
            case ("sext", "i1", _):
                expression = f"{value} ? ({target})-1 : ({target})0"
            case ("sext", _, _):
                expression = f"({target})({SIGNED[to]})({SIGNED[kind]}){value}"
            case ("sitofp", _, _):
                expression = f"({target})({SIGNED[kind]}){value}"
            case ("fptosi", _, _):
                expression = f"({target})({SIGNED[to]}){value}"
            case ("fptoui", _, _):
                expression = f"({target}){value}"
            case ("fpext", "half", "float"):
                expression = f"half_widen({value})"
            case ("fptrunc", "float", "half"):
                expression = f"half_narrow({value})"
            case ("fpext", "float", _) | ("fptrunc", "double", "float"):
                expression = f"({target}){value}"
            case ("bitcast", _, _):
                expression = value if TYPES[kind] == target else f"as_{target}({value})"
            case _:
                raise UntranslatableError(f"{name} {rest}")
        return self._assign(result, to, expression)

    def element(self, result: str, rest: str) -> str:
        """The address of an element."""
        kind, base, index = rest.split(", ")
        pointer, _, name = base.rpartition(" ")
        space = self._space(pointer, name)
        self._spaces[result] = space
        place = self._value("i64", index.rpartition(" ")[2])
        start = f"(({SPACES[space]} uchar *){_c_name(name)})"
        return self._assign(result, "ptr", f"{start} + (long){place} * {BYTES[kind]}")

    def load(self, result: str, rest: str) -> str:
        """What lies at an address."""
        kind = rest.split(", ", 1)[0]
        place = rest.split(", ")[1].rpartition(" ")[2]
        if kind.startswith("ptr"):
            raise UntranslatableError(f"load {rest}")
        return self._assign(result, kind, f"*({self._cast(kind, place)}){_c_name(place)}")

    def reserve(self, result: str, rest: str) -> str:
        """Bytes of the thread's own, declared with the variables."""
        found = re.match(r"\[(\d+) x i8\]", rest)
        if found is None:
            raise UntranslatableError(f"alloca {rest}")
        self._spaces[result] = 0
        self._arrays.append(
            f"__private uchar {_c_name(result)}[{found[1]}] __attribute__((aligned(16)));"
        )
        return ""

    def call(self, result: str, rest: str) -> str:
        """What a function gives."""
        kind = SUMS if rest.startswith(SUMS) else rest.split(" ", 1)[0]
        return self._assign(result, kind, self._call_text(rest))

    def part(self, result: str, rest: str) -> str:
        """One of the sums that a product of small tiles gives."""
        found = re.match(re.escape(SUMS) + r" (%[\w.]+), (\d)", rest)
        if found is None:
            raise UntranslatableError(f"extractvalue {rest}")
        return self._assign(result, "float", f"{_c_name(found[1])}.s{found[2]}")

    def _call_text(self, rest: str) -> str:
        """A call as an expression."""
        found = _CALL.match(rest)
        if found is None:
            raise UntranslatableError(f"call {rest}")
        kind, name = found["type"], found["name"]
        operands = [
            (m["type"], self._value(m["type"], m["value"]))
            for m in _OPERAND.finditer(found["arguments"])
        ]
        values = [value for _, value in operands]
        if not name.startswith("llvm."):
            return f"{_c_name('@' + name)}({', '.join(values)})"
        register = _REGISTER.fullmatch(name)
        if register is not None:
            return f"(uint){REGISTERS[register[1]]}({'xyz'.index(register[2])})"
        if name.startswith("llvm.nvvm.barrier"):
            return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"
        if name in WARP_FUNCTIONS:
            return WARP_FUNCTIONS[name].format(", ".join(values))
        own = name.split(".")[1]
        if kind == "i128":
            return f"wide_{own}({values[0]})"
        if own not in INTRINSICS:
            raise UntranslatableError(name)
        bits = 8 * BYTES[kind]
        words = {"u": TYPES[kind], "s": f"({SIGNED.get(kind)})", "w": f"({TYPES[kind]}){bits}"}
        return INTRINSICS[own].format(*values, **words, m=f"({TYPES[kind]}){bits - 1}")


_Rule = Callable[[_TranslatedFunction, str, str], str]
_LABEL: Final = re.compile(r"^([\w.]+):$")
_PHI: Final = re.compile(r"(%[\w.]+) = phi (\S+(?: addrspace\(\d+\))?) (.*)")
_CALL: Final = re.compile(r"(?P<type>\w+|\{.*?\}) @(?P<name>[\w.]+)\((?P<arguments>.*)\)")
_REGISTER: Final = re.compile(r"llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.([xyz])")


def _c_name(text: str) -> str:
    """The name of a register or global in C."""
    return re.sub(r"\W", "_", text[1:])


def _conversion(name: str) -> _Rule:
    return lambda code, result, rest: code.convert(name, result, rest)


_RULES: Final[dict[str, _Rule]] = {
    "fneg": _TranslatedFunction.negate,
    "icmp": _TranslatedFunction.compare,
    "fcmp": _TranslatedFunction.compare,
    "select": _TranslatedFunction.select,
    "getelementptr": _TranslatedFunction.element,
    "load": _TranslatedFunction.load,
    "alloca": _TranslatedFunction.reserve,
    "call": _TranslatedFunction.call,
    "extractvalue": _TranslatedFunction.part,
    **{
        name: _conversion(name)
        for name in (
            "zext", "sext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui",
            "bitcast", "ptrtoint", "inttoptr",
        )
    },
}  # fmt: skip
"""How instructions with a result are written."""
