"""Graphs of which a part stays in PyTorch, cut into what is computed here and what is not."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from tawny.pytorch.library import RANDOM, draw_mask, op_name, operator_support, partitioner, torch
from tawny.pytorch.record import Missing, example_input, record
from tawny.pytorch.table import UnsupportedError

LOG: Final = logging.getLogger("tawny")

VIEWS: Final = frozenset(
    {
        "aten.alias.default",
        "aten.detach.default",
        "aten.diagonal.default",
        "aten.expand.default",
        "aten.permute.default",
        "aten.select.int",
        "aten.slice.Tensor",
        "aten.squeeze.default",
        "aten.squeeze.dim",
        "aten.squeeze.dims",
        "aten.t.default",
        "aten.transpose.int",
        "aten.unsqueeze.default",
        "aten.view.default",
    }
)
"""Ops whose result shares the memory of their operand."""

_NAMED: Final[set[str]] = set()
"""Ops of which the log has said that they stay in PyTorch."""


def find_missing(module: Any) -> Missing:
    """The nodes of a graph that stay in PyTorch, and why."""
    missing: Missing = {}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    record(module, [_example_or_none(node) for node in placeholders], missing)
    return missing


def _example_or_none(node: Any) -> Any:
    """A variable for an argument; None for one that is no tensor of ours, nor a number."""
    try:
        return example_input(node.meta.get("val"), node.name)
    except (UnsupportedError, AttributeError):
        return None


def note_missing(missing: Missing) -> None:
    """Say in the log, once for each op, what stays in PyTorch."""
    for node, reason in missing.items():
        name = op_name(node.target) if node.op == "call_function" else node.name
        if name not in _NAMED:
            _NAMED.add(name)
            LOG.warning("torch.compile: %s stays in PyTorch: %s", name, reason)


def draw_apart(module: Any) -> None:
    """Let dropout draw its mask by itself, of nothing that is computed; so it cuts no graph.

    The mask is drawn as PyTorch's own dropout draws it, in the same order.
    """
    drops = "aten.native_dropout.default"
    for node in [node for node in module.graph.nodes if str(node.target) == drops]:
        like = node.meta.get("val")
        sizes, strides = tuple(like[1].shape), tuple(like[1].stride())
        if not node.args[2] or not all(isinstance(n, int) for n in (*sizes, *strides)):
            continue
        x, share = node.args[0], float(node.args[1])
        aten, graph = torch.ops.aten, module.graph
        with graph.inserting_before(node):
            drawn = graph.call_function(draw_mask, (sizes, strides, share))
            drawn.meta["val"] = like[1]
            number = graph.call_function(aten._to_copy.default, (drawn,), {"dtype": like[0].dtype})
            scale = graph.call_function(
                aten.mul.Tensor, (number, 0.0 if share == 1 else 1 / (1 - share))
            )
            found = graph.call_function(aten.mul.Tensor, (x, scale))
            for made in (number, scale, found):
                made.meta["val"] = like[0]
        for user in [*node.users]:
            user.replace_all_uses_with((found, drawn)[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
        module.recompile()


def split(module: Any, missing: Missing, build: Callable[[Any], Any]) -> Any:
    """The module with all that can be computed here replaced by what `build` makes of it."""

    def is_supported(_: object, node: Any) -> bool:
        return _is_ours(node, missing)

    support = operator_support.create_op_support(is_supported)
    cutter = partitioner.CapabilityBasedPartitioner(
        module, support, allows_single_node_partition=True
    )
    worth = [p for p in cutter.propose_partitions() if _has_work(p.nodes)]
    draws = _draws(module)
    whole = copy.deepcopy(module) if len(draws) > 1 else module
    fused = cutter.fuse_partitions(worth)
    if _draws(fused) != draws:
        LOG.warning("torch.compile: a graph stays in PyTorch: its draws would change their order")
        return whole
    for name, child in [*fused.named_children()]:
        if name.startswith("fused_"):
            delattr(fused, name)
            setattr(fused, name, build(child))
    return fused


def _draws(module: Any) -> list[str]:
    """The nodes that draw random numbers, in order."""
    return [n.name for n in module.graph.nodes if n.target is draw_mask or str(n.target) in RANDOM]


def _is_ours(node: Any, missing: Missing) -> bool:
    """Whether a node is computed here; one of several results if they all are."""
    if node.target is operator.getitem:
        return _is_ours(node.args[0], missing)
    return node.op in ("call_function", "get_attr") and node not in missing


def _has_work(nodes: Iterable[Any]) -> bool:
    """Whether anything is computed in a part, and not just looked at in another way."""
    return any(
        n.op == "call_function" and str(n.target).startswith("aten.") and str(n.target) not in VIEWS
        for n in nodes
    )
