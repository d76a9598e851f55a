# SPDX-License-Identifier: Apache-2.0
"""NumPy's operations on parts of arrays without copies.

Operands whose innermost rows are shorter than NumPy's buffer of 8,192 elements, such as parts of an array or a factor
for each row, are copied through that buffer, types alike or not, which takes two to four times as long as the sum
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

_SHORTEST = 16  # elements of the smallest buffer that all versions of NumPy take

P = ParamSpec("P")
R = TypeVar("R")


def unbuffered(function: Callable[P, R]) -> Callable[P, R]:
    """The function with the smallest buffer, in its own thread: for operands of one type; casts become slow."""

    @wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        before = np.setbufsize(_SHORTEST)
        try:
            return function(*args, **options)
        finally:
            np.setbufsize(before)

    return run
