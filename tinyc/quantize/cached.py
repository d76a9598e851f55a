# SPDX-License-Identifier: Apache-2.0
"""What quantizing found is kept beside the model, by its content: the same model, calibration inputs and recipe are not
searched through twice.

The name of a file is a digest of all that its content depends on: the float graph, the inputs, the recipe, and the
source code of this package, so nothing stale is ever read. A file that cannot be read or written is as good as none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tinyc.base.errors import TinycError
from tinyc.base.files import write_file
from tinyc.base.source import source_digest
from tinyc.ir import stored

FOLDER = ".tinyc-cache"
MOST = 16  # files; the one that was used longest ago goes first
_IGNORE = b"*\n"  # for git: what can be computed again does not belong into a repository

Found = TypeVar("Found")


def kept(beside: Path, parts: Any, kind: type[Found], work: Callable[[], Found]) -> Found:
    """What `work` returns, a dataclass of this kind, or what it returned for the same parts before.

    beside: the model; the files lie in a folder FOLDER next to it. parts: all that the work depends on, such that
    `stored` takes it. Raises what `work` raises.
    """
    folder = beside.parent / FOLDER
    file = folder / f"{beside.stem}-{_key(parts)}.npz"
    with suppress(OSError, ValueError):
        before = stored.from_bytes(file.read_bytes())
        if isinstance(before, kind):
            os.utime(file)
            return before
    made = work()
    with suppress(OSError, TinycError):
        _keep(file, stored.to_bytes(made))
    return made


def _keep(file: Path, data: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    ignore = file.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_bytes(_IGNORE)
    write_file(file, data)
    files = sorted(file.parent.glob("*.npz"), key=lambda path: path.stat().st_mtime)
    for old in files[:-MOST]:
        old.unlink()


def _key(parts: Any) -> str:
    """A digest of the parts and of every source file that could have a say in the result."""
    return hashlib.sha256(stored.to_bytes((source_digest(), parts))).hexdigest()[:32]
