"""Object files of x86-64 in ELF, as LLVM emits them: where sections go, and their relocations.

Nothing here touches memory: an object is laid out as bytes for a place that is given.  What code
for this library does not need is refused, and left to LLVM's linker: sections that can be written,
memory of threads, absolute addresses of four bytes.  Tables for unwinding are left out, for nothing
unwinds through kernels.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

MOST_ALIGNED: Final = 4096
"""The place of an object is a multiple of this, so that none of its sections may ask for more."""

MOST_BYTES: Final = 64 << 20
"""Larger objects are refused."""


class UnsupportedObjectError(Exception):
    """An object that cannot be brought into memory here, though LLVM's linker may know how."""


class _Header(NamedTuple):
    ident: bytes
    kind: int
    machine: int
    version: int
    entry: int
    programs: int
    sections: int
    flags: int
    size: int
    program_size: int
    program_count: int
    section_size: int
    section_count: int
    names: int


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")

_IDENT: Final = b"\x7fELF\x02\x01\x01"
"""ELF of 64 bits, least byte first."""
_RELOCATABLE: Final = 1
_X86_64: Final = 62

_PROGRAM, _SYMBOLS, _STRINGS, _RELOCATIONS = 1, 2, 3, 4
_PLAIN_RELOCATIONS: Final = 9
_UNWINDING: Final = 0x70000001

_WRITTEN, _ALLOCATED = 0x1, 0x2
_USUAL: Final = 0x277
"""Flags of sections that are laid out one after the other and never change."""
_CONSTANT: Final = ".data.rel.ro"
"""A section so named is written by relocations alone."""

_UNDEFINED: Final = 0
_GLOBAL: Final = {1, 2}
_ADDRESSED: Final = {0, 1, 2, 3}
"""Symbols without a kind, data, functions, sections."""

_ABSOLUTE: Final = 1
_RELATIVE: Final = 2
_CALL: Final = 4
_BY_CELL: Final = {9, 41, 42}
"""Relative to a cell that holds the symbol's address."""

_FOUR: Final = struct.Struct("<i")
_EIGHT: Final = struct.Struct("<Q")
_CELL: Final = struct.Struct("<Q8s")
_JUMP: Final = b"\xff\x25\xf2\xff\xff\xff\xcc\xcc"
"""Follows an address, to which it jumps."""
_TO_JUMP: Final = 8


class _Symbol(NamedTuple):
    name: str
    place: int | None
    """From the object's begin; None where another has it."""
    exported: bool


class _Fix(NamedTuple):
    """A relocation."""

    place: int
    kind: int
    symbol: int
    addend: int


