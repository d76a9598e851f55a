# SPDX-License-Identifier: Apache-2.0
"""Packages that not everybody needs: loaded when they are, and what is said where one is not installed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import ModuleType

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError

_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that tinyc asks for. extra: the one that it comes with; empty: it always comes."""

    name: str
    extra: str

    @property
    def version(self) -> str:
        """The one that is installed; empty if none is."""
        return installed_version(self.name)


def requirements() -> Iterator[Requirement]:
    """All that the distribution asks for, in its order; nothing when tinyc runs from bare sources."""
    from importlib import metadata  # noqa: PLC0415  what few commands ask for

    try:
        lines = metadata.requires("tinyc") or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name is not None and name[0] != "tinyc":
            yield Requirement(name[0], extra[1] if extra else "")


def installed_version(package: str) -> str:
    """The version of a package that is installed; empty if none is."""
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def load_extra(module: str, extra: str, what: str, where: Loc | None = None) -> ModuleType:
    """A module of a package that comes with that extra of tinyc.

    TinycError where it is not installed, or is and cannot be loaded. what: what the user asked for, which needs it
    ("drawing"); where: of what file.
    """
    package = module.split(".", maxsplit=1)[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name in (None, package, module)
        why = "" if missing else f", which is installed and cannot be loaded: {error}"
        raise TinycError(
            f"{what} needs the package {package}{why}", where, f"`pip install 'tinyc[{extra}]'`"
        ) from error
