# SPDX-License-Identifier: Apache-2.0
"""Of the cache nothing is taken that another user could have written, or that is not what was stored."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from tinyc.base import private
from tinyc.run import trace


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a worker of tests ends without what is for the end
    monkeypatch.setenv("TINYC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_of_ones_own(cache: Path) -> None:
    folder = private.private_folder("things")
    assert folder == cache / "things"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private.private_folder("things") == folder


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no modes of files")
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders around it too: in one that others write nothing would be kept."""
    monkeypatch.setenv("TINYC_CACHE", str(tmp_path / "new" / "cache"))
    before = os.umask(0)
    try:
        folder = private.private_folder("things")
    finally:
        os.umask(before)
    assert folder == tmp_path / "new" / "cache" / "things"
    assert [one.stat().st_mode & 0o777 for one in (folder, *folder.parents[:2])] == [0o700] * 3


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
@pytest.mark.parametrize("which", ["things", "."])
def test_a_folder_that_others_write_is_left_alone(cache: Path, mode: int, which: str) -> None:
    folder = cache / "things"
    folder.mkdir(parents=True)
    place = cache / which
    if mode & 0o020 and not mode & 0o002:
        if os.getuid() != 0:
            pytest.skip("the group is this user's own")
        os.chown(place, -1, 4321)
    place.chmod(mode)
    taken = private.private_folder("things")
    assert taken != folder
    assert taken.stat().st_mode & 0o777 == 0o700
    assert private.private_folder("things") == taken


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("which", ["things", "cache"])
def test_a_folder_of_another_user_is_left_alone(cache: Path, which: str) -> None:
    folder = cache / "things"
    folder.mkdir(parents=True)
    os.chown({"things": folder, "cache": cache}[which], 4321, -1)
    assert private.private_folder("things") != folder


def test_a_place_that_cannot_be_written(cache: Path) -> None:
    cache.write_text("a file")
    assert private.private_folder("things").is_dir()


def test_what_was_stored_comes_back_whole_or_not(tmp_path: Path) -> None:
    assert private.stored(tmp_path, "k", ".x") is None
    file = private.store(tmp_path, "k", ".x", b"one")
    assert private.stored(tmp_path, "k", ".x") == (file, b"one")
    assert private.stored(tmp_path, "j", ".x") is None
    file.write_bytes(b"onE")
    assert private.stored(tmp_path, "k", ".x") is None
    file.unlink()
    os.mkfifo(file)
    assert private.stored(tmp_path, "k", ".x") is None
    assert private.store(tmp_path, "k", ".x", b"one") == file
    assert private.stored(tmp_path, "k", ".x") == (file, b"one")
    again = private.store(tmp_path, "k", ".x", b"two")
    assert private.stored(tmp_path, "k", ".x") == (again, b"two")
    assert list(tmp_path.iterdir()) == [again], "the damaged one is gone"


def test_a_damaged_tracer_is_built_again(cache: Path) -> None:
    build = trace.build_trace_library.__wrapped__
    first = build(None)
    if first is None:
        pytest.skip("no C compiler")
    assert first.parent == cache / "trace"
    content = first.read_bytes()
    first.write_bytes(content[:100] + b"\xff" + content[101:])
    again = build(None)
    assert again is not None
    assert again.read_bytes()[:101] == content[:101]
