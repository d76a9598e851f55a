# SPDX-License-Identifier: Apache-2.0
import errno
import fcntl
import itertools
import json
import os
import shutil
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tinyc.base import output_folder
from tinyc.base.errors import Loc, TinycError
from tinyc.base.output_folder import MANIFEST, REPORT_FILE, replacing


def _fill(folder: Path, text: str) -> None:
    (folder / REPORT_FILE).write_text(json.dumps({"tinyc": "0.1.0", "name": text}))


def _filled(folder: Path) -> str:
    return json.loads((folder / REPORT_FILE).read_text())["name"]


def test_appears_complete_and_replaces_its_own(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    for text in ("one", "two"):
        with replacing(target) as folder:
            _fill(folder, text)
            assert folder != target
        assert _filled(target) == text
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_a_failure_leaves_the_previous_folder_untouched(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with replacing(target) as folder:
        _fill(folder, "good")
    with pytest.raises(ZeroDivisionError), replacing(target) as folder:
        (folder / REPORT_FILE).write_text(f"half {1 // 0}")
    assert _filled(target) == "good"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_foreign_files_are_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "thesis.tex").write_text("years of work")
    with pytest.raises(TinycError, match="did not write"), replacing(target):
        raise AssertionError("not reached")
    assert (target / "thesis.tex").exists()


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    with replacing(target) as folder:
        _fill(folder, "x")
    assert (target / REPORT_FILE).exists()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("")
    with pytest.raises(TinycError, match="not a folder"), replacing(target):
        raise AssertionError("not reached")


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TinycError, match="cannot write"), replacing(tmp_path / "file" / "out"):
        raise AssertionError("not reached")


def test_disk_full_becomes_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="No space"), replacing(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


# --- what others put into the folder ---


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): b"" if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
        if path.name != MANIFEST
    }


