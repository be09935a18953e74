"""Fourier transforms of lines that fit the memory of a block of threads: one launch for all passes.

A block takes some lines.  In each pass a thread takes a few points of a line to its registers,
transforms them, and puts them back where the next pass finds them; the first pass reads memory of
the device, and the last one writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tawny.dtype import DType, complex_dtype
from tawny.engine.gpu.kernels.butterflies import product, root, transform, turn_points
from tawny.engine.gpu.kernels.fourier import PassPlace, float_bits, radices
from tawny.engine.gpu.kernels.points import PointPlaces, Points
from tawny.engine.gpu.launch import KernelCode, Launch, ThreadGrid, grid_kernel
from tawny.engine.llvm.ir.builder import I32, Function, Module, Value
from tawny.engine.llvm.scalar.numbers import Pair

BLOCK_BYTES: Final = 32 << 10
"""Bytes of memory that every device's blocks have."""

MOST_THREADS: Final = 512
"""Threads of a block."""

FEW_THREADS: Final = 128
"""Threads of a block whose lines are read one after the other, where there are as many."""

MOST_LINES: Final = 32
"""Lines of a block, side by side in memory."""

PADDING: Final = 4
"""After two to this many points a place is left free: banks of memory differ then."""


class LineStructure(NamedTuple):
    """All that the code depends on: it is made once for each."""

    dtype: DType
    """The dtype of real parts."""
    radices: tuple[int, ...]
    sign: int
    kinds: tuple[Points, Points]
    """The kinds of points that are read, and that are written."""
    is_scaled: bool
    lines: int
    """Lines of a block."""
    side_by_side: tuple[bool, bool]
    """Whether neighbouring threads read, and write, neighbouring lines."""
    turns: bool
    """Whether what is written is turned by its place and its column."""

    @property
    def points(self) -> int:
        """Points of a line."""
        count = 1
        for radix in self.radices:
            count *= radix
        return count

    @property
    def threads(self) -> int:
        """Threads of a block: as many as the pass of the fewest points has."""
        return self.lines * self.points // min(self.radices)


class LineTransform(NamedTuple):
    """Transforms of all lines of an array."""

    dtype: DType
    points: int
    sign: int
    kinds: tuple[Points, Points]
    lines: int
    """All lines of the array."""
    inner: tuple[int, int]
    """Elements of the axes after the transformed one, in what is read and in what is written."""
    lengths: tuple[int, int]
    """Elements along the axis, in both."""
    scale: float | None
    turn: int = 0
    """Of how many turns what is written is turned by one, in each place and column; 0 for none."""


def fits_block(one: LineTransform) -> bool:
    """Whether lines fit the memory of a block, and are worth it: one pass needs none."""
    own = radices(one.points)
    return own is not None and len(own) > 1 and _lines(one, own) > 0


