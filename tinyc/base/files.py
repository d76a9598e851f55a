# SPDX-License-Identifier: Apache-2.0
"""Files that the user names: read up to a limit, and written as a whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 1 << 30  # more than any model for a microcontroller by three orders of magnitude
MAX_TEXT_BYTES = 1 << 26  # of a text that is parsed, which takes ten times its size


def plain_file(path: Path, most: int = MAX_BYTES) -> Path:
    """The path, if reading it comes to an end: OSError, with words for the user in `strerror`, for what is no file of
    up to `most` bytes. A pipe without a writer waits for ever, and a device may have no end."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes; up to {most:,} are read", str(path))
    return path


def read_file(path: Path, most: int = MAX_BYTES) -> bytes:
    """The content of a file. OSError as `plain_file` says."""
    return plain_file(path, most).read_bytes()


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. OSError as `plain_file` says."""
    return hashlib.sha256(read_file(path)).hexdigest()


def read_text(path: Path, most: int = MAX_TEXT_BYTES) -> str:
    """The content of a UTF-8 file. OSError as `plain_file` says, UnicodeDecodeError for other bytes."""
    return plain_file(path, most).read_text(encoding="utf-8")


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
