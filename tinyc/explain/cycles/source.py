# SPDX-License-Identifier: Apache-2.0
"""Addresses to source lines, from the DWARF line table of a firmware."""

from __future__ import annotations

import bisect
import io
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile


def line_table(firmware: Path, addresses: AbstractSet[int]) -> Mapping[int, tuple[str, int]]:
    """(file name without its folder, line) of every address that has one. Assembly at file level has none."""
    elf = ELFFile(io.BytesIO(firmware.read_bytes()))
    if not elf.has_dwarf_info():
        return {}
    dwarf = elf.get_dwarf_info()
    programs = [dwarf.line_program_for_CU(unit) for unit in dwarf.iter_CUs()]
    rows = sorted({row for program in programs if program is not None for row in _rows(program)})
    starts = [start for start, _, _, _ in rows]
    places = {}
    for address in addresses:
        index = bisect.bisect_right(starts, address) - 1
        if index >= 0 and address < rows[index][1]:
            places[address] = rows[index][2:]
    return places


def _rows(program: Any) -> list[tuple[int, int, str, int]]:
    """[start, end) of machine code, file and line."""
    files = program["file_entry"]
    first = 0 if program["version"] >= 5 else 1
    rows = []
    last = None
    dropped = False
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if last is None:  # a sequence begins; the linker moves what it drops to address 0
            dropped = state.address == 0
        elif last.address < state.address and last.line > 0 and not dropped:
            name = Path(files[last.file - first].name.decode("utf-8", "replace")).name
            rows.append((last.address, state.address, name, last.line))
        last = None if state.end_sequence else state
    return rows