def _build(target: Path, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
    """What a build writes, with files in folders; `meanwhile` happens while it runs."""
    with replacing(target) as folder:
        for name in ("a.c", "firmware/a.elf", "firmware/steps/b.o"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        meanwhile()
        _fill(folder, text)


def _whole(target: Path) -> str:
    """The text of the build in the folder, which must be the same in all of its files."""
    tree = _tree(target)
    texts = {text.decode() for name, text in tree.items() if text and name != REPORT_FILE}
    assert tree.keys() == {"a.c", "firmware", "firmware/a.elf", "firmware/steps", "firmware/steps/b.o", REPORT_FILE}
    assert texts == {_filled(target)}
    return texts.pop()


@pytest.mark.parametrize("name", ["x", "firmware/x", "firmware/steps/x", "a.c~", ".hidden", "new/x", "report.json.bak"])
@pytest.mark.parametrize("moment", ["before", "meanwhile", "at the swap"])
def test_what_others_put_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, moment: str) -> None:
    target = tmp_path / "out"
    _build(target, "old")

    def put() -> None:
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text("years of work")

    if moment == "before":
        put()
    elif moment == "at the swap":  # after the last look into the folder, in the moment before it changes places
        exchange, once = output_folder._exchange, iter([put])
        monkeypatch.setattr(output_folder, "_exchange", lambda *paths: (next(once, lambda: 0)(), exchange(*paths)))
    with pytest.raises(TinycError, match=f"did not write: {name.partition('/new')[0]}") as caught:
        _build(target, "new", put if moment == "meanwhile" else lambda: None)
    assert caught.value.where == Loc(str(target))
    assert (target / name).read_text() == "years of work"
    assert (target / "a.c").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_empty_folders_and_links_are_others_work(tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x").write_text("years of work")
    for put in ((target / "empty").mkdir, lambda: (target / "link").symlink_to(elsewhere)):
        _build(target, "old")
        put()
        with pytest.raises(TinycError, match="did not write"):
            _build(target, "new")
        for path in (target / "empty", target / "link"):
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                path.rmdir()
    (target / "firmware" / "a.elf").unlink()
    (target / "firmware" / "a.elf").symlink_to(elsewhere / "x")
    _build(target, "new")  # a link in the place of a file of ours goes, not what it leads to
    assert (elsewhere / "x").read_text() == "years of work"


def test_a_list_of_files_is_no_order_to_delete(tmp_path: Path) -> None:
    """A folder from somebody else may list anything: only what lies in it counts."""
    target = tmp_path / "out"
    target.mkdir()
    (tmp_path / "x").write_text("years of work")
    for files in (["../x"], [str(tmp_path / "x")], ["."], [".."], [""], [3], "x", None, {"x": 1}):
        (target / MANIFEST).write_text(json.dumps({"files": files}))
        with suppress(TinycError):
            _build(target, "new")
        assert (tmp_path / "x").read_text() == "years of work"
        if (target / "a.c").exists():
            assert _whole(target) == "new"


def test_results_of_renode_test_are_ours(tmp_path: Path) -> None:
    target = tmp_path / "out"
    _build(target, "old")
    (target / "renode" / "results").mkdir(parents=True)
    (target / "renode" / "results" / "log.html").touch()
    with pytest.raises(TinycError, match="did not write: renode"):  # the build made no files for Renode
        _build(target, "new")


# --- killed runs, full disks, two runs at once ---

_CALLS = ("rename", "unlink", "rmdir", "mkdir", "scandir")


def _killed(target: Path, number: int, after: bool, at_once: bool) -> bool:
    """A process that builds "new" and dies before (or after) system call `number`; False if it came to its end."""
    child = os.fork()
    if child == 0:
        count = 0

        def deadly(call: Callable[..., object]) -> Callable[..., object]:
            def called(*arguments: object, **words: object) -> object:
                nonlocal count
                count += 1
                if count == number and not after:
                    os.kill(os.getpid(), signal.SIGKILL)
                mine = count
                try:
                    return call(*arguments, **words)
                finally:
                    if mine == number:
                        os.kill(os.getpid(), signal.SIGKILL)

            return called

        for name in _CALLS:
            setattr(os, name, deadly(getattr(os, name)))
        exchange = output_folder._exchange_at_once if at_once else lambda *_: False
        output_folder._exchange_at_once = deadly(exchange)
        _build(target, "new")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_killed_at_every_step(tmp_path: Path, at_once: bool, after: bool, there: bool) -> None:
    """The old folder or the new one; the next run works, and removes what is left. Without the system's exchange there
    is a moment in which the old one waits beside its place, until the next run."""
    seen, missing = set(), 0
    for number in itertools.count(1):
        target = tmp_path / str(number) / "out"
        target.parent.mkdir()
        if there:
            _build(target, "old")
        if not _killed(target, number, after, at_once):
            break
        seen.add(_whole(target) if target.exists() else None)
        missing += there and not target.exists()
        with suppress(ZeroDivisionError), replacing(target):
            raise ZeroDivisionError  # a run that fails
        assert target.exists() or not there
        _build(target, "newest")
        assert _whole(target) == "newest"
        assert os.listdir(target.parent) == ["out"]
    assert seen == ({"old", "new"} if there else {None, "new"} if after else {None}) | ({None} if missing else set())
    assert missing == (1 if there and not at_once else 0)
    assert number > 8


def test_what_others_put_into_a_leftover_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    _build(target, "old")
    left = output_folder._hidden(target, "new")
    shutil.copytree(target, left)
    (left / "firmware" / "x").write_text("years of work")
    _build(target, "new")
    assert _tree(left) == {"firmware": b"", "firmware/x": b"years of work"}
    assert _whole(target) == "new"


def test_the_hidden_folder_of_a_running_build_stays(tmp_path: Path) -> None:
    """Two builds into a folder, one inside the time of the other: the one that ends last wins, whole."""
    target = tmp_path / "out"
    _build(target, "outer", lambda: _build(target, "inner"))
    assert _whole(target) == "outer"
    assert os.listdir(tmp_path) == ["out"]


def test_a_hidden_folder_that_goes_in_the_moment_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that it belonged to ends, and removes it, after another has seen its name."""
    target = tmp_path / "out"
    left = output_folder._hidden(target, "new")
    left.mkdir()
    opened = os.open

    def gone(path: Path, flags: int) -> int:
        if path == left:
            left.rmdir()
        return opened(path, flags)

    monkeypatch.setattr(os, "open", gone)
    _build(target, "new")
    assert _whole(target) == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_many_builds_at_once(tmp_path: Path) -> None:
    target = tmp_path / "there" / "out"
    _build(target, "start")
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for turn in range(8):
                    _build(target, f"{number} {turn}")
                code = 0
            except BaseException:
                (tmp_path / f"failed{number}").write_text(traceback.format_exc())
            finally:
                os._exit(code)
        children.append(child)
    while children:
        fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY)  # one folder, whatever has its name in the next moment
        try:
            texts = {Path(f"/proc/self/fd/{fd}/{name}").read_text() for name in ("a.c", "firmware/a.elf")}
            assert len(texts) == 1
        except FileNotFoundError:  # it was replaced, and is being deleted
            pass
        finally:
            os.close(fd)
        done, status = os.waitpid(-1, os.WNOHANG)
        if done:
            assert os.WEXITSTATUS(status) == 0, [path.read_text() for path in tmp_path.glob("failed*")]
            children.remove(done)
    assert _whole(target).endswith(" 7")
    assert os.listdir(target.parent) == ["out"]


def test_somebody_elses_lock_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `flock build tinyc build ...`."""
    monkeypatch.setattr(output_folder, "_LOCK_SECONDS", 0.05)
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    _build(tmp_path / "out", "new")
    os.close(held)
    assert _whole(tmp_path / "out") == "new"


def test_a_file_system_without_locks_and_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_folder, "fcntl", None)
    monkeypatch.setattr(output_folder, "_exchange_at_once", lambda *_: False)
    for text in ("one", "two"):
        _build(tmp_path / "out", text)
        assert _whole(tmp_path / "out") == text
    assert os.listdir(tmp_path) == ["out"]


def test_a_full_disk_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    _build(target, "old")
    write_text = Path.write_text
    for number in itertools.count(1):
        count = 0

        def full(path: Path, text: str, **words: str) -> int:
            nonlocal count
            count += 1
            if count == number:  # noqa: B023
                write_text(path, text[: len(text) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write_text(path, text, **words)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_text", full)
            try:
                _build(target, "new")
            except TinycError as error:
                assert "No space left on device" in error.message  # noqa: PT017
            else:
                break
        assert _whole(target) == "old"
        assert os.listdir(tmp_path) == ["out"]
    assert number == 6
    assert _whole(target) == "new"


@pytest.mark.parametrize("name", ["x" * 255, "x" * 200, "-x", "a b", "$(x)", "*", "[x]", "\n", "..x", "é"])
def test_names_of_folders(tmp_path: Path, name: str) -> None:
    for text in ("one", "two"):
        _build(tmp_path / name, text)
        assert _whole(tmp_path / name) == text
    assert os.listdir(tmp_path) == [name]
