# SPDX-License-Identifier: Apache-2.0
"""Files that tinyc makes for itself and takes again later, though never from anybody else.

They lie in folders of the user's cache that nobody else can write, each under a name that ends in the digest of its
content. So neither what another user put there nor what was damaged is taken.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tinyc.base import paths
from tinyc.base.files import read_file, write_file

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def private_folder(name: str) -> Path:
    """The folder of that name in the cache, made if need be; where it would not be this user's alone, or cannot be
    written, an empty one that goes when the program ends."""
    folder = paths.cache_dir() / name
    with suppress(OSError):
        for place in (*reversed(folder.parents), folder):  # with `parents=True` those would be made as the umask says
            place.mkdir(exist_ok=True, mode=0o700)
        if is_private(folder):
            folder.chmod(0o700)
            return folder
    return _passing(name)


def is_private(folder: Path) -> bool:
    """Whether only this user, or root, can change what is in the folder, or put another in its place."""
    if not hasattr(os, "getuid"):
        return True  # Windows: the cache is in the user's profile, which others cannot write
    place = folder.resolve()
    if place.stat().st_uid != os.getuid() or not os.access(place, os.W_OK):
        return False
    return all(_only_ours(one.stat()) for one in (place, *place.parents))


def _only_ours(status: os.stat_result) -> bool:
    user = os.getuid()
    if status.st_uid not in (user, 0):
        return False
    alone = status.st_gid == user  # the group that many systems make for each user
    others = status.st_mode & (stat.S_IWOTH if alone else _OTHERS)
    return not others or bool(status.st_mode & stat.S_ISVTX)


@functools.cache
def _passing(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"tinyc-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def stored(folder: Path, key: str, suffix: str) -> tuple[Path, bytes] | None:
    """The file that was stored under the key, and its content; None where that is not what was stored."""
    with suppress(OSError):
        for file in folder.glob(f"{key}-*{suffix}"):
            data = read_file(file)
            if file.name == _name(key, data, suffix):
                return file, data
    return None


def store(folder: Path, key: str, suffix: str, data: bytes) -> Path:
    """Stores the data under the key, in the place of what was. OSError where that cannot be."""
    file = folder / _name(key, data, suffix)
    if file.exists() and not file.is_file():
        file.unlink()  # a pipe would wait for who reads it
    write_file(file, data)
    for other in set(folder.glob(f"{key}-*{suffix}")) - {file}:
        with suppress(OSError):
            other.unlink()
    return file


def _name(key: str, data: bytes, suffix: str) -> str:
    return f"{key}-{hashlib.sha256(data).hexdigest()}{suffix}"
