# SPDX-License-Identifier: Apache-2.0
"""Which parts of a library access words of memory at addresses that are no multiples of 4.

Armv7-M and Armv8-M carry such accesses out, unless CCR.UNALIGN_TRP is set. Kernels that take one element at a time make
none. Those for the DSP extension or Helium, and those that copy or compare by words, take words where a pixel (the
innermost axis) or a row begins: they are aligned where every pixel is a multiple of 4 bytes. Of int16 tensors words are
taken at any element, also by gcc, which joins two of a plain loop. It joins two bytes as well where a kernel writes the
same twice: such a kernel says so (`Kernel.anywhere`).
"""

from __future__ import annotations

import re

import numpy as np

from tinyc.emit.headers import with_included
from tinyc.emit.program import Place, Program, RowTable, Step

_WORD = 4
_BY_WORDS = frozenset({"dsp", "mve"})  # cores whose kernels take words of several elements
_TAKES_WORDS = re.compile(r"\btc_(load|store)_word\(|\btc_copy\b(?!\.h)")
_DEFINES = {"tc_compiler.h", "tc_copy.h", "tc_math.h", "tc_dsp.h"}  # what the others call
_WIDE = {"f32", "s32", "u32", "s64", "u64", "f64"}


def unaligned_steps(program: Program) -> tuple[int, ...]:
    """Numbers of the steps that may make unaligned accesses; no other step makes one."""
    return tuple(step.index for step in program.steps if _takes_words(step) and not _is_aligned(step))


def uses_fpu(program: Program) -> bool:
    """Whether a kernel keeps integers in registers of the FPU, or of Helium, which are the same."""
    return any(step.choice.kernel.isa & {"fpu", "mve"} for step in program.steps)


def unaligned_between(program: Program) -> bool:
    """Whether what the library does between its steps may make some: rows and samples are moved and taken from the
    caller."""
    return any((program.moves, program.push, program.incremental, program.row_input))


def _takes_words(step: Step) -> bool:
    kernel = step.choice.kernel
    if kernel.anywhere or kernel.isa & _BY_WORDS:
        return True
    if any(place.value.dtype in ("s16", "u16") for place in _tensors(step)):
        return True
    return any(_has_words(header, text) for header, text in with_included(step.headers).items())


def _tensors(step: Step) -> list[Place]:
    return [place for place in (*step.inputs, *step.outputs) if place is not None and place.offset is not None]


def _has_words(header: str, text: str) -> bool:
    return header not in _DEFINES and _TAKES_WORDS.search(text) is not None


def _is_aligned(step: Step) -> bool:
    """Whether all pixels and rows of its tensors lie at multiples of 4, and it takes words nowhere else."""
    tables = []
    if step.row_step is not None:
        row = step.row_step
        tables = [*row.inputs.values(), row.output, row.scratch]
    return (
        not step.choice.kernel.anywhere
        and step.scratch_offset % _WORD == 0
        and all(map(_has_aligned_pixels, _tensors(step)))
        and all(map(_has_aligned_rows, tables))
    )


def _has_aligned_pixels(place: Place) -> bool:
    value = place.value
    if (place.offset or 0) % _WORD or any(row % _WORD for row in place.rows):
        return False
    if value.dtype in _WIDE:
        return True
    pixel = value.size_bytes * value.shape[-1] // value.elements if value.shape else value.size_bytes
    is_one = pixel == value.size_bytes
    return value.dtype not in ("s16", "u16") and (is_one or pixel % _WORD == 0)


def _has_aligned_rows(table: RowTable) -> bool:
    if table.table is not None:
        rows = np.asarray(table.table.data, np.int64) * table.unit
        return table.unit % _WORD == 0 or not (rows % _WORD).any()
    return table.base % _WORD == 0 and table.step % _WORD == 0
