"""Output folders that appear complete or not at all, and never over something that tinyc did not make."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tinyc.errors import Loc, TinycError

REPORT_FILE = "report.json"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A fresh folder beside `target` that takes its place when the block ends well.

    When the block raises, `target` is as it was and the fresh folder is gone. Raises TinycError when
    `target` is a file, a folder with something else in it, or in a place that cannot be written.
    """
    _check_ours(target)
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


def _check_ours(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise TinycError("the output is not a folder", Loc(str(target)), "choose another with -o")
    try:
        foreign = target.is_dir() and any(target.iterdir()) and not (target / REPORT_FILE).is_file()
    except OSError as error:
        raise _cannot_write(target, error) from error
    if foreign:
        raise TinycError(
            "the output folder holds files that tinyc did not write",
            Loc(str(target)),
            "choose another with -o, or empty it",
        )


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
