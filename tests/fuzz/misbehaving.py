# SPDX-License-Identifier: Apache-2.0
"""Cases that do what no case should, one kind per seed, so that tests see the fuzzer notice it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PIECES = 8


def count(seed: int) -> int:
    return PIECES


def check(seed: int, subset: frozenset[int], folder: Path) -> str:
    """0: nothing. 1: raises where the pieces 2 and 5 are both there. 2: dies. 3: hangs. 4: takes memory. 5: leaves."""
    if seed == 1 and {2, 5} <= subset:
        raise ValueError("pieces 2 and 5 meet")
    if seed == 2:
        os.abort()
    while seed == 3:
        pass
    if seed == 4:
        return str(len(bytearray(1 << 33)))
    if seed == 5:
        sys.exit(1)
    return "fine"
