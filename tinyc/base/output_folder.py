# SPDX-License-Identifier: Apache-2.0
"""Output folders that appear complete or not at all, and from which nothing is deleted but what tinyc wrote.

A run writes into a hidden folder of its own beside the target, with a list of its files in it, and changes places with
the target in one step of the file system. A run that is killed leaves the old folder or the new one, and perhaps a
hidden folder, which the next run into the same target removes. Two runs at once: the later one wins.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text

try:
    import fcntl
except ImportError:  # Windows: leftovers stay, and the order of two runs is that of their last steps
    fcntl = None  # type: ignore[assignment]

REPORT_FILE = "report.json"
MANIFEST = ".tinyc"  # the list of what tinyc wrote, in the folder
_ALSO_OURS = "renode/results"  # renode-test writes there, after the build
_LOCK_SECONDS = 5.0
_PREFIX_LETTERS = 100
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` that takes its place when the block ends well.

    When the block raises, `target` is as it was and the fresh folder is gone. Raises TinycError as
    `check_replaceable` does, before the block and after it, and when the place cannot be written.
    """
    if not target.parent.is_dir():
        check_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh, hold = _stage(target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        yield fresh
        _write_manifest(fresh)
        with _locked(target.parent):
            _take_place(fresh, target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        _discard(fresh)
        os.close(hold)


def check_replaceable(target: Path) -> None:
    """Raises TinycError when `target` is a file, a link, or a folder with anything in it that tinyc did not write."""
    try:
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            raise TinycError("the output is not a folder", Loc(str(target)), "choose another with -o")
        foreign = next(_foreign(target), None) if target.is_dir() else None
    except OSError as error:
        raise _cannot_write(target, error) from error
    if foreign is not None:
        raise TinycError(
            f"the output folder holds what tinyc did not write: {foreign}",
            Loc(str(target)),
            "it would be deleted: move it away, or choose another folder with -o",
        )


def _take_place(fresh: Path, target: Path) -> None:
    """`fresh` becomes `target`, and what was there goes; or, if somebody has put something into it, nothing changes."""
    check_replaceable(target)
    try:
        fresh.rename(target)  # where there is nothing, or an empty folder
    except OSError:
        if not target.is_dir():
            raise
        _exchange(fresh, target)
        try:
            check_replaceable(fresh)  # nobody can put anything into it any more, but for who works inside of it
        except TinycError as error:
            _exchange(fresh, target)
            raise TinycError(error.message, Loc(str(target)), error.hint) from error


# --- what is ours ---


def _write_manifest(folder: Path) -> None:
    files = sorted(name for name, is_folder in _entries(folder) if not is_folder)
    part = folder / f"{MANIFEST}-part"  # a list is there as a whole or not at all
    part.write_text(json.dumps({"files": files}, indent=0) + "\n", encoding="utf-8")
    part.rename(folder / MANIFEST)


def _manifest(folder: Path) -> frozenset[str]:
    """The files that tinyc wrote into the folder, and the folders that they lie in; none where nothing says so."""
    try:
        files = json.loads(read_text(folder / MANIFEST))["files"]
        names = {name for name in files if isinstance(name, str)}
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError, RecursionError):
        return frozenset()
    parents = {str(parent) for name in names for parent in Path(name).parents}
    return frozenset({MANIFEST, *names, *parents})


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """Everything in the folder by its path from there, and whether it is a folder; contents come before it."""
    for place, folders, files in os.walk(folder, topdown=False, onerror=_raise):
        here = Path(place)
        for name in (*files, *folders):
            path = here / name
            yield path.relative_to(folder).as_posix(), path.is_dir() and not path.is_symlink()


def _raise(error: OSError) -> None:
    raise error


def _foreign(folder: Path) -> Iterator[str]:
    """What lies in the folder and tinyc did not write."""
    ours = _manifest(folder)
    for name, _ in _entries(folder):
        if name not in ours and not (ours and f"{name}/".startswith(f"{_ALSO_OURS}/")):
            yield name


def _discard(folder: Path) -> None:
    """Delete a folder of a run: all of an unfinished one, and of a finished one what tinyc wrote."""
    if not (folder / MANIFEST).exists():
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        foreign = frozenset(_foreign(folder))
        for name, is_folder in _entries(folder):
            if name not in foreign and name != MANIFEST:
                with suppress(OSError):  # a folder that holds something foreign
                    (folder / name).rmdir() if is_folder else (folder / name).unlink()
        if not foreign:
            (folder / MANIFEST).unlink()
            folder.rmdir()


# --- the hidden folders ---


def _stage(target: Path) -> tuple[Path, int]:
    """A new hidden folder, and what keeps others from taking it for a leftover: a descriptor to be closed."""
    with _locked(target.parent):
        check_replaceable(target)  # alone: its list of files and its files are those of one run
        _clear_up(target)
        fresh = _hidden(target, "new")
        fresh.mkdir()
        return fresh, _hold(fresh)


def _hidden(target: Path, kind: str) -> Path:
    return target.with_name(f"{_prefix(target)}{kind}-{secrets.token_hex(6)}")


def _prefix(target: Path) -> str:
    return f".{target.name[:_PREFIX_LETTERS]}.tinyc-"


def _hold(folder: Path) -> int:
    hold = os.open(folder if fcntl is not None else os.devnull, os.O_RDONLY)
    _try_lock(hold)
    return hold


def _try_lock(descriptor: int) -> bool:
    """Whether the lock of a file or folder was free, and is ours now; it ends with its holder, however that ends."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody holds it, or the file system has no locks
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone in the folder with what takes moments. Who holds its lock for longer is no tinyc, and is not waited for."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _try_lock(descriptor) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _clear_up(target: Path) -> None:
    """Put back or remove what killed runs have left of this target."""
    prefix = _prefix(target)
    for path in sorted(path for path in target.parent.iterdir() if path.name.startswith(prefix)):
        if fcntl is None or path.is_symlink() or not path.is_dir():
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # the run that it belonged to has just removed it
            continue
        try:
            if not _try_lock(descriptor):
                continue
            if path.name.startswith(f"{prefix}old-") and not target.exists():
                path.rename(target)
            else:
                _discard(path)
        finally:
            os.close(descriptor)


def _exchange(one: Path, other: Path) -> None:
    """The folders change their names, in one step where the system can."""
    if _exchange_at_once(one, other):
        return
    spare = _hidden(other, "old")
    other.rename(spare)
    try:
        one.rename(other)
    except BaseException:
        spare.rename(other)
        raise
    spare.rename(one)


def _exchange_at_once(one: Path, other: Path) -> bool:
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    names = (ctypes.c_char_p(os.fsencode(one)), ctypes.c_char_p(os.fsencode(other)))
    failed: int = rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE))
    return failed == 0


def _cannot_write(target: Path, error: OSError) -> TinycError:
    return TinycError(
        f"cannot write the output folder: {error.strerror or error}",
        Loc(str(target)),
        "choose another with -o",
    )
