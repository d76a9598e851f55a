# SPDX-License-Identifier: Apache-2.0
"""Images cut into phases: what SPACE_TO_BATCH_ND makes, and how it comes together again without a copy.

Converters spell a convolution with dilation d as SPACE_TO_BATCH_ND (d * d small images, each with every d-th row and
column), a plain convolution of each, and BATCH_TO_SPACE_ND. Nothing is added to the graph for the first: its output is
remembered as phases of the image, a convolution of phases as the dilated one of the image, and BATCH_TO_SPACE_ND
emits that, with what it crops taken off the padding. Whatever else reads phases gets them by pad and transpose.

Source: TensorFlow Lite's reference kernels of the two operators (the batch counts columns fastest, then rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Shape, Value
from tinyc.kernel.site import Padding, Pair
from tinyc.load.tflite_graph import TfliteStep
from tinyc.ops import op_with
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.pad import Pad
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.ops.transpose import Transpose

_NO_PAD = Padding(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class PendingLayer:
    """A convolution of the whole image that is not in the graph yet: its padding is known when it is joined."""

    inputs: tuple[Value | None, ...]
    attrs: Conv2D | DepthwiseConv2D

    @property
    def pad(self) -> Padding:
        return self.attrs.pad


@dataclass(frozen=True, slots=True)
class Phases:
    """The tensor [block.h * block.w, H, W, C] (or without H, where it is 1) of one image's phases.

    image: [1, block.h * H - padding, block.w * W - padding, C]; of a `layer`: what it makes, not yet in the graph.
    origin: the operator that declares the tensor. spatial: the axes of the image that the tensor has: 1, 2 or both.
    """

    origin: TfliteStep
    image: Value
    block: Pair
    pad: Padding
    spatial: tuple[int, ...]
    layer: PendingLayer | None = None

    @property
    def shape(self) -> Shape:
        """Of the tensor, with both axes."""
        _, high, wide, channels = self.image.shape
        rows, columns = high + self.pad.top + self.pad.bottom, wide + self.pad.left + self.pad.right
        return (self.block.h * self.block.w, rows // self.block.h, columns // self.block.w, channels)

    @property
    def stored_shape(self) -> Shape:
        """Of the tensor, with the axes that it has."""
        return tuple(size for axis, size in enumerate(self.shape) if axis in (0, *self.spatial, 3))

    def one(self) -> Value:
        """The phases as the input of a convolution that is about to be imported: one of them."""
        _, high, wide, channels = self.shape
        return replace(self.image, shape=(1, high, wide, channels))

    def make(self) -> Value:
        """The tensor itself, by pad and transpose."""
        s, y = self.origin, declared_as(self.origin, self.stored_shape)
        image = self.joined(_NO_PAD) if self.layer else resized(s, self.image, self.pad, "padded")
        _, high, wide, channels = image.shape
        rows, columns = high // self.block.h, wide // self.block.w
        cut = reshaped(s, image, (rows, self.block.h, columns, self.block.w, channels), "cut")
        moved = transposed(s, cut, (1, 3, 0, 2, 4), "phases")
        s.insert((moved,), Reshape(y.shape), y)
        return y

    def joined(self, crop: Padding) -> Value:
        """The image that the layer makes, without the cropped rows and columns."""
        s, layer = self.origin, self.layer
        assert layer is not None
        pad = Padding(*(have - less for have, less in zip(layer.pad, crop, strict=True)))
        padding = Padding(*(max(n, 0) for n in pad))
        grown = [
            k - p + c for k, p, c in zip(padding, layer.pad, crop, strict=True)
        ]  # what the padding cannot take off
        size = [n - crop[k] - crop[k + 2] + grown[k] + grown[k + 2] for k, n in enumerate(self.image.shape[1:3])]
        y = s.between("joined", (1, *size, self.image.shape[3]), self.image)
        s.insert(layer.inputs, replace(layer.attrs, pad=padding), y)
        return resized(s, y, Padding(*(min(n, 0) for n in pad)), "cropped")

    def layered(self, s: TfliteStep, inputs: Sequence[Value | None], attrs: Conv2D | DepthwiseConv2D) -> Phases:
        """The phases after a convolution of each, whose output tensor is that of `s`."""
        if attrs.stride != (1, 1):
            raise TinycError(
                f"{s.operator.code} with strides {tuple(attrs.stride)} behind SPACE_TO_BATCH_ND cannot be compiled",
                s.where,
                "convolutions with a dilation have stride 1; convert the model again with a newer converter",
            )
        block, inner = self.block, attrs.pad
        image = self.image if self.layer is None else self.joined(_NO_PAD)
        own = (inner.top * block.h, inner.left * block.w, inner.bottom * block.h, inner.right * block.w)
        pad = Padding(*(a + b for a, b in zip(own, self.pad, strict=True)))
        dilation = Pair(attrs.dilation.h * block.h, attrs.dilation.w * block.w)
        whole = replace(attrs, pad=pad, dilation=dilation)
        (inferred,) = op_with(whole).infer(attrs, self.one(), *inputs[1:])
        y = declared_as(s, (block.h * block.w, *inferred.shape[1:]))
        joined = replace(y, shape=(1, y.shape[1] * block.h, y.shape[2] * block.w, y.shape[3]))
        return Phases(s, joined, block, _NO_PAD, (1, 2), PendingLayer((image, *inputs[1:]), whole))

    def reshaped(self, s: TfliteStep, shape: Shape) -> Phases | None:
        """The same phases with the axis of size 1 dropped, or put in; None if the shape is another."""
        _, high, wide, channels = self.shape
        count = self.block.h * self.block.w
        if shape == (count, high, wide, channels):
            return replace(self, origin=s, spatial=(1, 2))
        if high == self.block.h == 1 and self.pad[::2] == (0, 0):
            if shape == (count, wide, channels):
                return replace(self, origin=s, spatial=(2,))
            if shape == (count, wide, 1, channels):
                return self._turned(s)
        if wide == self.block.w == 1 and self.pad[1::2] == (0, 0) and shape == (count, high, channels):
            return replace(self, origin=s, spatial=(1,))
        return None

    def _turned(self, s: TfliteStep) -> Phases:
        """Phases of a row as those of a column."""
        image = self.image if self.layer is None else self.joined(_NO_PAD)
        _, _, wide, channels = image.shape
        column = reshaped(s, image, (1, wide, 1, channels), "column")
        pad = Padding(self.pad.left, 0, self.pad.right, 0)
        return Phases(s, column, Pair(self.block.w, 1), pad, (1, 2))


def declared_as(s: TfliteStep, shape: Shape) -> Value:
    """The operator's output as the file declares it, of this shape: where the exporter left sizes open, the file has
    placeholders. TinycError if its sizes are others."""
    y, signature = s.declared(), s.out_tensor().signature
    sizes = [-1 if n == -1 else size for n, size in zip(signature or y.shape, y.shape, strict=True)]
    if len(sizes) != len(shape) or any(size not in (-1, n) for size, n in zip(sizes, shape, strict=True)):
        code = s.operator.code
        raise TinycError(f"{code} of {list(s.tensor(0).shape)} makes {list(shape)}, not {list(y.shape)}", s.where)
    return replace(y, shape=shape)


def resized(s: TfliteStep, x: Value, by: Padding, suffix: str) -> Value:
    """The image with rows and columns added, or taken off where negative; x itself if there are none."""
    grow, shrink = Padding(*(max(n, 0) for n in by)), Padding(*(max(-n, 0) for n in by))
    if any(grow):
        sizes = _plus(x.shape, grow)
        y = s.between(suffix, sizes, x)
        s.insert((x,), Pad((0, grow.top, grow.left, 0), (0, grow.bottom, grow.right, 0)), y)
        x = y
    if any(shrink):
        sizes = _plus(x.shape, Padding(*(-n for n in shrink)))
        if min(sizes) < 1:
            raise TinycError(f"crops {list(shrink)} leave nothing of {list(x.shape)}", s.where)
        y = s.between(suffix, sizes, x)
        s.insert((x,), Slice((0, shrink.top, shrink.left, 0), sizes, (1, 1, 1, 1)), y)
        x = y
    return x


def _plus(shape: Shape, by: Padding) -> Shape:
    n, high, wide, channels = shape
    return (n, high + by.top + by.bottom, wide + by.left + by.right, channels)


def reshaped(s: TfliteStep, x: Value, shape: Shape, suffix: str) -> Value:
    """x under another shape."""
    if x.shape == shape:
        return x
    y = s.between(suffix, shape, x)
    s.insert((x,), Reshape(shape), y)
    return y


def transposed(s: TfliteStep, x: Value, perm: tuple[int, ...], suffix: str) -> Value:
    """x with its axes in another order."""
    y = s.between(suffix, tuple(x.shape[k] for k in perm), x)
    s.insert((x,), Transpose(perm), y)
    return y
