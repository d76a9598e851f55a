# SPDX-License-Identifier: Apache-2.0
"""Where runtime_c/, templates/ and boards/ are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).resolve().parents[1]


def _data_dir(name: str) -> Path:
    inside = _PACKAGE / "_data" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def runtime_dir() -> Path:
    """The folder of the C kernels, `runtime_c/`: in it rooms, in these headers: `runtime_headers.py`."""
    return _data_dir("runtime_c")


def templates_dir() -> Path:
    """The folder of the jinja2 templates."""
    return _data_dir("templates")


def boards_dir() -> Path:
    """The folder of the board descriptions, `*.toml`."""
    return _data_dir("boards")


def cache_dir() -> Path:
    """Where tinyc keeps what it builds for itself (plugins, compiler caches): TINYC_CACHE, if set."""
    chosen = os.environ.get("TINYC_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("tinyc"))
