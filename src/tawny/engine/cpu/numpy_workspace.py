"""Memory that NumPy takes beside the arena for the steps it computes, as far as it is known.

It is planned as these steps' scratch memory.  NumPy makes a new array for each result, which is
then copied to its place.
"""

from __future__ import annotations

from tawny.engine.reference import INTO
from tawny.engine.reference.executable import single_ufunc
from tawny.engine.reference.kernel import WORKSPACES
from tawny.engine.reference.workspace import bytes_of_results
from tawny.node import Node


def numpy_workspace_bytes(node: Node) -> int:
    """Bytes that NumPy takes while it computes a node."""
    if single_ufunc(node) is not None:
        return 0
    results = 0 if type(node.op) in INTO else bytes_of_results(node)
    workspace = WORKSPACES.get(type(node.op))
    return results + (0 if workspace is None else workspace(node))
