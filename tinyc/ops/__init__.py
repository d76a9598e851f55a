# SPDX-License-Identifier: Apache-2.0
"""Operators: shapes, meaning in floats, exact integers, and the kernels that run them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from tinyc.ops.op import Op


@cache
def all_ops() -> dict[str, Op]:
    """Operators by name, in alphabetical order."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return {module.OP.name: module.OP for module in modules if hasattr(module, "OP")}
