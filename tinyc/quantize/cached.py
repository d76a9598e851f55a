# SPDX-License-Identifier: Apache-2.0
"""What quantizing found is kept in the user's cache, by its content: the same model, calibration inputs and recipe are
not searched through twice.

The key is a digest of all that the result depends on: the float graph, the inputs, the recipe, and the source code of
this package, so nothing stale is ever read. Nothing is read that another user could have written, or that comes with a
model: the result decides the weights, and no proof would notice.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tinyc.base import private
from tinyc.base.source import source_digest
from tinyc.ir import stored

FOLDER = "quantized"
MOST = 64  # files; the one that was used longest ago goes first
_SUFFIX = ".npz"

Cached = TypeVar("Cached")


def recalled(parts: Any, kind: type[Cached], work: Callable[[], Cached]) -> Cached:
    """What `work` returns, a dataclass of this kind, or what it returned for the same parts before.

    parts: all that the work depends on, such that `stored` takes it. Raises what `work` raises.
    """
    folder, key = private.private_folder(FOLDER), _key(parts)
    if (before := private.stored(folder, key, _SUFFIX)) is not None:
        with suppress(OSError, ValueError):
            value = stored.from_bytes(before[1])
            if isinstance(value, kind):
                os.utime(before[0])
                return value
    outcome = work()
    with suppress(OSError):
        private.store(folder, key, _SUFFIX, stored.to_bytes(outcome))
        _drop_oldest(folder)
    return outcome


def _drop_oldest(folder: Path) -> None:
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for old in files[:-MOST]:
        old.unlink()


def _key(parts: Any) -> str:
    """A digest of the parts and of every source file that could have a say in the result."""
    return hashlib.sha256(stored.to_bytes((source_digest(), parts))).hexdigest()[:32]
