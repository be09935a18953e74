"""Which nodes run together: units of an order, chosen so that the units form no cycle.

Nodes are placed one by one, readers first.  A node joins the units that read it, making one of
them, when it fits their loops (`loops`), the bounds below, and memory: running both as one
must not need more bytes, whatever the order of the rest (`memory`).  Otherwise it begins a
unit, which is offered to its readers again when it reads something else.  At last what is left is
offered again in a good order of all units, as long as that stays good (`schedule`).  Where
the planner would still need more than for the nodes alone, units are taken apart (`relief`).

Two units become one only if every path from one to the other is direct: who else reads what the
first makes comes after the second, or the second reads nothing else that is computed.  So there is
never a cycle.

A value that is merely stretched to the space is computed outside: it would be computed again for
each row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

from tawny.node import Node
from tawny.op import Elementwise, Op
from tawny.rewrite.flow import RunKey
from tawny.rewrite.groups.loops import LoopFit, loop_fit, share_loops
from tawny.rewrite.groups.memory import MemoryCheck
from tawny.rewrite.groups.relief import relieve
from tawny.rewrite.groups.schedule import LARGEST, SMALL, PlannedUnits, UnitSchedule
from tawny.rewrite.groups.tables import PLAIN, POINTWISE, REDUCTION, VIEW, NodeTables
from tawny.rewrite.groups.units import GroupUnit, UnitTable
from tawny.scalar import Expr, Prim, PrimCall

MOST_STEPS: Final = 64
"""Ops in a group, at most: long straight-line code compiles slowly.

