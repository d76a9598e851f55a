# SPDX-License-Identifier: Apache-2.0
"""The arguments of blocks of float32 sums, tc_block_f32_t of tc_float_blocks.h: a word each."""

from __future__ import annotations

HEADER = "tc_float_blocks.h"
_FIELDS = (
    *("w", "bias", "rows", "k_h", "y", "offset", "count", "turns"),
    *("rest", "skip", "row", "y_step", "tap", "six", "y_at", "offset_at"),
    *("step", "left", "flushed"),
)


def at(field: str) -> str:
    """The place of a field of tc_block_f32_t behind r0."""
    return f"[r0, #{4 * _FIELDS.index(field)}]"
