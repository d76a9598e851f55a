# SPDX-License-Identifier: Apache-2.0
"""conv2d and fully_connected in float32 with VFMA: rows of pixels made of the blocks of `blocks.py`.

The pixels of a row whose windows lie inside the image go by twos; those at a border, whose windows are cut off, one by
one. Output channels go by eights; what is left over by four or eight that overlap those before, computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.float32 import Floats
from tinyc.kernel.kernel import Call, Condition, Const, Cost, Fetches, In, Kernel, Out, SpecializedKernel, offered
from tinyc.kernel.site import RELU, RELU6, Act, Site
from tinyc.kernel.types import in_float32
from tinyc.kernel.windows import Window, row_geometry
from tinyc.kernels.float32.arguments import HEADER
from tinyc.kernels.float32.blocks import Channels, FloatBlock, block_function
from tinyc.kernels.float32.vectors import VectorBlock
from tinyc.kernels.float32.weighted import bias_of, has_weights
from tinyc.kernels.form.function import LayerFunction
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Work

_ACTS = {Act(): "", RELU: "relu", RELU6: "relu6"}
_WIDE, _NARROW = 8, 4  # output channels of a block
_UNROLLED = 5  # columns of a depthwise window that are written one after the other
_LEAST_NORMAL = np.float32(2.0**-126)
_LOOP_BYTES = 600  # of the inner loop, eight taps
_PART, _ROW = Work(24, 32), Work(16, 24)  # around the call of a block, and around that of a row


@dataclass(frozen=True, slots=True)
class FloatPart:
    """Pixels of a row that one call makes: `count` groups of `pixels` from column `first` on. Of their windows the taps
    [left, right) of a row are inside the image."""

    first: int
    count: int
    pixels: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class FloatLayer:
    """A row of output pixels: in_w pixels of in_c channels, windows of k_h rows and k_w columns."""

    in_w: int
    in_c: int
    out_w: int
    out_c: int
    k_h: int
    k_w: int
    stride: int
    pad: int
    act: str
    core: Core
    depthwise: bool = False
    vectors: bool = False

    @property
    def taps(self) -> int:
        """Of an output."""
        return self.k_h * self.k_w * self.depth

    @property
    def depth(self) -> int:
        """Inputs of an output under each tap."""
        return 1 if self.depthwise else self.in_c

    @property
    def together(self) -> int:
        """Pixels of a block."""
        return 3 if self.vectors else 2

    @property
    def wide(self) -> int:
        """Output channels of a block: of a single pixel, as many as there are vectors for."""
        return 24 if self.vectors and self.out_w == 1 else _WIDE

    def block(self, part: FloatPart, outputs: int) -> FloatBlock | Channels | VectorBlock:
        """The function that makes a part of the row."""
        width = part.right - part.left
        if self.vectors:
            return VectorBlock(outputs, part.pixels, self.act)
        if self.depthwise:
            return Channels(outputs, part.pixels, width if width <= _UNROLLED else 1, self.act, self.core)
        taps = width * self.depth
        return FloatBlock(outputs, part.pixels, 4 if taps % 8 >= 4 or taps < 8 else 8, self.act, self.core)

    @property
    def channels(self) -> tuple[tuple[int, int], ...]:
        """(first, how many) output channels of each block."""
        whole, rest = divmod(self.out_c, self.wide)
        spans = [(self.wide * k, self.wide) for k in range(whole)]
        last = rest + -rest % _NARROW
        if last > self.out_c:
            spans.append((0, last - _NARROW))
            last = _NARROW
        return (*spans, (self.out_c - last, last)) if rest else tuple(spans)

    @property
    def parts(self) -> tuple[FloatPart, ...]:
        """All columns, from left to right."""
        spans = [self.span(column) for column in range(self.out_w)]
        inside = [column for column, span in enumerate(spans) if span == (0, self.k_w)]
        parts, column = [], 0
        while column < self.out_w:
            if column in inside:
                count = sum(other >= column for other in inside)
                groups, rest = divmod(count, self.together)
                parts += [FloatPart(column, groups, self.together, 0, self.k_w)] if groups else []
                parts += [FloatPart(column + count - rest, 1, rest, 0, self.k_w)] if rest else []
                column += count
            else:
                parts.append(FloatPart(column, 1, 1, *spans[column]))
                column += 1
        return tuple(parts)

    def span(self, column: int) -> tuple[int, int]:
        """The taps [left, right) of a row of the window of an output column that are inside the image."""
        start = column * self.stride - self.pad
        return max(0, -start), min(self.k_w, self.in_w - start)


def _conv_layer(site: Site) -> FloatLayer:
    a, (out_c, k_h, k_w, in_c) = site.attrs, site.x(1).shape
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    return FloatLayer(in_w, in_c, out_w, out_c, k_h, k_w, a.stride.w, a.pad.left, _ACTS[a.act], site.core)


def _dense_layer(site: Site) -> FloatLayer:
    out_c, in_c = site.x(1).shape
    batch = site.y().elements // out_c
    return FloatLayer(batch, in_c, batch, out_c, 1, 1, 1, 0, _ACTS[site.attrs.act], site.core)


def _weights(layer: FloatLayer, w: Floats) -> Floats:
    """Rows of taps [O, K] as blocks of channels, each tap by tap."""
    return np.concatenate([w[first : first + count].T.ravel() for first, count in layer.channels])


def _blocks(layer: FloatLayer) -> Iterator[FloatBlock | Channels | VectorBlock]:
    """The functions in use."""
    blocks = [layer.block(part, outputs) for _, outputs in layer.channels for part in layer.parts]
    return iter(dict.fromkeys(blocks))


def _text(layer: FloatLayer, dense: bool) -> str:
    """The C function `@`, and one for the channels of a block each."""
    parameters = (
        f"const float *w, const float *bias, {'const float *x' if dense else 'const int8_t *const *x'}, float *y"
    )
    widths = sorted({count for _, count in layer.channels})
    texts = [_of_width(layer, width) for width in widths]
    lines, at = [], 0
    for first, count in layer.channels:
        behind = f", {4 * first}" if layer.depthwise else ""
        lines.append(f"    @_{count}(w + {at}, bias + {first}, {'rows' if dense else 'x'}, y + {first}{behind});")
        at += count * layer.taps
    whole = layer.out_c // layer.wide
    if whole > 2:
        step = (
            f"w + o * {layer.taps}, bias + o, {'rows' if dense else 'x'}, y + o{', 4 * o' if layer.depthwise else ''}"
        )
        wide = layer.wide
        loop = f"    for (int32_t o = 0; o < {wide * whole}; o += {wide}) {{\n        @_{wide}({step});\n    }}"
        lines[:whole] = [loop]
    rows = ["    const int8_t *rows[1] = {(const int8_t *)x};\n"] if dense else []
    body = "\n".join(rows + lines)
    return "\n".join([*texts, f"static void @({parameters})\n{{\n{body}\n}}"])


def _of_width(layer: FloatLayer, width: int) -> str:
    channel = ", int32_t channel" if layer.depthwise else ""
    lines = []
    for part in layer.parts:
        block, taps = layer.block(part, width), (part.right - part.left) * layer.depth
        start = part.left * layer.depth * width
        offset = 4 * layer.in_c * (part.first * layer.stride - layer.pad + part.left)
        values = {
            "w": f"w + {start}" if start else "w",
            "y": f"y + {part.first * layer.out_c}" if part.first else "y",
            "offset": f"{offset}" + (" + channel" if layer.depthwise else ""),
            "count": f"{part.count}",
            "turns": f"{taps // block.turn}",
            "rest": f"{taps % block.turn}",
            "skip": f"{4 * width * (layer.k_w * layer.depth - taps)}",
        }
        lines += [f"    block.{name} = {value};" for name, value in values.items()]
        lines.append(f"    {block.name}(&block);")
    parameters = f"const float *w, const float *bias, const int8_t *const *x, float *y{channel}"
    return f"""static TC_NOINLINE void @_{width}({parameters})
{{
    tc_block_f32_t block;

    block.bias = bias;
    block.rows = x;
    block.k_h = {layer.k_h};
    block.step = {4 * layer.stride * layer.in_c};
    block.row = {4 * layer.k_w * layer.depth * width};
    block.tap = {4 * layer.in_c};
    block.y_step = {4 * layer.out_c};
    block.six = 6.0f;
{chr(10).join(lines)}
}}
"""


def _special(layer: FloatLayer, dense: bool) -> SpecializedKernel:
    contract = f"""\
