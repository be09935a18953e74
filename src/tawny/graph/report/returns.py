"""Which nodes of a box take values back to it, as gradients do that belong to a layer.

A value goes back where it comes from an item that stands behind the box of its reader.
"""

from __future__ import annotations

from typing import Final

DEEPEST: Final = 1 << 30


class Returns:
    """For each node the depths of the boxes in which it takes values back: those it was noted for.

    Nodes are noted by their edges, in an order in which inputs come first.
    """

    def __init__(self, count: int) -> None:
        self._outside = [DEEPEST] * count
        """The depth of the box around all those boxes."""
        self._inmost = [-1] * count
        self.found = False
        """Whether any node does."""

    def note(self, source: int, reader: int, depth: int, *, goes_back: bool) -> None:
        """An edge; `depth` is that of the innermost box that holds both its ends.

        What reads a value that was brought back, in the same box, goes back too.
        """
        if goes_back:
            self.found = True
            self._outside[reader] = min(self._outside[reader], depth)
            self._inmost[reader] = DEEPEST
        if self._outside[source] < depth <= self._inmost[source]:
            self._outside[reader] = min(self._outside[reader], self._outside[source])
            self._inmost[reader] = max(self._inmost[reader], depth)

    def is_back(self, node: int, depth: int) -> bool:
        """Whether a node takes values back in the box of this depth that it is in."""
        return self._outside[node] < depth <= self._inmost[node]
