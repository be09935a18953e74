"""Names and docstrings: one word for one thing, nouns for types, verbs for functions.

What is checked is a short list of shapes; `docs/design.md` has the glossary.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tawny"

IRREGULAR = frozenset(
    "begun bent born bought broken built caught chosen come dealt done drawn driven eaten fallen "
    "fed felt forgotten found frozen given gone grown heard held hidden kept known laid lain led "
    "left lent lost made meant met paid said seen sent shown sold sought spelled spent spoken stood "
    "struck sunk swept taken taught thought thrown told torn understood woken won worn woven "
    "written".split()
)

NO_PARTICIPLES = frozenset(
    "bed bleed breed embed exceed feed need proceed red seed shed speed succeed".split()
)
"""Words in -ed that are nouns, adjectives or verbs in their plain form."""

FOREIGN = {"converged", "searchsorted", "sorted", "vectorized"}
"""Names that others gave: NumPy's, SciPy's, PyTorch's, JAX's, Python's."""

PUBLIC = {"affected", "executed", "reused"}
"""Names of the public interface that users have written."""

NEITHER_NOUN_NOR_VERB = frozenset(
    "across after again ahead alike alone along also always apart around as aside back before behind "
    "below beneath beside besides between beyond both by crosswise down downward either few here in "
    "inside into inward later least like long many most near nobody often others outside over own "
    "quiet several short simultaneous small some thin together twice under upward usual useful "
    "wide with within without".split()
)
"""Bare adverbs, prepositions and adjectives, which say of nothing what they say."""

FAMILIAR = {
    ("memory/budget.py", "within"), ("memory/budget.py", "least"),
    ("memory/recompute/search.py", "within"), ("engine/llvm/ir/control.py", "again"),
    ("engine/llvm/ir/control.py", "either"), ("engine/llvm/ir/values.py", "by"),
    ("engine/llvm/ir/values.py", "like"), ("graph/profile/profile.py", "by"),
}  # fmt: skip
"""Methods that are read with what stands before them: `budget.within(n)`, `loop.again(...)`."""

TWINS = {
    "Convolution", "Constant", "Reshape", "Slice", "Max", "Checkpoint", "Activation", "Module",
    "Schedule",
}  # fmt: skip
"""Layers and rates of the public namespaces whose names users bring along."""

PHRASES = re.compile(
    r"\b[Ss]o (many|much|long|often|far)\b|\b(that|this) is so\b|^The same\b|^What it\b|^As `|^All of it"
    r"|^(Its?|Those|These|That of)\b"  # of what stands before
    r"|^Of [^,:]*\.$|^All of [^,:]*\.$"  # a part of a sentence
    r"|^\.\.\.|(?<=[a-z]) ?\.\.\.$"  # that goes on in the next
)


def is_participle(name: str) -> bool:
    """Whether a name is a bare participle: one word that says what was done to something."""
    word = name.strip("_")
    word = word[:1].lower() + word[1:]  # of a class
    if not re.fullmatch(r"[a-z]+", word) or word in FOREIGN | PUBLIC | NO_PARTICIPLES:
        return False
    return word.endswith("ed") or word in IRREGULAR


@cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def definitions(
    tree: ast.Module,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions, classes and methods; what is local to a function is its own business."""
    stack: list[ast.AST] = [tree]
    while stack:
        for node in ast.iter_child_nodes(stack.pop()):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield node
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                stack.append(node)


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SOURCE.parent)}:{getattr(node, 'lineno', 1)}"


def test_the_lists_know_what_a_participle_is() -> None:
    assert all(map(is_participle, ["made", "_kept", "settled", "told", "_Told", "found"]))
    assert not any(
        map(
            is_participle,
            ["seed", "embed", "make", "is_made", "kept_bytes", "sorted", "FullyConnected"],
        )
    )


def test_no_module_class_or_function_is_a_bare_participle() -> None:
    bad = [
        str(path.relative_to(SOURCE)) for path, _ in modules().items() if is_participle(path.stem)
    ]
    bad += [
        f"{where(path, node)}: {node.name}"
        for path, tree in modules().items()
        for node in definitions(tree)
        if is_participle(node.name)
    ]
    assert not bad, "\n".join(bad)


def test_no_function_is_a_bare_adverb_or_preposition() -> None:
    found = {
        (str(path.relative_to(SOURCE)), node.name): f"{where(path, node)}: {node.name}"
        for path, tree in modules().items()
        for node in definitions(tree)
        if node.name.strip("_") in NEITHER_NOUN_NOR_VERB and not node.name.endswith("__")
    }
    assert found.keys() == FAMILIAR, "\n".join(found[key] for key in found.keys() - FAMILIAR)


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for node in definitions(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(where(path, node))
    twice = {n: p for n, p in places.items() if len(p) > 1 and n not in TWINS}
    assert not twice, "\n".join(f"{name}: {', '.join(found)}" for name, found in twice.items())


def documented(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Docstrings, and the strings that stand below constants and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield node, text


def test_docstrings_stand_for_themselves() -> None:
    bad = [
        f"{where(path, node)}: {text.splitlines()[0]}"
        for path, tree in modules().items()
        for node, text in documented(tree)
        if PHRASES.search(text)
    ]
    assert not bad, "\n".join(bad)


def test_docstrings_of_classes_name_the_thing() -> None:
    bad = [
        f"{where(path, node)}: {text.splitlines()[0]}"
        for path, tree in modules().items()
        for node in definitions(tree)
        if isinstance(node, ast.ClassDef) and (text := ast.get_docstring(node))
        if re.match(r"(What|How|Where|Which|When|Why)\b", text)
    ]
    assert not bad, "\n".join(bad)


def identifiers() -> set[str]:
    """Every name that the source uses or defines."""
    found: set[str] = set(dir(builtins))
    for tree in modules().values():
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.alias(name=name):
                    found.update(name.split("."))
                case _:
                    pass
    return found


def exists(quoted: str, known: set[str]) -> bool:
    """Whether a class, a module or a file that a docstring names is there; so is all else."""
    if re.fullmatch(r"[A-Z][a-z]\w*(\(.*\))?", quoted):
        return quoted.partition("(")[0] in known
    if re.fullmatch(r"(benchmarks|tests|docs|engine|graph)/[\w/]+\.\w+( .*)?", quoted):
        path = quoted.partition(" ")[0]
        return (SOURCE.parents[1] / path).exists() or (SOURCE / path).exists()
    if re.fullmatch(r"tawny(\.\w+)+", quoted):
        return all(part in known or list(SOURCE.rglob(f"{part}*")) for part in quoted.split("."))
    return True


def test_docstrings_name_what_there_is() -> None:
    known = identifiers()
    bad = [
        f"{where(path, node)}: `{quoted}`"
        for path, tree in modules().items()
        for node, text in documented(tree)
        for quoted in re.findall(r"`([^`\n]+)`", text)
        if not exists(quoted, known)
    ]
    assert not bad, "\n".join(bad)
