# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d 3x3 on RV32IM, int8 and int4 weights: a C function for each layer, sizes as literals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Once, Out, RowForm, SpecializedKernel, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, row_geometry
from tinyc.kernels.nibbles import is_s8_w4, pack_nibbles
from tinyc.kernels.scalar.rv32_conv import ARMV7M_SHARE, ISA, PROVED, channel_constants, channel_text, scaled_finish
from tinyc.kernels.stream import depthwise_matrix_of

_UNROLLED = 8  # pixels of a row without a loop
_CODE_BYTES = 110  # of a pixel


@dataclass(frozen=True)
class _Layer:
    """What the code of a row depends on. scale, sign, low, high: of the requantization (tc_rv32.h)."""

    in_w: int
    out_w: int
    channels: int
    stride: int
    pad_left: int
    x_zero: int
    scale: int
    sign: bool
    low: int
    high: int
    int4: bool
    constants: str  # C text of a channel's

    def columns(self, pixel: int) -> range:
        """The columns that are read for a pixel beside those of the pixel before."""
        last = pixel * self.stride - self.pad_left + 3
        return range(last - self.stride, last)

    @property
    def in_place(self) -> bool:
        """Whether every column is read before the pixel in its place is written."""
        return self.stride == 1 and self.pad_left < 2 and self.in_w == self.out_w

    @property
    def looped(self) -> range:
        """Pixels that a loop makes: they read no column outside, and are many."""
        inside = [i for i in range(self.out_w) if self.columns(i)[0] >= 0 and self.columns(i)[-1] < self.in_w]
        found = range(inside[0], inside[-1] + 1) if inside else range(0)
        return found if len(found) > _UNROLLED else range(0)


def _taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [C, 9]."""
    return np.ascontiguousarray(p.w.reshape(9, -1).T).astype(np.int8)


def takes(site: Site) -> bool:
    """constant 3x3 weights, one output per input channel, horizontal stride 1 or 2, no dilation, left padding of at
    most 3 - stride"""
    if not site.is_const(1) or site.x(1).shape[:2] != (3, 3) or site.x(1).shape[2] != site.x(0).shape[3]:
        return False
    a = site.attrs
    return a.stride.w in (1, 2) and tuple(a.dilation) == (1, 1) and a.pad.left <= 3 - a.stride.w


def _is_proved(site: Site, p: ConvParams) -> bool:
    return depthwise_matrix_of(p).once(scaled_finish) is not None


def _layer(site: Site, p: ConvParams) -> _Layer:
    found = depthwise_matrix_of(p).once(scaled_finish)
    if found is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    finish, scale = found
    low, high = finish.requant.clamp or (-128, 127)
    return _Layer(
        in_w=site.x(0).shape[2],
        out_w=site.y().shape[2],
        channels=len(p.bias),
        stride=p.attrs.stride.w,
        pad_left=p.attrs.pad.left,
        x_zero=p.x_zero,
        scale=scale,
        sign=finish.requant.sign,
        low=low,
        high=high,
        int4=site.x(1).dtype == "s4",
        constants=channel_text(finish),
    )


def specialize(site: Site, p: ConvParams) -> SpecializedKernel:
    """The function that makes an output row."""
    layer = _layer(site, p)
    text = _text(layer)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    bits = "_w4" if layer.int4 else ""
    name = f"tc_depthwise_conv2d_3x3_s8{bits}_rv32_{layer.in_w}x{layer.channels}_{digest}"
    return SpecializedKernel(name, text.replace("@", name), ("tc_rv32.h", "tc_rv32_depthwise.h"))


def _text(layer: _Layer) -> str:
    """C text of the function `@`."""
    weights = "5 bytes, two int4 weights each, the first in the low half" if layer.int4 else "9 bytes"
    body = "\n".join(f"        {line}" for line in _channel(layer))
    sizes = f"{layer.in_w}x{layer.channels} -> {layer.out_w}x{layer.channels}, stride {layer.stride}"
    where = "may be one of them" if layer.in_place else "may not overlap them"
    return f"""/* depthwise_conv2d 3x3 on RV32IM: a row of {sizes}.
 * w: per channel {weights} [3][3]. channels: [start, mult, add, shift] (tc_rv32.h).
 * x: 3 row pointers. y: {where}.
 */
