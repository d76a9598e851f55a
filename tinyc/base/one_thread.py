# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on one thread, so that a model's bytes do not depend on how many there are.

A BLAS library splits sums by the number of its threads; rounding then differs in the last bits, and the quantizer's
choices with it. The library that numpy is linked with is told through its own functions, for as long as tinyc computes.
onnxruntime's sessions are told where they are made.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from numpy.linalg import _umath_linalg

from tinyc.base.dataclass import dataclass

# What reads and what sets the number of threads: OpenBLAS (as numpy builds it, with 64-bit integers, plain), MKL, BLIS.
_FUNCTIONS = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)


P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Blas:
    threads: Callable[[], int]
    set_threads: Callable[[int], object]


def _blas() -> _Blas | None:
    """The library behind numpy; None for one without these functions, such as numpy's own plain loops."""
    try:
        linked = ctypes.CDLL(_umath_linalg.__file__)  # a search in it goes on in the libraries that it is linked with
    except (AttributeError, OSError):
        return None
    for getter, setter in _FUNCTIONS:
        if hasattr(linked, getter) and hasattr(linked, setter):
            return _Blas(getattr(linked, getter), getattr(linked, setter))
    return None


class OneThread:
    """A context: one thread inside, what it was before after the last of them."""

    _lock = threading.Lock()
    _inside = 0
    _library: _Blas | None = None  # of the first that is inside
    _before = 1

    def __enter__(self) -> None:
        own = type(self)
        with own._lock:
            own._inside += 1
            if own._inside == 1 and (blas := _blas()) is not None:
                own._library, own._before = blas, blas.threads()
                blas.set_threads(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        own = type(self)
        with own._lock:
            own._inside -= 1
            if own._library is not None and own._inside == 0:
                own._library.set_threads(own._before)


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function inside OneThread."""

    @wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        with OneThread():
            return function(*args, **options)

    return run
