"""The program of the report's Figure 1: its graph, the order it runs in, its memory, its values.

x2 = 2 - x1
x4 = x2 * x3
x5 = sin(x4)
"""

from __future__ import annotations

import numpy

import tawny as tw
import tawny.numpy as np
from tawny.node import Node

x1 = tw.var("x1", shape=(2, 3))
x3 = tw.var("x3", shape=(2, 3))
x2 = 2 - x1
x4 = x2 * x3
x5 = np.sin(x4)

NAMES = {x.node: f"x{i}" for i, x in enumerate((x1, x2, x3, x4, x5), 1)}
SIGNS = {"subtract": "-", "multiply": "*", "variable": "Var", "constant": "Const"}


def label(node: Node) -> str:
    """The vertex as the report draws it: operation and name."""
    op = node.op.facts().name
    return f"{SIGNS.get(op, op)}: {NAMES.get(node) or node.value}"


def show(name: str, value: numpy.ndarray) -> None:
    """Print a value under its name."""
    print(f"  {name} = " + numpy.array2string(value, precision=4).replace("\n", "\n" + " " * 7))


def main() -> None:
    """Show graph, order, plan and values, then change one input."""
    graph = tw.Graph(inputs=[x1, x3], outputs=[x2, x4, x5])

    print("Graph (each vertex, and the vertices it reads):")
    for node in graph.order:
        reads = ", ".join(label(i) for i in node.inputs)
        where = f"{node.dtype}{list(node.shape)}"
        print(f"  {label(node):<10} {where:<16} {'<- ' + reads if reads else ''}".rstrip())

    print("\nOrder (post-order depth-first from the output):")
    print("  " + "  ->  ".join(label(n) for n in graph.order))

    a, b, c = numpy.arange(6.0).reshape(2, 3), numpy.full((2, 3), 0.5), numpy.full((2, 3), 2.0)
    program = graph.compile()
    values = program(x1=a, x3=b)
    print("\nValues, for x1 = 0..5 and x3 = 0.5:")
    for name, value in zip(("x2", "x4", "x5"), values, strict=True):
        show(name, value)
    numpy.testing.assert_allclose(values[2], numpy.sin((2 - a) * b), rtol=1e-15)
    print("The same program in NumPy gives the same numbers.")

    *_, last = program(x3=c)
    print("\nAfter changing x3 alone to 2:")
    show("x5", last)
    numpy.testing.assert_allclose(last, numpy.sin((2 - a) * c), rtol=1e-15)
    print("  computed again: " + ", ".join(NAMES[x.node] for x in program.last_run.executed))
    print("  reused:         " + ", ".join(NAMES[x.node] for x in program.last_run.reused))

    plan = tw.Graph(inputs=[x1, x3], outputs=[x5]).plan()
    print("\nMemory, when only x5 is asked for:")
    print("  " + str(plan).replace("\n", "\n  "))


if __name__ == "__main__":
    main()
