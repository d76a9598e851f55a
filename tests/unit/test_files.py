# SPDX-License-Identifier: Apache-2.0
"""Files are written as a whole, or stay what they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tinyc.base.files import write_file


def test_who_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    """The new one takes its place; nothing is written into it."""
    path, other = tmp_path / "x.svg", tmp_path / "other"
    path.write_bytes(b"old")
    os.link(path, other)
    write_file(path, b"new and longer")
    assert (path.read_bytes(), other.read_bytes()) == (b"new and longer", b"old")
    assert {file.name for file in tmp_path.iterdir()} == {"x.svg", "other"}


def test_a_file_that_cannot_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.svg"
    path.write_bytes(b"old")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["x.svg"]


def test_a_link_stays_one_and_rights_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, b"new")
    assert link.is_symlink()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
