# SPDX-License-Identifier: Apache-2.0
"""Weighted layers with int4 weights on Cortex-M with DSP: the functions of int8 layers.

Weights of conv2d and fully_connected lie as fours.py says, in one of two ways; those of depthwise_conv2d are unpacked
once per channel of a band.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tinyc.kernel.kernel import Condition, Kernel, RowForm
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.depthwise import depthwise
from tinyc.kernels.nibbles import is_s8_w4
from tinyc.kernels.rows import columns as rows_columns
from tinyc.kernels.rows import conv as rows_conv
from tinyc.kernels.rows import depthwise as rows_depthwise
from tinyc.kernels.stream import fours, raised
from tinyc.kernels.weighted import conv, fully_connected


def _conv2d(name: str, when: tuple[Condition, ...], fpu: bool) -> Kernel:
    plain = conv.kernel(name, fours, (is_s8_w4, *when), fpu=fpu)
    return plain.with_row_forms(partial(rows_conv.row_forms, fit=fours, family=name, fpu=fpu))


_FEW = "tc_conv2d_s8_w4_few_asm"


def _few_row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Rows of pixel pairs; none where a row is one pixel."""
    return rows_conv.row_forms(site, p, raised, _FEW) if site.y().shape[2] > 1 else ()


CONV2D = (
    _conv2d("tc_conv2d_s8_w4_fpu_asm", (conv.is_held,), fpu=True),
    _conv2d("tc_conv2d_s8_w4_asm", (), fpu=False),
    conv.kernel(_FEW, raised, (is_s8_w4, conv.is_held)).with_row_forms(_few_row_forms),
)
DENSE = (fully_connected.kernel("tc_fully_connected_s8_w4_asm", fours, (is_s8_w4,)),)
DEPTHWISE = (
    *(
        replace(kernel, name=kernel.name.replace("_s8_", "_s8_w4_"), when=(is_s8_w4, *kernel.when[1:])).with_row_forms(
            rows_depthwise.int4_row_forms
        )
        for kernel in depthwise.KERNELS
    ),
    rows_columns.INT4_KERNEL,
)