Where every step costs a launch, groups of ops that are one instruction each have more.
"""

INSTRUCTIONS: Final = frozenset(
    {
        *(Prim.ADD, Prim.SUB, Prim.MUL, Prim.NEG, Prim.POS, Prim.ABS, Prim.SELECT),
        *(Prim.MAX, Prim.MIN, Prim.EQ, Prim.NE, Prim.LT, Prim.LE, Prim.GT, Prim.GE),
    }
)
"""Primitives that are an instruction or two of every processor."""

INSTRUCTION_OPS: Final = 1024
"""Ops of which it is remembered whether they are an instruction: those that were asked for last."""

MOST_INPUTS: Final = 16
"""Arrays of more than one element that a group reads, or reads parts of, at most."""

MOST_RESULTS: Final = 12
"""Arrays that a group makes, at most."""

MOST_REFUSED: Final = 4
"""Readers that a unit is offered to again, at most."""


class GroupChoice:
    """The units of an order of nodes; `sequence` has units, and nodes that run alone, in order."""

    def __init__(
        self,
        order: Sequence[Node],
        outputs: Sequence[Node],
        run_key: RunKey | None = None,
        alignment: int = 1,
        most_steps: int = MOST_STEPS,
        *,
        certain: bool = False,
    ) -> None:
        """With `certain`, only what certainly takes no more memory is united."""
        self._most_steps = most_steps
        self.tables = tables = NodeTables(order, outputs, run_key, alignment)
        self._units = UnitTable(tables)
        self._memory = MemoryCheck(self._units)
        self._schedule: UnitSchedule | None = None
        self._planned: PlannedUnits | None = None
        self.is_doubtful = False
        """Whether the planner may find no order as good as before what is uncertain was united."""
        self.ungrouped_bytes = 0
        """Bytes that the nodes alone need in a good order, at least; 0 if that is not known."""
        begun: list[GroupUnit] = []
        alone: list[int] = []
        for i in range(len(order) - 1, -1, -1):
            kind = tables.kind[i]
            if kind >= POINTWISE:
                if not self._join_if_free(i):
                    begun.append(self._place_node(i))
            elif kind == PLAIN:
                alone.append(i)
                for b in tables.sources[i]:
                    self._units.alone[b] = True
            elif kind == VIEW:
                self._units.alone[tables.base[tables.reads[i][0]]] = True
        items: list[GroupUnit | int] = [*[u for u in begun if u.merged_into is None], *alone]
        items.sort(key=_position)
        if not certain and len(items) <= LARGEST and tables.floor >= SMALL:
            items = self._unite_in_schedule(items)
        self.sequence: list[GroupUnit | int] = []
        for item in items:
            if isinstance(item, GroupUnit) and item.folded is not None and len(item.members) > 1:
                self.sequence += self._split_row_values(item)
            self.sequence.append(item)
        if not self.is_doubtful and len(items) <= LARGEST and tables.floor >= SMALL:
            planned = self._planned if len(self.sequence) == len(items) else None
            self.sequence, self.ungrouped_bytes = relieve(
                self._units, self._memory, self.sequence, planned
            )

    def _unite_in_schedule(self, items: list[GroupUnit | int]) -> list[GroupUnit | int]:
        """Unite what else may be in a good order of the units; that order."""
        if not any(isinstance(item, GroupUnit) and item.refused_readers for item in items):
            return items
        self._schedule = schedule = UnitSchedule(self._units, self._memory, items)
        for item in reversed(schedule.items):
            if isinstance(item, GroupUnit) and item.merged_into is None and item.refused_readers:
                self._offer_again(item)
        left = [u for u in schedule.items if not isinstance(u, GroupUnit) or u.merged_into is None]
        left.sort(key=schedule.at.__getitem__)
        if len(left) < len(items):
            self._planned = PlannedUnits(self._units, self._memory, left)
            self.is_doubtful = not schedule.is_matched_by(self._planned)
        return left

    @property
    def result(self) -> list[bool]:
        """Whether a member of a unit is one of its results."""
        return self._units.result

    # ------------------------------------------------------------------- placing

    def _join_if_free(self, i: int) -> bool:
        """Join a node to the one unit that reads it, if it plainly takes no more memory.

        It runs over the whole space and reads at most one thing more, which its own bytes make up
        for and which can be overwritten in its place.
        """
        units, tables = self._units, self.tables
        readers = units.readers[i]
        if not readers or units.alone[i] or tables.kind[i] != POINTWISE:
            return False
        unit = units.of[readers[0]]
        assert unit is not None
        for k in readers:
            if units.of[k] is not unit:
                return False
        if tables.space[i] != unit.space or not self._may_be_one(unit.members, [i]):
            return False
        if tables.run_keys is not None and tables.run_keys[i] != tables.run_keys[readers[0]]:
            return False
        cost, free, inputs = self._memory.cost, self._memory.free, unit.inputs
        item = tables.item[i]
        fresh = -1
        for b in tables.sources[i]:
            if cost[b] and b not in inputs and b != fresh:
                if fresh >= 0 or free[b] != item or tables.output[i]:
                    return False
                if tables.extent[b] != unit.space:
                    return False
                fresh = b
        if len(inputs) >= MOST_INPUTS and not self._reads_few(unit, i):
            return False
        if tables.output[i]:
            if len(unit.results) >= MOST_RESULTS:
                return False
            unit.results.append(i)
            unit.result_bytes += tables.bytes[i]
            units.result[i] = True
        unit.members.append(i)
        inputs.pop(i, None)
        units.enter(i, unit)
        if unit.refused_readers and (
            fresh < 0 or any(fresh in _current(u).inputs for u in unit.refused_readers)
        ):
            self._offer_again(unit)
        return True

    def _may_be_one(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """Whether nodes are few enough for a group."""
        count = len(some) + len(others)
        if count <= MOST_STEPS or count > self._most_steps:
            return count <= MOST_STEPS
        order = self.tables.order
        return all(_is_instruction(order[i].op) for i in chain(some, others))

    def _place_node(self, i: int) -> GroupUnit:
        """Begin a unit with a node, and unite it with those that read it where that is allowed."""
        units = self._units
        begun = unit = units.begin(i)
        for k in units.readers[i]:
            reader = units.member(k)
            if reader is not unit and reader not in unit.refused_readers:
                self._unite_if_allowed(unit, reader)
                unit = _current(unit)
        return begun

    def _offer_again(self, unit: GroupUnit) -> None:
        """Try again to unite a unit with readers that were refused."""
        refused, unit.refused_readers = unit.refused_readers, ()
        for reader in dict.fromkeys(map(_current, refused)):
            unit = _current(unit)
            if _current(reader) is not unit:
                self._unite_if_allowed(unit, _current(reader))

    def _unite_if_allowed(self, maker: GroupUnit, reader: GroupUnit) -> None:
        """Unite two units if that is allowed."""
        if not self._may_be_one(maker.members, reader.members):
            return
        run_keys = self.tables.run_keys
        if run_keys is not None and run_keys[maker.members[0]] != run_keys[reader.members[0]]:
            return
        schedule = self._schedule
        if schedule is None and self._memory.is_hopeless(maker, reader):
            self._refuse(maker, reader)
            return
        fit = loop_fit(self._units, maker, reader)
        if fit is LoopFit.NONE or not self._are_bounded(maker, reader):
            return
        late, early = self._memory.may_run_late, self._memory.may_run_early
        if schedule is not None:
            late, early = schedule.may_wait, schedule.may_advance
        if late(maker, reader):
            at = reader.position
        elif early(maker, reader):
            at = maker.position
        else:
            self._refuse(maker, reader)
            return
        share_loops(self._units, maker, reader, fit)
        unit = self._units.unite(maker, reader, at)
        if schedule is not None:
            schedule.note_move(unit)
        if unit.refused_readers:
            self._offer_again(unit)

    def _refuse(self, maker: GroupUnit, reader: GroupUnit) -> None:
        if len(maker.refused_readers) < MOST_REFUSED:
            maker.refused_readers = (*maker.refused_readers, reader)

    def _are_bounded(self, maker: GroupUnit, reader: GroupUnit) -> bool:
        """Whether two units together read and make few enough arrays."""
        if len(maker.results) + len(reader.results) > MOST_RESULTS:
            units, output = self._units, self.tables.output
            kept = [
                r for r in maker.results if output[r] or units.is_read_by_others(r, (maker, reader))
            ]
            if len(kept) + len(reader.results) > MOST_RESULTS:
                return False
        if len(maker.inputs) + len(reader.inputs) <= MOST_INPUTS:
            return True
        return self._are_few({*maker.inputs, *reader.inputs}.difference(maker.results))

    def _reads_few(self, unit: GroupUnit, i: int) -> bool:
        """Whether a unit that node `i` joins reads few enough arrays."""
        return self._are_few({*unit.inputs, *self.tables.sources[i]} - {i})

    def _are_few(self, values: Collection[int]) -> bool:
        """Whether these values lie in few enough arrays of more than one element."""
        if len(values) <= MOST_INPUTS:
            return True
        owner, extent = self.tables.owner, self.tables.extent
        return len({owner[b] for b in values if extent[b]}) <= MOST_INPUTS

    # ----------------------------------------------------------------- stretching

    def _split_row_values(self, unit: GroupUnit) -> list[GroupUnit]:
        """Take out row values that come after no reduction of the unit; a unit of them."""
        units, tables = self._units, self.tables
        after = set[int]()
        out: list[int] = []
        for i in sorted(unit.members):
            if not units.row[i]:
                continue
            if tables.kind[i] == REDUCTION or not after.isdisjoint(tables.sources[i]):
                after.add(i)
            else:
                out.append(i)
        if not out:
            return []
        apart = GroupUnit(out[0], tables.extent[out[0]])
        apart.members = out
        unit.members = [i for i in unit.members if i not in set(out)]
        for i in out:
            units.of[i] = apart
        for i in out:
            if units.is_read_by_others(i, (apart,)):
                units.result[i] = True
        units.reconsider(apart)
        units.reconsider(unit)
        return [apart]


def choose_groups(
    order: Sequence[Node],
    outputs: Sequence[Node],
    run_key: RunKey | None = None,
    alignment: int = 64,
    most_steps: int = MOST_STEPS,
) -> GroupChoice:
    """The units of an order; the uncertain ones only if a good order of them is found again."""
    given = order, outputs, run_key, alignment, most_steps
    choice = GroupChoice(*given)
    return GroupChoice(*given, certain=True) if choice.is_doubtful else choice


@lru_cache(INSTRUCTION_OPS)
def _is_instruction(op: Op) -> bool:
    """Whether an op is hardly more than an instruction for each element."""
    return isinstance(op, Elementwise) and _is_short(op.scalar)


def _is_short(expr: Expr, most: int = 2) -> bool:
    """Whether an expression is a few instructions, at most `most` of them within each other."""
    match expr:
        case PrimCall(prim, args):
            return most > 0 and prim in INSTRUCTIONS and all(_is_short(a, most - 1) for a in args)
        case _:
            return True


def _position(item: GroupUnit | int) -> int:
    """Where a unit or a node that runs alone stands in the order."""
    return item if isinstance(item, int) else item.position


def _current(unit: GroupUnit) -> GroupUnit:
    """The unit that a unit has become a part of."""
    while unit.merged_into is not None:
        unit = unit.merged_into
    return unit
