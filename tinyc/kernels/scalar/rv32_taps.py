# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d of any small size on RV32IM, int8 and int4 weights: a C function for each layer, taps one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, SpecializedKernel, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, row_geometry
from tinyc.kernels.nibbles import is_s8_w4, pack_nibbles
from tinyc.kernels.scalar.rv32_conv import ARMV7M_SHARE, ISA, PROVED, channel_constants, channel_text, scaled_finish
from tinyc.kernels.stream import depthwise_matrix_of

_MOST_TAPS = 32  # code has all of them
_TAP_BYTES, _CODE_BYTES = 18, 300


def _taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [C, K]."""
    return np.ascontiguousarray(p.w.reshape(-1, p.w.shape[2]).T).astype(np.int8)


def takes(site: Site) -> bool:
    """constant weights, at most 32 taps, one output per input channel"""
    k_h, k_w, out_c = site.x(1).shape
    return site.is_const(1) and out_c == site.x(0).shape[3] and k_h * k_w <= _MOST_TAPS


def _is_proved(site: Site, p: ConvParams) -> bool:
    return depthwise_matrix_of(p).once(scaled_finish) is not None


def specialize(site: Site, p: ConvParams) -> SpecializedKernel:
    """The function that makes an output row."""
    text = _text(site, p)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    k_h, k_w, out_c = p.w.shape
    bits = "_w4" if site.x(1).dtype == "s4" else ""
    name = f"tc_depthwise_conv2d_s8{bits}_rv32_{k_h}x{k_w}x{out_c}_{digest}"
    return SpecializedKernel(name, text.replace("@", name), ("tc_rv32.h",))


def _text(site: Site, p: ConvParams) -> str:
    """C text of the function `@`."""
    found = depthwise_matrix_of(p).once(scaled_finish)
    if found is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    finish, scale = found
    low, high = finish.requant.clamp or (-128, 127)
    (k_h, k_w, channels), int4 = p.w.shape, site.x(1).dtype == "s4"
    window, in_w, out_w = Window.of(p.attrs, k_h, k_w), site.x(0).shape[2], site.y().shape[2]
    weights = f"{-(-k_h * k_w // 2)} bytes, two int4 weights each, the first in the low half" if int4 else "bytes"
    sums = "\n".join(f"            {line}" for line in _sum(k_h * k_w, int4))
    step = -(-k_h * k_w // 2) if int4 else k_h * k_w
    literals = f"{scale}, &channel, {int(finish.requant.sign)}, {low}, {high}"
    return f"""/* depthwise_conv2d {k_h}x{k_w} on RV32IM: a row of {in_w}x{channels} -> {out_w}x{channels}.
 * w: per channel {weights} [{k_h}][{k_w}]. constants: [start, mult, add, shift] (tc_rv32.h).
 * x: {k_h} row pointers. pad: {channels} bytes of x_zero. y: may not overlap x.
 */
static void @(const int8_t *w, const int32_t *constants, const int8_t *pad, const int8_t *const *x, int8_t *y)
{{
    for (int32_t ox = 0; ox < {out_w}; ox++) {{
        const int8_t *from[{k_h * k_w}], *taps = w;
        const int32_t *channels = constants;
        for (int32_t i = 0; i < {k_h * k_w}; i++) {{
            const int32_t ix = ox * {window.stride.w} - {window.pad.left} + i % {k_w} * {window.dilation.w};
            from[i] = ix >= 0 && ix < {in_w} ? x[i / {k_w}] + ix * {channels} : pad;
        }}
        for (int32_t c = 0; c < {channels}; c++, taps += {step}, channels += 4) {{
            const tc_rv32_channel_t channel = {channel_text(finish)};
            int32_t sum = 0;
{sums}
            *y++ = (int8_t)tc_rv32_output(sum, {literals});
        }}
    }}
}}"""


def _sum(count: int, int4: bool) -> Iterator[str]:
    """Lines that add up the taps."""
    for i in range(count):
        weight = f"taps[{i}]"
        if int4:
            byte = f"taps[{i // 2}]"
            weight = f"({byte} >> 4)" if i % 2 else f"((int32_t)((uint32_t){byte} << 28) >> 28)"
        yield f"sum += from[{i}][c] * {weight};"


def lower(site: Site, p: ConvParams) -> Call:
    """One output row from k_h input rows."""
    found = depthwise_matrix_of(p).once(scaled_finish)
    if found is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    weights = Const(_weights(site, p), "[out_c][k_h][k_w]", "w")
    pad = Const(np.full(len(p.bias), p.x_zero, np.int8), "[in_c] of x_zero", "pad")
    rows = row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero)
    return Call((weights, channel_constants(found[0], p.bias), pad, In(0), Out()), rows=rows)


def _weights(site: Site, p: ConvParams) -> npt.NDArray[np.int8]:
    taps = _taps(p)
    if site.x(1).dtype != "s4":
        return taps
    return pack_nibbles(np.pad(taps, ((0, 0), (0, taps.shape[1] % 2)))).view(np.int8)


def cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, on the scale of `rv32.cost`."""
    taps, pixels = p.w.shape[0] * p.w.shape[1], site.y().elements // len(p.bias)
    executed = pixels * (16 * taps + len(p.bias) * (6.6 * taps + 20)) * ARMV7M_SHARE
    flash = _weights(site, p).size + 16 * len(p.bias) + _TAP_BYTES * taps + _CODE_BYTES
    return Cost(int(executed), flash, 0)


KERNELS = (
    Kernel(
        "tc_depthwise_conv2d_s8_rv32",
        only_if(_is_proved, PROVED, offered(lower, cost=cost, specialize=specialize)),
        isa=ISA,
        when=(is_s8, takes),
        asks=PROVED,
        written=True,
    ),
    Kernel(
        "tc_depthwise_conv2d_s8_w4_rv32",
        only_if(_is_proved, PROVED, offered(lower, cost=cost, specialize=specialize)),
        isa=ISA,
        when=(is_s8_w4, takes),
        asks=PROVED,
        written=True,
    ),
)
