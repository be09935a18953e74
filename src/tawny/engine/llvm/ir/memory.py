"""Instructions on memory: addresses, loads and stores, also of several threads at one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tawny.engine.llvm.ir.instructions import Instructions
from tawny.engine.llvm.ir.values import I1, I8, I32, I64, PTR, VOID, Type, Value, pointer

if TYPE_CHECKING:
    from tawny.engine.llvm.ir.builder import Module


class MemoryInstructions(Instructions):
    """The instructions of a function being written, those on memory among them."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._entry: list[str] = []
        """Lines of the first block, which runs once: it reserves the buffers on the stack."""

    def element(self, base: Value, index: Value | int, type: Type) -> Value:
        """The address of element `index` of an array."""
        place = index if isinstance(index, Value) else self.constant(I64, index)
        return self.emit(base.type, f"getelementptr {type}, {base}, {place}")

    def offset(self, base: Value, nbytes: Value | int) -> Value:
        """The address `nbytes` bytes past another."""
        return self.element(base, nbytes, I8)

    def load(self, type: Type, address: Value, align: int | None = None) -> Value:
        """What lies at an address; aligned to an element unless more is promised."""
        return self.emit(type, f"load {type}, {address}, align {align or type.nbytes}")

    def store(self, value: Value, address: Value, align: int | None = None) -> None:
        """Write a value at an address."""
        self.effect(f"store {value}, {address}, align {align or value.type.nbytes}")

    def masked_load(self, type: Type, address: Value, mask: Value, other: Value) -> Value:
        """Lanes of a vector in memory where the mask holds, those of `other` elsewhere."""
        align, types = self.constant(I32, type.nbytes), (type, address.type)
        return self.intrinsic("masked.load", type, address, align, mask, other, overload=types)

    def masked_store(self, value: Value, address: Value, mask: Value) -> None:
        """Write the lanes where the mask holds."""
        align, types = self.constant(I32, value.type.nbytes), (value.type, address.type)
        self.intrinsic("masked.store", VOID, value, address, align, mask, overload=types)

    def cell(self, row: Value, number: int, type: Type = I64) -> Value:
        """A cell of 8 bytes of the row that a kernel is called with: an address or a parameter."""
        return self.load(type, self.element(row, number, I64), 8)

    def shared_address(self, name: str) -> Value:
        """Where an array lies that the threads of a block share."""
        return Value(self, pointer(self.module.target.shared_space), f"@{name}")

    def stack_buffer(self, nbytes: int, align: int = 64) -> Value:
        """Bytes on the stack, reserved once however often the place is passed."""
        name = f"%{self.fresh('buffer')}"
        self._entry.append(f"  {name} = alloca [{nbytes} x i8], align {align}")
        return Value(self, PTR, name)

    def stack_array(self, nbytes: Value) -> Value:
        """As many bytes on the stack as a value says, anew each time that the place is passed."""
        return self.emit(PTR, f"alloca i8, {nbytes}, align 64")

    def move(self, target: Value, source: Value, nbytes: Value) -> None:
        """Copy bytes to a place that may overlap theirs."""
        types = target.type, source.type, nbytes.type
        plain = self.constant(I1, 0)
        self.intrinsic("memmove", VOID, target, source, nbytes, plain, overload=types)

    # -------------------------------------------------------------- several threads

    def load_atomic(self, type: Type, address: Value, order: str) -> Value:
        """What lies at an address that other threads write to, in LLVM's order `order`."""
        return self.emit(type, f"load atomic {type}, {address} {order}, align {type.nbytes}")

    def store_atomic(self, value: Value, address: Value, order: str) -> None:
        """Write a value at an address that other threads use."""
        self.effect(f"store atomic {value}, {address} {order}, align {value.type.nbytes}")

    def update_atomic(self, name: str, address: Value, value: Value, order: str) -> Value:
        """Change what lies at an address by LLVM's operation `name`; what was there before."""
        return self.emit(value.type, f"atomicrmw {name} {address}, {value} {order}")

    def replace_atomic(
        self, address: Value, expected: Value, value: Value, order: str, order_if_not: str
    ) -> tuple[Value, Value]:
        """Write a value where another one is expected; what was there, and whether it was that."""
        kind = Type(f"{{ {value.type}, i1 }}")
        both = self.emit(kind, f"cmpxchg {address}, {expected}, {value} {order} {order_if_not}")
        found, done = (f"extractvalue {both}, {i}" for i in range(2))
        return self.emit(value.type, found), self.emit(I1, done)

    def pause(self) -> None:
        """Tell the processor that this thread waits for another one."""
        match self.module.target.triple.partition("-")[0]:
            case "x86_64":
                self.intrinsic("x86.sse2.pause", VOID, overload=())
            case "aarch64":
                self.intrinsic("aarch64.hint", VOID, self.constant(I32, 1), overload=())
            case _:
                pass
