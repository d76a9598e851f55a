# SPDX-License-Identifier: Apache-2.0
"""The headers of runtime_c/: each in a room that the documentation names, found by its name alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tinyc.base import paths
from tinyc.emit.headers import header_text
from tinyc.kernels.scalar.loops import headers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
HEADERS = sorted(paths.runtime_dir().rglob("*.h"))
CORES = ("dsp", "mve", "scalar", "rv32", "rvv")  # rooms that hold the headers whose names end so


def test_every_header_lies_in_a_room_of_the_page() -> None:
    table = PAGE.read_text(encoding="utf-8").split("\n## The C kernels\n")[1].split("\n## ")[0]
    rooms = [room for line in table.splitlines() if line.startswith("| `") for room in re.findall(r"`(\w+)/`", line)]
    assert {path.relative_to(paths.runtime_dir()).parts[0] for path in HEADERS} == set(rooms)
    assert {path.parent.parent for path in HEADERS} == {paths.runtime_dir()}
    assert {path.parent for path in paths.runtime_dir().rglob("*") if path.is_file()} == {p.parent for p in HEADERS}


def test_names_are_unique() -> None:
    """In a library they lie in one folder, beside those that are printed."""
    names = Counter([path.name for path in HEADERS] + list(headers.NAMES))
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("core", CORES)
def test_what_is_named_after_a_core_lies_in_its_room(core: str) -> None:
    named = [path for path in HEADERS if path.stem.endswith(f"_{core}") or path.stem.startswith(f"tc_{core}_")]
    assert {path.parent.name for path in named} == {core}


def test_a_header_is_found_by_its_name() -> None:
    for path in HEADERS:
        assert paths.runtime_header(path.name) == path
    with pytest.raises(FileNotFoundError, match=r"no room of .* has tc_nothing\.h"):
        header_text("tc_nothing.h")
