# SPDX-License-Identifier: Apache-2.0
"""Accesses beyond the end of a damaged file, as an error for the user."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tinyc.base.errors import Loc, TinycError

DAMAGED_HINT = "download or export the file again; it is truncated or was changed after the export"


@contextmanager
def reading(what: str, where: Loc) -> Iterator[None]:
    """Turn the exceptions of an access outside the file into a TinycError that says what was read."""
    try:
        yield
    except (struct.error, ValueError, TypeError, IndexError, OverflowError, KeyError) as e:
        raise TinycError(f"the file is damaged: {what} cannot be read", where, DAMAGED_HINT) from e
