# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d in float32 with Helium: a row of pixels made of the blocks of `lanes.py`.

Channels go by fours. Where their number is no multiple of four, the second four overlap the first: some are computed
twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.float32 import Floats
from tinyc.kernel.kernel import Call, Const, Cost, Fetches, In, Kernel, Out, SpecializedKernel, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import in_float32
from tinyc.kernel.windows import Window, row_geometry
from tinyc.kernels.float32.arguments import HEADER
from tinyc.kernels.float32.lanes import Lanes, balanced, lanes_function, pixels_together
from tinyc.kernels.float32.matrix import FloatLayer, depthwise_layer, has_normal_weights, is_plain_depthwise
from tinyc.kernels.float32.vectors import LANES
from tinyc.kernels.float32.weighted import bias_of, has_weights
from tinyc.kernels.form.function import MVE_FLOAT, LayerFunction, where
from tinyc.machine.thumb import Work

_NAME = "tc_depthwise_conv2d_f32_mve"
_MOST_COLUMNS = 16  # of a window, which are written one after the other
_LOOP_BYTES = 400
_PART, _ROW = Work(16, 20), Work(40, 50)  # around the call of a block, and around that of a row


@dataclass(frozen=True, slots=True)
class _Part:
    """`count` blocks side by side, the first pixel of the first in column `first`."""

    first: int
    count: int
    lanes: Lanes


def _parts(layer: FloatLayer) -> list[_Part]:
    """All columns, from left to right."""
    parts: list[_Part] = []
    column = 0
    for pixels in balanced(layer.out_w, pixels_together(layer.k_w)):
        spans = tuple(layer.span(column + pixel) for pixel in range(pixels))
        lanes = Lanes(spans, layer.k_w, layer.stride, 4 * layer.in_c, layer.act)
        if parts and parts[-1].lanes == lanes:
            parts[-1] = _Part(parts[-1].first, parts[-1].count + 1, lanes)
        else:
            parts.append(_Part(column, 1, lanes))
        column += pixels
    return parts


def _firsts(channels: int) -> list[int]:
    """The first channel of each four."""
    rest = channels % LANES
    return [0, *range(rest or LANES, channels, LANES)]


def _stream(layer: FloatLayer, w: Floats) -> Floats:
    """w [k_h, k_w, channels] in the order of use."""
    return np.stack([w[:, :, first : first + LANES] for first in _firsts(layer.in_c)])


def _call_text(layer: FloatLayer, part: _Part, function: str) -> str:
    start = part.first * layer.stride - layer.pad
    offset = 4 * layer.in_c * (start + part.lanes.first)
    acts = int(bool(layer.act)), int(layer.act == "relu6")
    fast = f"    {function}(&p);\n    if (p.flushed)\n"
    shape = len(part.lanes.spans), start, layer.stride, layer.k_w, layer.in_w, *acts
    return f"""
    p.y = y + {part.first * layer.out_c};
    p.offset = {offset};
    p.count = {part.count};
{where(MVE_FLOAT, fast)}
    {{
        static const tc_lanes_f32_t lanes = {{{", ".join(map(str, shape))}}};
        tc_lanes_f32(&p, &lanes);
    }}"""


def _special(layer: FloatLayer) -> SpecializedKernel:
    parts = _parts(layer)
    blocks = {lanes: lanes_function(lanes) for lanes in dict.fromkeys(part.lanes for part in parts)}
    calls = "".join(_call_text(layer, part, blocks[part.lanes].name) for part in parts)
    contract = f"""/* depthwise_conv2d, float32, {layer.in_c} channels: {HEADER}.
 * w: [four channels][k_h][k_w][4], bias: [channels].
 */"""
    driver = f"""static void @(const float *w, const float *bias, const int8_t *const *x, float *y)
{{
    tc_block_f32_t p;

    p.bias = bias;
    p.row = {4 * LANES * layer.k_w};
    p.turns = {len(_firsts(layer.in_c))};
    p.rest = {4 * (layer.in_c % LANES or LANES)};
    p.step = {4 * layer.in_c};
    p.tap = {4 * layer.in_c};
    p.y_step = {4 * layer.in_c};
    p.six = 6.0f;
    tc_lanes_rows(&p, w, x, {layer.k_h});{calls}
}}
"""
    return LayerFunction(contract, driver=driver).named(f"{_NAME}_c{layer.in_c}", HEADER, parts=tuple(blocks.values()))


def _cost(site: Site, p: Any) -> Cost:
    """Exact but for what the compiler makes around the blocks, and for subnormal numbers."""
    layer, rows = depthwise_layer(site), site.y().shape[1]
    inside = int(Window.of(site.attrs, layer.k_h, layer.k_w).taps_inside(site.x(0).shape)[0].sum())
    fours, total, fetched = len(_firsts(layer.in_c)), rows * _ROW, 0
    parts = _parts(layer)
    for part in parts:
        lanes, blocks = part.lanes, part.count * fours
        total += rows * (_PART + lanes.work() + part.count * lanes.work("group") + blocks * lanes.work("channel"))
        total += blocks * inside * lanes.work("row")
        fetched += blocks * inside * len(lanes.taps) * 4 * LANES
    code = sum(4 * lanes_function(lanes).text.count("\\n") for lanes in {part.lanes for part in parts})
    flash = 4 * LANES * fours * layer.k_h * layer.k_w + 4 * layer.out_c + code + 60 * len(parts)
    return Cost(total.instructions, flash, 0, total.cycles, Fetches.around(fetched, _LOOP_BYTES, total.instructions))


def _lower(site: Site, p: Any) -> Call:
    """One output row from k_h input rows."""
    layer = depthwise_layer(site)
    window = Window.of(site.attrs, layer.k_h, layer.k_w)
    w = Const(_stream(layer, site.const(1)), "[four channels][k_h][k_w][4]", "w")
    bias = Const(bias_of(site, layer.out_c), "[out_c]", "bias")
    return Call((w, bias, In(0), Out()), rows=row_geometry(site, window, None))


def is_narrow(site: Site) -> bool:
    """at most 16 columns in a window, each window with a column of the image"""
    layer = depthwise_layer(site)
    spans = [layer.span(column) for column in range(layer.out_w)]
    return layer.k_w <= _MOST_COLUMNS and all(left < right for left, right in spans)


DEPTHWISE_MVE = Kernel(
    _NAME,
    offered(_lower, cost=_cost, specialize=lambda site, p: _special(depthwise_layer(site))),
    isa=frozenset({"fpu", "mve"}),
    when=(in_float32, has_weights, is_plain_depthwise, is_narrow, has_normal_weights),
    written=True,
)
