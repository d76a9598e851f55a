# SPDX-License-Identifier: Apache-2.0
"""tinyc: a trained model in, a proved dependency-free C99 library out.

    import tinyc

    tinyc.inspect("kws.onnx")                                  # what is in it
    built = tinyc.build("kws.onnx", board="cortex-m4", calibration={"x": samples})
    kws = tinyc.load(built.folder)                             # the same integers, here
    kws(samples)

docs/python.md has the rest. Importing tinyc is cheap: these functions bring their modules with them.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tinyc.api import (
        Built,
        TinycWarning,
        bench,
        build,
        estimate,
        frontend,
        inspect,
        load,
        memory_map,
        picture,
        quantize,
        run,
        verify,
    )
    from tinyc.base.errors import TinycError
    from tinyc.bench import BenchReport
    from tinyc.explain.estimate import Estimate
    from tinyc.explain.memory_map import MemoryMap
    from tinyc.options.recipe import Recipe
    from tinyc.pipeline.quantizing import QuantizeReport
    from tinyc.run.native import Library, Port

__all__ = [
    "BenchReport",
    "Built",
    "Estimate",
    "Library",
    "MemoryMap",
    "Port",
    "QuantizeReport",
    "Recipe",
    "TinycError",
    "TinycWarning",
    "__version__",
    "bench",
    "build",
    "estimate",
    "frontend",
    "inspect",
    "load",
    "memory_map",
    "picture",
    "quantize",
    "run",
    "verify",
]

_HOME = {
    "BenchReport": "tinyc.bench",
    "Estimate": "tinyc.explain.estimate",
    "Library": "tinyc.run.native",
    "MemoryMap": "tinyc.explain.memory_map",
    "Port": "tinyc.run.native",
    "QuantizeReport": "tinyc.pipeline.quantizing",
    "Recipe": "tinyc.quantize",
    "TinycError": "tinyc.base.errors",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_HOME.get(name, "tinyc.api")), name)
    raise AttributeError(f"module 'tinyc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__


class _Package(types.ModuleType):
    """`tinyc.load` is the function, whether or not the sub-package of that name is imported.

    Importing a sub-module binds its name in the parent; where a function has the same name, that is not done.
    `from tinyc.load.tflite import ...` and the like do not look at the name and work as ever.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
