# SPDX-License-Identifier: Apache-2.0
"""tinyc's own source as a number: what was computed by other source may be something else."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def source_digest() -> str:
    """A digest of every Python file of the package that this process runs."""
    whole = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        whole.update(hashlib.sha256(source.read_bytes()).digest())
    return whole.hexdigest()[:32]
