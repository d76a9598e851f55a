# SPDX-License-Identifier: Apache-2.0
"""MiniMalloc's CSV files: read, written, refused with the line that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tinyc.base.errors import TinycError
from tinyc.plan.arena import height, place
from tinyc.plan.instances import Instance, crowded, perfect, read_instance, write_instance

EXAMPLE = """id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
"""


def test_the_published_example_needs_its_capacity(tmp_path: Path) -> None:
    (tmp_path / "input.12.csv").write_text(EXAMPLE)
    instance = read_instance(tmp_path / "input.12.csv")
    assert (instance.name, instance.capacity, instance.live_bytes) == ("input", 12, 12)
    assert [b.members[0].name for b in instance.layout.blocks] == ["b1", "b2", "b3", "b4", "b5"]
    assert height(instance.layout, place(instance.layout, instance.live_bytes)) == 12


@pytest.mark.parametrize("instance", [crowded(1, 30, 40, [64, 128]), perfect(2, 25, 30, 500)])
def test_what_is_written_is_read_again(tmp_path: Path, instance: Instance) -> None:
    check_equal(read_instance(write_instance(instance, tmp_path)), instance)


def check_equal(actual: Instance, expected: Instance) -> None:
    """A layout is equal to itself alone: its blocks and what they forbid are compared."""
    assert (actual.layout.blocks, actual.layout.forbidden) == (expected.layout.blocks, expected.layout.forbidden)
    assert replace(actual, layout=expected.layout) == expected


def test_offsets_are_a_last_column_that_reading_ignores(tmp_path: Path) -> None:
    instance = perfect(0, 9, 10, 50)
    path = write_instance(instance, tmp_path, range(9))
    assert path.name == "perfect-9-0.50.csv"
    assert path.read_text().splitlines()[3].endswith(",2")
    check_equal(read_instance(path), instance)


def test_a_column_order_of_its_own_and_no_capacity(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("size,id,upper,lower\n7,a,3,1\n5,b,4,2\n")
    instance = read_instance(tmp_path / "x.csv")
    assert (instance.capacity, instance.live_bytes) == (None, 12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: no column 'id'"),
        ("id,lower,size\n", ":1: no column 'upper'"),
        ("id,lower,upper,size\n", "holds no buffer"),
        ("id,lower,upper,size\na,0,1,4\nb,1,x,4\n", ":3: lower, upper and size must be integers"),
        ("id,lower,upper,size\na,0,1\n", ":2: lower, upper and size must be integers"),
        ("id,lower,upper,size\na,2,2,4\n", ":2: a buffer needs lower < upper"),
        ("id,lower,upper,size\na,0,2,0\n", ":2: a buffer needs lower < upper"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(TinycError, match=message):
        read_instance(tmp_path / "bad.csv")


def test_a_missing_or_binary_file(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="cannot be read"):
        read_instance(tmp_path / "absent.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TinycError, match="cannot be read"):
        read_instance(tmp_path / "b.csv")