/* {"fully_connected" if dense else "conv2d"}, float32, {layer.in_c} -> {layer.out_c} channels: {HEADER}.
 * w: blocks of output channels, [k_h][k_w][in_c][channels] each; bias [out_c].
 */"""
    kind = "tc_fully_connected" if dense else "tc_depthwise_conv2d" if layer.depthwise else "tc_conv2d"
    stem = f"{kind}_f32_{'mve' if layer.vectors else 'asm'}_i{layer.in_c}_o{layer.out_c}"
    parts = tuple(block_function(block) for block in _blocks(layer))
    return LayerFunction(contract, driver=_text(layer, dense)).named(stem, HEADER, parts=parts)


def _cost(site: Site, layer: FloatLayer, rows: int, windows: int) -> Cost:
    """Exact but for what the compiler makes around the blocks, and for subnormal numbers. rows: output rows; windows:
    rows of windows that lie inside the image, of all output rows."""
    total, fetched = rows * _ROW, 0
    for _, width in layer.channels:
        for part in layer.parts:
            block, taps = layer.block(part, width), (part.right - part.left) * layer.depth
            total += rows * (_PART + block.work() + part.count * block.work("group"))
            lines = part.count * windows
            fetched += 4 * lines * taps * width
            turns, rest = divmod(taps, block.turn)
            total += lines * (block.work("row") + turns * block.work("turn") + rest * block.work("tap"))
    weights = sum(count for _, count in layer.channels) * layer.taps
    code = sum(4 * block_function(block).text.count("\\n") for block in _blocks(layer))
    flash = 4 * (weights + layer.out_c) + code + 60 * len(layer.parts)
    fetches = Fetches.around(fetched, _LOOP_BYTES, total.instructions)
    return Cost(total.instructions, flash, 0, total.cycles, fetches)


def _cost_conv(site: Site, layer: FloatLayer) -> Cost:
    w = site.x(1).shape
    rows, _ = Window.of(site.attrs, w[1], w[2]).taps_inside(site.x(0).shape)
    return _cost(site, layer, site.y().shape[1], int(rows.sum()))


def _cost_dense(site: Site, layer: FloatLayer) -> Cost:
    return _cost(site, layer, 1, 1)


def _lower_conv(site: Site, layer: FloatLayer) -> Call:
    """One output row from k_h input rows."""
    w = site.const(1)
    window = Window.of(site.attrs, layer.k_h, layer.k_w)
    consts = _constants(site, layer, w.reshape(layer.out_c, -1))
    return Call((*consts, In(0), Out()), rows=row_geometry(site, window, None))


def _lower_dense(site: Site, layer: FloatLayer) -> Call:
    """The whole tensor."""
    return Call((*_constants(site, layer, site.const(1)), In(0), Out()))


def _constants(site: Site, layer: FloatLayer, w: Floats) -> tuple[Const, Const]:
    weights = Const(_weights(layer, w), "blocks of channels, [k_h][k_w][in_c][channels] each", "w")
    return weights, Const(bias_of(site, layer.out_c), "[out_c]", "bias")


def depthwise_layer(site: Site) -> FloatLayer:
    a, (k_h, k_w, out_c) = site.attrs, site.x(1).shape
    in_w, out_w = site.x(0).shape[2], site.y().shape[2]
    return FloatLayer(
        in_w, out_c, out_w, out_c, k_h, k_w, a.stride.w, a.pad.left, _ACTS[a.act], site.core, depthwise=True
    )


def _cost_depthwise(site: Site, layer: FloatLayer) -> Cost:
    w = site.x(1).shape
    rows, _ = Window.of(site.attrs, w[0], w[1]).taps_inside(site.x(0).shape)
    return _cost(site, layer, site.y().shape[1], int(rows.sum()))


def _lower_depthwise(site: Site, layer: FloatLayer) -> Call:
    """One output row from k_h input rows."""
    w = site.const(1)
    window = Window.of(site.attrs, layer.k_h, layer.k_w)
    consts = _constants(site, layer, w.reshape(-1, layer.out_c).T)
    return Call((*consts, In(0), Out()), rows=row_geometry(site, window, None))


def is_plain_depthwise(site: Site) -> bool:
    """one output per input channel, at least 4 channels; no horizontal dilation, no activation but relu and relu6"""
    a, (_, k_w, out_c) = site.attrs, site.x(1).shape
    same = site.x(0).shape[3] == out_c >= _NARROW
    return bool(same and (a.dilation.w == 1 or k_w == 1) and a.act in _ACTS)


def takes(site: Site) -> bool:
    """at least 4 output channels, no activation but relu and relu6"""
    a = site.attrs
    return site.x(1).shape[0] >= _NARROW and a.act in _ACTS


def sees_columns(site: Site) -> bool:
    """windows that each hold a column of the image"""
    a, w = site.attrs, site.x(1).shape
    k_w = w[2] if len(w) == 4 else w[1]
    return int(Window.of(a, 1, k_w).taps_inside(site.x(0).shape)[1].min()) > 0


def is_contiguous(site: Site) -> bool:
    """one group, no horizontal dilation"""
    a = site.attrs
    return bool(a.groups == 1 and (a.dilation.w == 1 or site.x(1).shape[2] == 1))


def has_normal_weights(site: Site) -> bool:
    """no subnormal number among weights and biases"""
    consts = [np.abs(site.const(i)) for i in (1, 2) if site.has(i)]
    return not any(((each > 0) & (each < _LEAST_NORMAL)).any() for each in consts)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the kernels of an operator share."""

    name: str
    layer: Callable[[Site], FloatLayer]
    lower: Callable[[Site, FloatLayer], Call]
    cost: Callable[[Site, FloatLayer], Cost]
    when: tuple[Condition, ...]

    def kernel(self, vectors: bool = False) -> Kernel:
        """The one in assembly for the FPU, or with Helium."""

        def layer(site: Site) -> FloatLayer:
            return replace(self.layer(site), vectors=vectors)

        return Kernel(
            f"{self.name}_f32_{'mve' if vectors else 'asm'}",
            offered(
                lambda site, p: self.lower(site, layer(site)),
                cost=lambda site, p: self.cost(site, layer(site)),
                specialize=lambda site, p: _special(layer(site), dense=self.lower is _lower_dense),
            ),
            isa=frozenset({"fpu", "mve"} if vectors else {"fpu"}),
            when=(in_float32, has_weights, *self.when, *((has_normal_weights,) if vectors else ())),
            written=True,
        )


_CONV = _Kind("tc_conv2d", _conv_layer, _lower_conv, _cost_conv, (takes, is_contiguous, sees_columns))
_DENSE = _Kind("tc_fully_connected", _dense_layer, _lower_dense, _cost_dense, (takes,))
_DEPTHWISE = _Kind(
    "tc_depthwise_conv2d", depthwise_layer, _lower_depthwise, _cost_depthwise, (is_plain_depthwise, sees_columns)
)
CONV, CONV_MVE = _CONV.kernel(), _CONV.kernel(vectors=True)
DENSE, DENSE_MVE = _DENSE.kernel(), _DENSE.kernel(vectors=True)
DEPTHWISE = _DEPTHWISE.kernel()
