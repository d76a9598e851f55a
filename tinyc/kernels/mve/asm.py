# SPDX-License-Identifier: Apache-2.0
"""Assembly with vector instructions of MVE."""

from __future__ import annotations

from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm


def VectorAsm() -> Asm:  # noqa: N802
    return Asm(CORTEX_M55)
