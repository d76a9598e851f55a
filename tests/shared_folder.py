# SPDX-License-Identifier: Apache-2.0
"""What many tests need and none changes is made once for all processes of a test run, or for many runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


class SharedFolder:
    """Files and folders by keys, made by the first process that asks; the others wait for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of_the_run(cls, factory: pytest.TempPathFactory) -> SharedFolder:
        """The one folder of all processes of the run."""
        return cls(factory.getbasetemp() / "shared")

    def folder_of(self, key: object, make: Callable[[Path], None]) -> Path:
        """The path of what `make` wrote to the path that it was given. What failed is tried again by who asks next."""
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        path = self._folder / name
        if path.exists():
            os.utime(path)
            return path
        with (self._folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                begun = self._folder / f"{name}.begun"
                make(begun)
                begun.rename(path)
        return path

    def forget(self, days: float) -> None:
        """Removes what nobody has asked for in so many days, another run that goes on at this time included."""
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another run has renamed it
                if path.stat().st_mtime < time.time() - 86_400 * days:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