def _lines(one: LineTransform, passes: Sequence[int]) -> int:
    """Lines of a block; 0 where not even one fits."""
    each, item = one.points // min(passes), complex_dtype(one.dtype).itemsize
    wanted = MOST_LINES if max(one.inner) > 1 else max(FEW_THREADS // each, 1)
    fitting = BLOCK_BYTES // (_room_of(one.points) * item)
    return min(wanted, fitting, MOST_THREADS // each, one.lines)


def line_launch(one: LineTransform, source: PassPlace, target: PassPlace) -> Launch:
    """The launch of transforms that fit a block."""
    own = radices(one.points)
    assert own is not None
    lines = _lines(one, own)
    structure = LineStructure(
        one.dtype,
        tuple(own),
        one.sign,
        one.kinds,
        one.scale is not None,
        lines,
        (one.inner[0] > 1, one.inner[1] > 1),
        one.turn > 0,
    )
    numbers = one.lines, source.start, target.start, *one.inner, *one.lengths, one.turn
    return Launch(
        KernelCode(write_lines, structure, long=True),
        (source.number, target.number),
        (*numbers, float_bits(one.scale or 1.0)),
        -(-one.lines // lines),
        structure.threads,
    )


def _room_of(points: int) -> int:
    """Places that points take in memory of the block."""
    return points + (points >> PADDING) + 1


# ------------------------------------------------------------------------ writing

NUMBERS: Final = 9


def write_lines(module: Module, name: str, structure: LineStructure) -> None:
    """Write the kernel that transforms lines."""
    with grid_kernel(module, name, 2, NUMBERS) as grid:
        _LineWriter(grid, structure).write()


class _LineWriter:
    """Writes a kernel whose blocks transform some lines each."""

    def __init__(self, grid: ThreadGrid, structure: LineStructure) -> None:
        self.grid, self.f, self.structure = grid, grid.f, structure
        f, (_, source, target, *_, scale) = grid.f, grid.numbers
        total, _, _, *numbers = (f.convert("trunc", n, I32) for n in grid.numbers[:-1])
        self.total, self.turn = total, numbers[-1]
        points = f.constant(I32, structure.points)
        self.places = PointPlaces(
            grid,
            structure.dtype,
            structure.kinds,
            (source, target),
            (points, *numbers[:-1]),
            scale if structure.is_scaled else None,
        )
        item = complex_dtype(structure.dtype).itemsize
        nbytes = structure.lines * _room_of(structure.points) * item
        shared = f.module.shared_array(f"points{nbytes}", nbytes)
        self.shared, self.kind = f.shared_address(shared), self.places.kind
        self.thread, self.block = grid.register("tid"), grid.register("ctaid")

    def write(self) -> None:
        """Pass after pass."""
        f, own = self.f, self.structure
        done = 1
        for number, radix in enumerate(own.radices):
            first, last = number == 0, number == len(own.radices) - 1
            groups = own.points // radix
            count = own.lines * groups
            beside = own.side_by_side[0 if first else 1] if first or last else False
            is_own = self.thread < count
            thread = f.minimum(self.thread, count - 1) if count < own.threads else self.thread
            sizes = (own.lines, groups) if beside else (groups, own.lines)
            rest, over = thread.unsigned_rest(sizes[0]), thread.unsigned_over(sizes[0])
            local, group = (rest, over) if beside else (over, rest)
            points = self._read(first, local, group, groups, radix)
            if not first:
                self.grid.barrier()
            within = group.unsigned_rest(done)
            if not first:
                whole = f.constant(I32, done * radix)
                points = turn_points(f, points, within, whole, own.sign)
            points = transform(f, points, own.sign)
            start = (group - within) * radix + within
            with f.when(is_own):
                self._write(last, local, start, done, points)
            if not last:
                self.grid.barrier()
            done *= radix

    def _read(self, first: bool, local: Value, group: Value, groups: int, radix: int) -> list[Pair]:
        """The points of this thread."""
        f = self.f
        if not first:
            return [self._load(local, group + groups * t) for t in range(radix)]
        number = f.minimum(self.block * self.structure.lines + local, self.total - 1)
        inner = self.places.given_inner
        line, column = number.unsigned_over(inner), number.unsigned_rest(inner)
        return [self.places.read(group + groups * t, line, column) for t in range(radix)]

    def _write(self, last: bool, local: Value, start: Value, step: int, points: list[Pair]) -> None:
        """Put points where the next pass, or whoever reads the result, finds them."""
        f = self.f
        if not last:
            for t, point in enumerate(points):
                self._keep(local, start + step * t, point)
            return
        number = self.block * self.structure.lines + local
        with f.when(number < self.total):
            inner = self.places.made_inner
            line, column = number.unsigned_over(inner), number.unsigned_rest(inner)
            for t, point in enumerate(points):
                place = start + step * t
                if self.structure.turns:
                    by = root(f, self.kind, place * column, self.turn, self.structure.sign)
                    point = product(point, by)  # noqa: PLW2901
                self.places.write(place, point, line, column)

    # ------------------------------------------------------------ memory of the block

    def _address(self, local: Value, place: Value) -> Value:
        item = 2 * self.kind.nbytes
        padded = place + place.shifted_down(PADDING)
        number = local * _room_of(self.structure.points) + padded
        return self.f.offset(self.shared, self.grid.widen(number) * item)

    def _keep(self, local: Value, place: Value, point: Pair) -> None:
        address = self._address(local, place)
        self.f.store(point.real, address)
        self.f.store(point.imag, _second(self.f, address, point.real))

    def _load(self, local: Value, place: Value) -> Pair:
        f, address = self.f, self._address(local, place)
        first = f.load(self.kind, address)
        return Pair(first, f.load(self.kind, _second(f, address, first)))


def _second(f: Function, address: Value, first: Value) -> Value:
    """Where the imaginary part lies."""
    return f.offset(address, first.type.nbytes)
