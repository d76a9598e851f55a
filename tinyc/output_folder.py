"""Output folders that appear complete or not at all, and never over something that tinyc did not make."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tinyc.errors import Loc, TinycError

REPORT_FILE = "report.json"
_PARTS = (re.escape(REPORT_FILE), "firmware", "device", "renode")  # beside the library


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` that takes its place when the block ends well.

    When the block raises, `target` is as it was and the fresh folder is gone. Raises TinycError as
    `check_replaceable` does, and when the place cannot be written.
    """
    check_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise _cannot_write(target, error) from error
    try:
        yield fresh
        _swap(fresh, target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_replaceable(target: Path) -> None:
    """Raises TinycError when `target` is a file, a link, or a folder with anything in it that tinyc did not write."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise TinycError("the output is not a folder", Loc(str(target)), "choose another with -o")
    try:
        foreign = _foreign(target) if target.is_dir() else None
    except OSError as error:
        raise _cannot_write(target, error) from error
    if foreign is not None:
        raise TinycError(
            f"the output folder holds what tinyc did not write: {foreign}",
            Loc(str(target)),
            "it would be deleted: move it away, or choose another folder with -o",
        )


def _foreign(folder: Path) -> str | None:
    """The first name in the folder that is not of a library as its report names it; None where all are."""
    try:
        report = json.loads((folder / REPORT_FILE).read_text(encoding="utf-8"))
        name = report["name"] if "tinyc" in report else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):  # no report, or that of something else
        name = None
    ours = re.compile(rf"{re.escape(str(name))}(_weights|_kernels)?\.[ch]|tc_\w+\.h|{'|'.join(_PARTS)}")
    names = sorted(path.name for path in folder.iterdir())
    return next((found for found in names if name is None or not ours.fullmatch(found)), None)


def _swap(fresh: Path, target: Path) -> None:
    """Move `fresh` to `target`; the old folder is moved aside first, and back if that fails."""
    fresh.chmod(0o777 & ~_umask())
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        target.rename(old / "it")
    try:
        fresh.rename(target)
    except OSError:
        if old is not None:
            (old / "it").rename(target)
        raise
    finally:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _cannot_write(target: Path, error: OSError) -> TinycError:
    return TinycError(
        f"cannot write the output folder: {error.strerror or error}",
        Loc(str(target)),
        "choose another with -o",
    )
