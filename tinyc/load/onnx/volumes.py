# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools over volumes [1,C,D,H,W], as operators on images.

A volume is held as [1,D,H,W,C]. A pool takes depth and rows first, over an image whose pixels are whole lines, then
columns. A convolution is one over images for each plane of its output: the planes that it reads lie in the channels of
one image. Where its kernel is one pixel wide and high, one convolution along the depth does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.windows import Window
from tinyc.load.onnx.importing import OnnxStep
from tinyc.load.onnx.windows import ONE, AxisWindow, window
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.slice import whole
from tinyc.ops.transpose import Transpose

_PLANES_LAST, _PLANES_FIRST = (0, 2, 3, 4, 1), (0, 4, 1, 2, 3)


def conv(s: OnnxStep, groups: int, sliding: Sequence[AxisWindow], bias: Value | None) -> None:
    """Conv with weights [O,I/groups,KD,KH,KW]."""
    x = _volume(s)
    deep, rows, columns = sliding
    _, depth, high, wide, _ = x.shape
    if rows == columns == ONE:
        lines = s.reshape(x, (1, depth, high * wide, x.shape[4]), "lines")
        kernel = _Kernel(s, groups, tuple(range(deep.kernel)), of_depth=True)
        y = kernel.layer(lines, window(deep, ONE), bias, "along_depth")
        _emit(s, y, (1, y.shape[1], high, wide, y.shape[3]))
        return
    planes: dict[int, Value] = {}
    kernels: dict[tuple[int, ...], _Kernel] = {}
    outputs = []
    for place in range(deep.places(depth)):
        taps = deep.taps(place, depth)
        if not taps:
            raise TinycError(f"plane {place} of the output is made of padding alone", s.where)
        for plane in taps.values():
            if plane not in planes:
                cut = s.insert([x], whole(x.shape, 1, plane, 1), f"plane{plane}")
                planes[plane] = s.reshape(cut, (1, *x.shape[2:]), f"image{plane}")
        key = tuple(taps)
        kernels[key] = kernels.get(key) or _Kernel(s, groups, key)
        image = _side_by_side(s, [planes[plane] for plane in taps.values()], groups, place)
        outputs.append(kernels[key].layer(image, window(rows, columns), bias, f"output{place}"))
    if not outputs:
        raise TinycError(f"a window of {deep.span} planes does not fit the padded {depth}", s.where)
    _, *size, out_c = outputs[0].shape
    y = s.insert(outputs, Concat(1), "planes") if len(outputs) > 1 else outputs[0]
    _emit(s, y, (1, len(outputs), *size, out_c))


class _Kernel:
    """The weights of some taps of depth, as those of a convolution over images; one constant for all planes."""

    def __init__(self, s: OnnxStep, groups: int, taps: tuple[int, ...], of_depth: bool = False) -> None:
        self._step, self._groups = s, groups
        alone = len(taps) == 1 or of_depth
        self._depthwise = groups > 1 and s.weights(1).shape[1] == 1 and alone

        def move(a: Array) -> Array:
            a = a[:, :, :, :, 0] if of_depth else _in_channels(a[:, :, list(taps)], groups)  # [O,I,KH,KW]
            return a[:, 0].transpose(1, 2, 0) if self._depthwise else a.transpose(0, 2, 3, 1)

        self._weights = s.weight(1, move, 2 if self._depthwise else 0)

    def layer(self, x: Value, at: Window, bias: Value | None, suffix: str) -> Value:
        attrs = (at.stride, at.pad, at.dilation)
        kind = DepthwiseConv2D(*attrs) if self._depthwise else Conv2D(*attrs, self._groups)
        return self._step.insert([x, self._weights, bias], kind, suffix)


def _in_channels(w: Array, groups: int) -> Array:
    """Weights [O,I,taps,KH,KW] with the taps of depth in the channels, in the order of `_side_by_side`."""
    w = w.transpose(0, 2, 1, 3, 4) if groups == 1 else w
    return w.reshape(len(w), -1, *w.shape[3:])


def _side_by_side(s: OnnxStep, planes: Sequence[Value], groups: int, place: int) -> Value:
    """Images [1,H,W,C] as one of the channels of all: plane by plane, or, where groups need theirs together, channel by
    channel."""
    if len(planes) == 1:
        return planes[0]
    if groups == 1:
        return s.insert(planes, Concat(3), f"stack{place}")
    shape = planes[0].shape
    apart = [s.reshape(plane, (*shape, 1), f"stack{place}of{k}") for k, plane in enumerate(planes)]
    stack = s.insert(apart, Concat(4), f"stack{place}")
    return s.reshape(stack, (*shape[:3], shape[3] * len(planes)), f"channels{place}")


def pool(s: OnnxStep, sliding: Sequence[AxisWindow], attrs: Callable[[Window], Any]) -> None:
    """A pool of the depth and rows of whole lines, then of the columns: maxima and means of boxes can be taken so."""
    x = _volume(s)
    deep, rows, columns = sliding
    _, depth, high, wide, channels = x.shape
    lines = s.reshape(x, (1, depth, high, wide * channels), "lines")
    flat = s.insert([lines], attrs(window(deep, rows)), "of_lines")
    _, depth, high, _ = flat.shape
    y = s.reshape(flat, (1, depth * high, wide, channels), "columns")
    if columns != ONE:
        y = s.insert([y], attrs(window(ONE, columns)), "of_columns")
    _emit(s, y, (1, depth, high, *y.shape[2:]))


def whole_volume(s: OnnxStep, attrs: Callable[[Value], Any]) -> None:
    """One element of each channel, by an operator over all of the image [1,D,H*W,C]."""
    x = _volume(s)
    image = s.reshape(x, (1, x.shape[1], math.prod(x.shape[2:4]), x.shape[4]), "image")
    _emit(s, s.insert([image], attrs(image), "all"), (1, 1, 1, 1, x.shape[4]))


def _volume(s: OnnxStep) -> Value:
    """Input 0, [1,C,D,H,W], as [1,D,H,W,C]."""
    x = s.value(0)
    if x.shape[0] != 1:
        hint = "export the model with batch size 1"
        raise TinycError(f"input '{x.name}' has shape {list(x.shape)}; expected [1, C, D, H, W]", s.where, hint)
    return s.transpose(x, _PLANES_LAST, "ndhwc")


def _emit(s: OnnxStep, y: Value, shape: Shape) -> None:
    """The output of the node: y, whose elements lie as in this shape [1,D,H,W,C], as [1,C,D,H,W]."""
    s.emit([s.reshape(y, shape, "volume")], Transpose(_PLANES_FIRST))