static void @(const int8_t *w, const int32_t *channels, const int8_t *const *x, int8_t *y)
{{
    const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2];
    for (int8_t *const end = y + {layer.channels}; y < end; y++, x0++, x1++, x2++, channels += 4) {{
        const tc_rv32_channel_t channel = {layer.constants};
        tc_rv32_column_t now;
        int32_t taps[9], first{", second" if _keeps_second(layer, -1) else ""};
        w = tc_rv32_weights{"4" if layer.int4 else ""}(w, taps);
{body}
    }}
}}"""


def _channel(layer: _Layer) -> Iterator[str]:
    """The lines that make the row of a channel."""
    start, looped = layer.columns(0)[0], layer.looped
    yield _take(layer, start - 3 + layer.stride)
    yield "first = tc_rv32_taps(now, taps, 0);"
    if layer.stride == 1:
        yield _take(layer, start - 1)
        yield "first += tc_rv32_taps(now, taps, 1);"
        if _keeps_second(layer, -1):
            yield "second = tc_rv32_taps(now, taps, 0);"
    for pixel in range(layer.out_w):
        if pixel not in looped:
            yield from _pixel(layer, pixel, f"y[{pixel * layer.channels}]")
        elif pixel == looped[0]:
            at, step = layer.columns(pixel)[0] * layer.channels, layer.stride * layer.channels
            yield f"const int8_t *p0 = x0 + {at}, *p1 = x1 + {at}, *p2 = x2 + {at};"
            yield f"int8_t *to = y + {pixel * layer.channels}, *const stop = y + {(looped[-1] + 1) * layer.channels};"
            yield f"for (; to < stop; to += {layer.channels}, p0 += {step}, p1 += {step}, p2 += {step}) {{"
            yield from (f"    {line}" for line in _pixel(layer, pixel, "*to", layer.columns(pixel)[0]))
            yield "}"


def _pixel(layer: _Layer, pixel: int, to: str, base: int | None = None) -> Iterator[str]:
    """The columns that end at a pixel, its output, and the begin of the sums behind it.

    base: in a loop, the column that its pointers are at.
    """
    columns = layer.columns(pixel)
    if layer.stride == 2:
        yield _take(layer, columns[0], base)
        yield "first += tc_rv32_taps(now, taps, 1);"
    yield _take(layer, columns[-1], base)
    yield "first += tc_rv32_taps(now, taps, 2);"
    literals = f"{layer.scale}, &channel, {int(layer.sign)}, {layer.low}, {layer.high}"
    yield f"{to} = (int8_t)tc_rv32_output(first, {literals});"
    if pixel == layer.out_w - 1:
        return
    if layer.stride == 2:
        yield "first = tc_rv32_taps(now, taps, 0);"
    else:
        yield "first = second + tc_rv32_taps(now, taps, 1);"
        if _keeps_second(layer, pixel):
            yield "second = tc_rv32_taps(now, taps, 0);"


def _keeps_second(layer: _Layer, pixel: int) -> bool:
    """Whether there is a pixel two behind this one, whose sum begins before that of the one between ends."""
    return layer.stride == 1 and pixel + 2 < layer.out_w


def _take(layer: _Layer, column: int, base: int | None = None) -> str:
    """Reads a column, or takes the zero points outside."""
    if not 0 <= column < layer.in_w:
        taps = ", ".join([str(layer.x_zero)] * 3)
    elif base is None:
        taps = ", ".join(f"x{row}[{column * layer.channels}]" for row in range(3))
    else:
        taps = ", ".join(f"p{row}[{(column - base) * layer.channels}]" for row in range(3))
    return f"now = tc_rv32_column({taps});"


def lower(site: Site, p: ConvParams) -> Call:
    """One output row from three input rows."""
    weights = Const(_taps(p), "[out_c][k_h][k_w]", "w")
    if site.x(1).dtype == "s4":
        even = np.pad(_taps(p), ((0, 0), (0, 1)))
        weights = Const(pack_nibbles(even).view(np.int8), "[out_c][5], two int4 in a byte, low half first", "w")
    found = depthwise_matrix_of(p).once(scaled_finish)
    if found is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    channels = channel_constants(found[0], p.bias)
    return Call((weights, channels, In(0), Out()), rows=row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero))


def cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, on the scale of `rv32.cost`."""
    layer = _layer(site, p)
    executed = int(site.y().shape[1] * layer.channels * (24 + 32 * layer.out_w) * ARMV7M_SHARE)
    pixels = layer.out_w - max(len(layer.looped) - 1, 0)
    flash = (5 if layer.int4 else 9) * layer.channels + 16 * layer.channels + _CODE_BYTES * (2 + pixels)
    return Cost(executed, flash, 0)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """A row in place of an input row, where that may be."""
    if not _layer(site, p).in_place:
        return ()
    return (RowForm(lower(site, p), 0, cost(site, p), Once(lambda: specialize(site, p)), inplace=(0,)),)


_S8, _W4 = "tc_depthwise_conv2d_3x3_s8_rv32", "tc_depthwise_conv2d_3x3_s8_w4_rv32"
KERNELS = (
    Kernel(
        _S8,
        only_if(_is_proved, PROVED, offered(lower, cost=cost, specialize=specialize, row_forms=row_forms)),
        isa=ISA,
        when=(is_s8, takes),
        asks=PROVED,
        written=True,
    ),
    Kernel(
        _W4,
        only_if(_is_proved, PROVED, offered(lower, cost=cost, specialize=specialize, row_forms=row_forms)),
        isa=ISA,
        when=(is_s8_w4, takes),
        asks=PROVED,
        written=True,
    ),
)
