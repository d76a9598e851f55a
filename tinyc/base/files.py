# SPDX-License-Identifier: Apache-2.0
"""Files that the user names: written as a whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """The file is the data, or, where that cannot be written (OSError) or the program ends before, what it was.

    What is no plain file, like `/dev/stdout`, is written to as it is, and so is a file in a folder that cannot be. A
    link stays one.
    """
    try:
        place = path.resolve()
    except RuntimeError as error:  # so says Python 3.11
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    if place.exists() and not (place.is_file() and os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)):
        place.write_bytes(data)
        return
    part = place.with_name(f".{place.name[:100]}.tinyc-{secrets.token_hex(6)}")
    try:
        part.write_bytes(data)
        if place.exists():
            part.chmod(place.stat().st_mode & 0o7777)
        os.replace(part, place)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
