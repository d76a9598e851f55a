# SPDX-License-Identifier: Apache-2.0
"""The headers of runtime_c/, files or printed: each in a room that the documentation names, found by its name alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tinyc.base import paths
from tinyc.base.runtime_headers import header_names, header_of, members
from tinyc.emit.headers import header_text
from tinyc.kernels.scalar.loops import headers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
FILES = sorted(path for path in paths.runtime_dir().rglob("*") if path.is_file())
FAMILIES = [path for path in FILES if path.name.endswith(".h.in")]
CORES = ("dsp", "mve", "scalar", "rv32", "rvv")  # rooms that hold the headers whose names end so


def test_every_header_lies_in_a_room_of_the_page() -> None:
    table = PAGE.read_text(encoding="utf-8").split("\n## The C kernels\n")[1].split("\n## ")[0]
    rooms = [room for line in table.splitlines() if line.startswith("| `") for room in re.findall(r"`(\w+)/`", line)]
    assert {path.relative_to(paths.runtime_dir()).parts[0] for path in FILES} == set(rooms)
    assert {path.parent.parent for path in FILES} == {paths.runtime_dir()}
    assert {path.suffix for path in FILES} == {".h", ".in"}


def test_names_are_unique() -> None:
    """In a library they lie in one folder, beside those that are printed."""
    names = Counter([*header_names(), *headers.NAMES])
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("core", CORES)
def test_what_is_named_after_a_core_lies_in_its_room(core: str) -> None:
    named = {path.parent.name for path in FILES if re.search(rf"^tc_(\w+_)?{core}(_\w+)?$", path.stem)}
    assert named == {core}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_a_family_is_headers_that_differ(family: Path) -> None:
    texts = members(family)
    assert len(texts) > 1
    assert len(set(texts.values())) == len(texts)
    for name, text in texts.items():
        assert header_of(name) == text
        guard = name.upper().replace(".", "_")
        assert text.count(guard) == 2
        assert not re.search(r"@|\(table\)", text)
        assert text.startswith("/* SPDX-License-Identifier: 0BSD */\n/* ")
        assert max(map(len, text.splitlines())) <= 110, name


def test_a_table_may_leave_lines_out_and_go_on_in_the_next_line(tmp_path: Path) -> None:
    family = tmp_path / "sum.h.in"
    family.write_text(
        "/* SPDX-License-Identifier: 0BSD */\n/* Sums.\n *\n"
        " *   header  needs  what\n *             result\n"
        " *   tc_a    -      a sum\n *             x + y\n"
        " *   tc_b    wide   of 64 bits\n *             (w)x + y\n */\n"
        '/* @what@ */\n#ifndef @HEADER@_H\n#include "@needs@.h"\n\n@result@\n'
    )
    licence = "/* SPDX-License-Identifier: 0BSD */\n"
    assert members(family) == {
        "tc_a.h": licence + "/* a sum */\n#ifndef TC_A_H\n\nx + y\n",
        "tc_b.h": licence + '/* of 64 bits */\n#ifndef TC_B_H\n#include "wide.h"\n\n(w)x + y\n',
    }
    family.write_text("int x;\n")
    with pytest.raises(ValueError, match=r"sum\.h\.in does not begin with its licence and its table"):
        members(family)


def test_lines_of_a_block_stand_where_its_word_does(tmp_path: Path) -> None:
    family = tmp_path / "mean.h.in"
    family.write_text(
        "/* SPDX-License-Identifier: 0BSD */\n/* Means.\n *\n"
        " *   header  wide\n *   tc_a    -\n *   tc_b    wide\n */\n"
        "first\n@if wide@\nonly @wide@\n@else@\nthe other\n@end@\nlast\n"
    )
    licence = "/* SPDX-License-Identifier: 0BSD */\n"
    assert members(family) == {
        "tc_a.h": licence + "first\nthe other\nlast\n",
        "tc_b.h": licence + "first\nonly wide\nlast\n",
    }


def test_a_header_is_found_by_its_name() -> None:
    assert header_text("tc_math.h") == (paths.runtime_dir() / "base" / "tc_math.h").read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError, match=r"no room of .* has tc_nothing\.h"):
        header_text("tc_nothing.h")
