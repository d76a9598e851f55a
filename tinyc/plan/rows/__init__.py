# SPDX-License-Identifier: Apache-2.0
"""Layers run row by row, in few bytes: `cuts.py`. Terms: `problem.py`."""

from __future__ import annotations

from tinyc.plan.rows.sliding import Advancing, sliding
from tinyc.plan.rows.unpadded import without_time_padding

__all__ = [
    "Advancing",
    "sliding",
    "without_time_padding",
]
