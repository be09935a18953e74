"""The ops that can be computed in blocks, and how: one table."""

from __future__ import annotations

from typing import Final

from tawny.distributed.blocks.creation import CREATION_RULES
from tawny.distributed.blocks.cuts import POINTWISE, Rule
from tawny.distributed.blocks.lanes import LANE_RULES
from tawny.distributed.blocks.movement import MOVEMENT_RULES
from tawny.distributed.blocks.products import PRODUCT_RULES
from tawny.node import Node
from tawny.op import Elementwise, Family
from tawny.ops.bounds import CheckedIndices
from tawny.ops.creation import Cast
from tawny.ops.differentiation import StopGradient
from tawny.ops.movement import Copy

RULES: Final[dict[Family, Rule]] = {
    **dict.fromkeys((Cast, Copy, StopGradient, CheckedIndices), POINTWISE),
    **MOVEMENT_RULES,
    **CREATION_RULES,
    **LANE_RULES,
    **PRODUCT_RULES,
}
"""Beside these all elementwise ops; ops that are not among them are computed whole."""


def rule_of(node: Node) -> Rule | None:
    """The rule for a node, if it can be computed in blocks."""
    rule = POINTWISE if type(node.op) is Elementwise else RULES.get(node.op.family)
    return rule if rule is not None and rule.applies(node) else None