class ObjectFile:
    """An object, read and checked; raises `UnsupportedObjectError` where it is not understood."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        try:
            self._sections = self._read_sections()
            self._places, end = self._lay_out()
            self._symbols = self._read_symbols()
            self._fixes = self._read_fixes()
        except (struct.error, UnicodeDecodeError, ValueError, IndexError) as error:
            raise UnsupportedObjectError(f"damaged: {error}") from error
        linked = [f.symbol for f in self._fixes if self._needs_cell(f)]
        first = -(-end // _CELL.size) * _CELL.size
        self._cells = {
            symbol: first + _CELL.size * number
            for number, symbol in enumerate(dict.fromkeys(linked))
        }
        self.size = first + _CELL.size * len(self._cells)
        """Bytes that it takes in memory."""

    def undefined_symbols(self) -> list[str]:
        """The symbols it uses that others have."""
        used = dict.fromkeys([fix.symbol for fix in self._fixes])
        return [s.name for s in map(self._symbols.__getitem__, used) if s.place is None]

    def exported_symbols(self) -> dict[str, int]:
        """The symbols it has for others, and where, from its begin."""
        return {s.name: s.place for s in self._symbols if s.exported and s.place is not None}

    def at(self, base: int, given: Mapping[str, int]) -> bytes:
        """What to write at an address, where others' symbols have the addresses given."""
        if base % MOST_ALIGNED:
            raise UnsupportedObjectError(f"the address {base:#x} is not the begin of a page")
        image = bytearray(self.size)
        for number, place in self._places.items():
            section = self._sections[number]
            image[place : place + section.size] = self._content(section)
        addresses = [
            given.get(s.name) if s.place is None else base + s.place for s in self._symbols
        ]
        for symbol, place in self._cells.items():
            _CELL.pack_into(image, place, self._symbol_address(addresses, symbol), _JUMP)
        for place, kind, symbol, addend in self._fixes:
            address = self._symbol_address(addresses, symbol)
            if kind == _ABSOLUTE:
                _EIGHT.pack_into(image, place, (address + addend) % 2**64)
                continue
            if symbol in self._cells and kind != _RELATIVE:
                address = base + self._cells[symbol] + (_TO_JUMP if kind == _CALL else 0)
            distance = address + addend - base - place
            if not -(2**31) <= distance < 2**31:
                raise UnsupportedObjectError(
                    f"{self._symbols[symbol].name or 'a section'} is too far away"
                )
            _FOUR.pack_into(image, place, distance)
        return bytes(image)

    def _symbol_address(self, addresses: list[int | None], symbol: int) -> int:
        address = addresses[symbol]
        if address is None:
            raise UnsupportedObjectError(f"nobody has {self._symbols[symbol].name!r}")
        return address

    def _needs_cell(self, fix: _Fix) -> bool:
        far = self._symbols[fix.symbol].place is None
        return fix.kind in _BY_CELL or (fix.kind == _CALL and far)

    # ---------------------------------------------------------------- reading

    def _read_sections(self) -> list[_Section]:
        header = _Header(*_HEADER.unpack_from(self._code))
        if (
            header.ident[: len(_IDENT)] != _IDENT
            or (header.kind, header.machine, header.flags) != (_RELOCATABLE, _X86_64, 0)
            or header.section_size != _SECTION.size
        ):
            raise UnsupportedObjectError("not an object of x86-64")
        end = header.sections + header.section_count * _SECTION.size
        if end > len(self._code):
            raise UnsupportedObjectError("damaged: the sections' table is not whole")
        table = self._code[header.sections : end]
        sections = [_Section(*each) for each in _SECTION.iter_unpack(table)]
        self._names = self._content(_of_kind(sections[header.names], _STRINGS))
        return sections

    def _content(self, section: _Section) -> bytes:
        end = section.offset + section.size
        if end > len(self._code):
            raise UnsupportedObjectError("damaged: a section is not whole")
        return self._code[section.offset : end]

    def _lay_out(self) -> tuple[dict[int, int], int]:
        """Where sections go, by their numbers, and where the last of them ends."""
        places, end = dict[int, int](), 0
        for number, section in enumerate(self._sections):
            if not section.flags & _ALLOCATED or section.kind == _UNWINDING:
                continue
            name = _text(self._names, section.name)
            if section.kind != _PROGRAM or section.flags & ~_USUAL:
                raise UnsupportedObjectError(f"a section {name} of kind {section.kind}")
            if section.flags & _WRITTEN and not name.startswith(_CONSTANT):
                raise UnsupportedObjectError(f"a section {name} that can be written")
            alignment = max(section.alignment, 1)
            if alignment & (alignment - 1) or alignment > MOST_ALIGNED:
                raise UnsupportedObjectError(f"a section {name} aligned to {alignment}")
            places[number] = -(-end // alignment) * alignment
            end = places[number] + section.size
            if end > MOST_BYTES:
                raise UnsupportedObjectError("too large")
        return places, end

    def _read_symbols(self) -> list[_Symbol]:
        (table,) = [s for s in self._sections if s.kind == _SYMBOLS]
        names = self._content(_of_kind(self._sections[table.link], _STRINGS))
        return [self._symbol(names, *each) for each in _SYMBOL.iter_unpack(self._content(table))]

    def _symbol(
        self, names: bytes, name: int, info: int, _: int, section: int, value: int, __: int
    ) -> _Symbol:
        exported, text = info >> 4 in _GLOBAL, _text(names, name)
        if section == _UNDEFINED:
            return _Symbol(text, None, exported)
        begin = self._places.get(section)
        if begin is None or info & 15 not in _ADDRESSED:
            return _Symbol("", None, exported=False)  # of a section that is not loaded
        if value > self._sections[section].size:
            raise UnsupportedObjectError(f"damaged: {text} is outside of its section")
        return _Symbol(text, begin + value, exported)

    def _read_fixes(self) -> list[_Fix]:
        found: list[_Fix] = []
        for section in self._sections:
            if section.kind not in {_RELOCATIONS, _PLAIN_RELOCATIONS}:
                continue
            begin = self._places.get(section.info)
            if begin is None:
                continue
            if section.kind == _PLAIN_RELOCATIONS:
                raise UnsupportedObjectError("relocations without addends")
            size = self._sections[section.info].size
            for place, what, addend in _RELOCATION.iter_unpack(self._content(section)):
                kind, symbol = what & 0xFFFFFFFF, what >> 32
                if kind not in {_ABSOLUTE, _RELATIVE, _CALL} | _BY_CELL:
                    raise UnsupportedObjectError(f"a relocation of kind {kind}")
                if place + (8 if kind == _ABSOLUTE else 4) > size or symbol >= len(self._symbols):
                    raise UnsupportedObjectError("damaged: a relocation of what is not there")
                found.append(_Fix(begin + place, kind, symbol, addend))
        return found


def _of_kind(section: _Section, kind: int) -> _Section:
    if section.kind != kind:
        raise UnsupportedObjectError("damaged: a table that is no table")
    return section


def _text(strings: bytes, start: int) -> str:
    """A name in a table of strings."""
    if start >= len(strings):
        raise UnsupportedObjectError("damaged: a name that is not in the table")
    return strings[start : strings.index(0, start)].decode()
