"""The pass that makes groups: elementwise ops and reductions that run as one kernel each.

`choice` says which nodes run together, and why; here they become `Group` nodes.  A flow that
has groups already loses them first, so the pass gives the same groups again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tawny.dtype import kind_of
from tawny.node import Node, Part, make, part, source_scope, toposort
from tawny.op import Op, Type
from tawny.ops.body import FOLDS, Body, BodyStep
from tawny.ops.fusion import Group, expand_group
from tawny.ops.reduction import CHOOSING, Reduction
from tawny.rewrite.flow import Context, Flow, Kind, Pass, RuleInfo, RunKey, sources_of, with_inputs
from tawny.rewrite.groups.choice import MOST_STEPS, GroupChoice, choose_groups
from tawny.rewrite.groups.tables import FREE, VIEW
from tawny.rewrite.lifetimes import is_leaf
from tawny.shape import size

GROUP: Final = RuleInfo(
    "group", Kind.EXACT, "elementwise ops and reductions over one space run as one kernel"
)
GROUP_SUMS: Final = RuleInfo(
    "group", Kind.CONTRACTING, "floating-point sums in one kernel are added in its order"
)


def grouping_pass(
    run_keys: Callable[[Sequence[Node]], RunKey] | None = None,
    should_group: Callable[[Body], bool] | None = None,
    min_group_size: int = 0,
    note_ungrouped_bytes: Callable[[int], None] | None = None,
    alignment: int = 64,
    most_steps: int = MOST_STEPS,
) -> Pass:
    """The pass; with `run_keys`, only nodes with the same run key are in one group.

    `run_keys` is given every node, inputs first, without groups.  `should_group` says whether a
    body is made a group; none is that runs over fewer than `min_group_size` and has no reduction.
    `note_ungrouped_bytes` is called with the bytes that the nodes need at least without groups,
    where this is known; places in memory are multiples of `alignment`.  A group has at most
    `most_steps`.
    """

    def run(flow: Flow, context: Context) -> Flow:
        if not context.recorder.allows(GROUP):
            return flow
        outputs, order, origins = flow.outputs, flow.order(), dict[Node, Node]()
        had = {n for n in order if _is_chosen(n)}
        if had:
            outputs, origins = expand_groups(outputs, order)
            order = toposort(outputs)
        if not _may_group(order, min_group_size):
            return flow.with_outputs(outputs)
        run_key = None if run_keys is None else run_keys(order)
        choice = choose_groups(order, outputs, run_key, alignment, most_steps)
        if note_ungrouped_bytes is not None:
            note_ungrouped_bytes(choice.ungrouped_bytes)
        sums = context.recorder.allows(GROUP_SUMS)
        builder = _GroupBuilder(
            choice, origins, should_group if sums else _without_sums(should_group)
        )
        for before, group in builder.groups:
            if group not in had:
                assert isinstance(group.op, Group)
                rule = GROUP_SUMS if _rounds(group.op.body) else GROUP
                context.recorder.record(rule, before, (group,))
        return flow.with_outputs(builder.outputs(outputs))

    return Pass("group_elementwise", (GROUP, GROUP_SUMS), run)


group_elementwise: Final = grouping_pass()


def _rounds(body: Body) -> bool:
    """Whether a group adds or multiplies numbers whose order matters."""
    return any(
        isinstance(s.op, Reduction) and not isinstance(s.op, CHOOSING) and kind_of(s.dtype) in "fc"
        for s in body.steps
    )


def _without_sums(should_group: Callable[[Body], bool] | None) -> Callable[[Body], bool]:
    """A condition for groups that keep every bit and pass `should_group`."""
    return lambda body: not _rounds(body) and (should_group is None or should_group(body))


def _may_group(order: Sequence[Node], least: int) -> bool:
    """Whether something has as many elements as a group, or is a reduction."""
    if not least:
        return True
    return any(isinstance(n.op, FOLDS) or size(n.shape) >= least for n in order if not is_leaf(n))


def expand_groups(
    outputs: Sequence[Node], order: Sequence[Node]
) -> tuple[tuple[Node, ...], dict[Node, Node]]:
    """The outputs with every group replaced by its ops, and the origin of each node made anew."""
    origins: dict[Node, Node] = {}
    done: dict[Node, Node] = {}
    results: dict[Node, tuple[Node, ...]] = {}
    for node in order:
        if is_leaf(node):
            done[node] = node
            continue
        if type(node.op) is Part and node.inputs[0] in results:
            done[node] = results[node.inputs[0]][node.op.index]
            continue
        inputs = tuple([done[i] for i in node.inputs])
        if _is_chosen(node):
            results[node] = expand_group(node, inputs)
            done[node] = results[node][0]
            continue
        done[node] = with_inputs(node, inputs)
        if done[node] is not node:
            origins[done[node]] = node
    return tuple([done[n] for n in outputs]), origins


def _is_chosen(node: Node) -> bool:
    """Whether a node is a group that this pass made."""
    return type(node.op) is Group and not node.op.repeats


class _GroupBuilder:
    """Builds the graph of the chosen units."""

    def __init__(
        self,
        choice: GroupChoice,
        origins: Mapping[Node, Node],
        should_group: Callable[[Body], bool] | None = None,
    ) -> None:
        self.choice = choice
        self.should_group = should_group
        self.tables = tables = choice.tables
        self.origins = origins
        self.replacements: list[Node | None] = [
            None if kind else node for node, kind in zip(tables.order, tables.kind, strict=True)
        ]
        """What stands for each node, once it is made."""
        self.groups: list[tuple[list[Node], Node]] = []
        self.ops: dict[tuple[object, ...], Group | None] = {}
        """Groups of the same ops on operands of the same types are one op; None: no group."""
        for item in choice.sequence:
            if isinstance(item, int):
                self._keep_alone(item)
            elif len(item.members) == 1:
                self._keep_alone(item.members[0])
            else:
                self._build_group(sorted(item.members))

    def outputs(self, outputs: Sequence[Node]) -> tuple[Node, ...]:
        """What stands for the outputs."""
        index = self.tables.index
        return tuple([self._node(index[n]) for n in outputs])

    def _node(self, i: int) -> Node:
        """What stands for a node whose inputs have been made; views are made now."""
        known = self.replacements[i]
        if known is not None:
            return known
        path: list[int] = []
        while known is None:
            assert self.tables.kind[i] in (FREE, VIEW), "units come in order"
            path.append(i)
            i = self.tables.reads[i][0]
            known = self.replacements[i]
        for view in reversed(path):
            known = self.replacements[view] = self._with_inputs(view, (known,))
        return known

    def _with_inputs(self, i: int, inputs: tuple[Node, ...]) -> Node:
        """The node with other inputs: the one the flow had, where it had one."""
        node = self.tables.order[i]
        return with_inputs(self.origins.get(node, node), inputs)

    def _keep_alone(self, i: int) -> None:
        made = self.replacements
        inputs = tuple([made[k] or self._node(k) for k in self.tables.reads[i]])
        made[i] = self._with_inputs(i, inputs)

    def _build_group(self, members: list[int]) -> None:
        nodes = [self.tables.order[i] for i in members]
        results = [i for i in members if self.choice.result[i]]
        operands, op = self._group_op(members, results)
        if op is None:
            for i in members:
                self._keep_alone(i)
            return
        with source_scope(sources_of(nodes)):
            group = make(op, operands)
            if len(results) == 1:
                self.replacements[results[0]] = group
            else:
                for number, i in enumerate(results):
                    self.replacements[i] = part(group, number)
        self.groups.append((nodes, group))

    def _operand_position(self, i: int) -> int:
        """Where an operand is in the order; leaves come last."""
        return i if self.tables.kind[i] else len(self.replacements)

    def _group_op(
        self, members: list[int], results: list[int]
    ) -> tuple[tuple[Node, ...], Group | None]:
        """The operands of a group, in the order they are made, leaves last, and its op if any.

        Results that no other step reads come last, so that they can be written over operands.
        """
        tables = self.tables
        order, reads, base = tables.order, tables.reads, tables.base
        inside = set(members)
        outside: dict[int, None] = {}
        needed: list[int] = []
        taken: set[int] = set()
        for i in members:
            for read in reads[i]:
                source = base[read]
                if source not in inside:
                    outside[source] = None
                path: list[int] = []
                while read != source and read not in taken:
                    path.append(read)
                    read = reads[read][0]  # noqa: PLW2901  (down to what is viewed)
                taken.update(path)
                needed.extend(reversed(path))
            needed.append(i)
        if len(results) > 1:
            inner = {s for i in needed for s in reads[i]}
            last = [i for i in results if i not in inner]
            needed = [*[i for i in needed if i not in last], *last]
        operands = sorted(outside, key=self._operand_position)
        numbers = {s: number for number, s in enumerate(operands)}
        calls: list[tuple[Op, tuple[int, ...]]] = []
        number = numbers.__getitem__
        for i in needed:
            numbers[i] = len(numbers)
            calls.append((order[i].op, tuple(map(number, reads[i]))))
        given = tuple([self._node(s) for s in operands])
        types: tuple[Type, ...] = tuple([(n.shape, n.dtype) for n in given])
        key = (types, tuple(calls), tuple(map(number, results)))
        if key not in self.ops:
            steps = [
                BodyStep(op, inputs, order[i].shape, order[i].dtype)
                for i, (op, inputs) in zip(needed, calls, strict=True)
            ]
            body = Body.of(types, tuple(steps), key[-1])
            self.ops[key] = (
                Group(body) if self.should_group is None or self.should_group(body) else None
            )
        return given, self.ops[key]
