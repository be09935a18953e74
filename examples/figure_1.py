"""The program of the report's Figure 1: its graph, the order it runs in, and its values.

x2 = 2 - x1
x4 = x2 * x3
x5 = sin(x4)
"""

from __future__ import annotations

import numpy

import tawny as tw
import tawny.numpy as np
from tawny.engine.reference import run
from tawny.node import Node, toposort

x1 = tw.var("x1", shape=(2, 3))
x3 = tw.var("x3", shape=(2, 3))
x2 = 2 - x1
x4 = x2 * x3
x5 = np.sin(x4)

NAMES = {x1.node: "x1", x2.node: "x2", x3.node: "x3", x4.node: "x4", x5.node: "x5"}
SIGNS = {"subtract": "-", "multiply": "*", "variable": "Var", "constant": "Const"}


def label(node: Node) -> str:
    """The vertex as the report draws it: operation and name."""
    op = node.op.facts().name
    return f"{SIGNS.get(op, op)}: {NAMES.get(node) or node.value}"


def main() -> None:
    """Show the graph, the order and the values."""
    order = toposort([x5.node])

    print("Graph (each vertex, and the vertices it reads):")
    for node in order:
        reads = ", ".join(label(i) for i in node.inputs)
        where = f"{node.dtype}{list(node.shape)}"
        print(f"  {label(node):<10} {where:<16} {'<- ' + reads if reads else ''}")

    print("\nOrder (post-order depth-first from the output):")
    print("  " + "  ->  ".join(label(n) for n in order))

    a = numpy.arange(6.0).reshape(2, 3)
    b = numpy.full((2, 3), 0.5)
    steps = [x2, x4, x5]
    values = run([n.node for n in steps], {x1.node: a, x3.node: b})
    print("\nValues, for x1 = 0..5 and x3 = 0.5:")
    for name, value in zip(("x2", "x4", "x5"), values, strict=True):
        print(f"  {name} = " + numpy.array2string(value, precision=4).replace("\n", "\n" + " " * 7))

    numpy.testing.assert_array_equal(values[2], numpy.sin((2 - a) * b))
    print("\nThe same program in NumPy gives the same bits.")


if __name__ == "__main__":
    main()
