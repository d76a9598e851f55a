# SPDX-License-Identifier: Apache-2.0
"""Strides, padding and dilation of ONNX convolutions and pools, as the graph's explicit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinyc.base.errors import TinycError
from tinyc.kernel.site import Padding, Pair
from tinyc.kernel.windows import Window
from tinyc.load.onnx.importing import OnnxStep


class AxisWindow(NamedTuple):
    """A window that slides along one axis: its place k reads k * stride - before + tap * dilation."""

    kernel: int
    stride: int
    before: int  # elements of padding
    after: int
    dilation: int

    @property
    def span(self) -> int:
        """Elements from the first tap to the last."""
        return (self.kernel - 1) * self.dilation + 1

    def within(self, size: int) -> AxisWindow:
        """The same without numbers that mean nothing on an axis of so many elements: a stride from the only place on, a
        dilation of one tap."""
        stride = min(self.stride, size + self.before + self.after)
        return self._replace(stride=stride, dilation=1 if self.kernel == 1 else self.dilation)

    def places(self, size: int) -> int:
        """How many places the window has on an axis of so many elements; less than 1 if it does not fit."""
        return (size + self.before + self.after - self.span) // self.stride + 1

    def taps(self, place: int, size: int) -> dict[int, int]:
        """The element that each tap reads at a place; no taps that read padding."""
        first = place * self.stride - self.before
        elements = {tap: first + tap * self.dilation for tap in range(self.kernel)}
        return {tap: element for tap, element in elements.items() if 0 <= element < size}

    def rounded_up(self, size: int) -> AxisWindow:
        """With the padding at the end that `ceil_mode` implies: a last, partial window counts too.

        A window that would start in the padding after the image is left out, as ONNX and PyTorch do.
        """
        padded = size + self.before + self.after
        places = -(-(padded - self.span) // self.stride) + 1
        if (places - 1) * self.stride >= size + self.before:
            places -= 1
        return self._replace(after=self.after + max(0, (places - 1) * self.stride + self.span - padded))


RANK_OF_VOLUMES = 5  # [1,C,D,H,W]
ONE = AxisWindow(1, 1, 0, 0, 1)  # the window of an axis that an operator does not look along


def window(rows: AxisWindow, columns: AxisWindow) -> Window:
    """The window over images whose rows and columns slide so."""
    pairs = [Pair(*pair) for pair in zip(rows, columns, strict=True)]
    kernel, stride, before, after, dilation = pairs
    return Window(kernel, stride, Padding(*before, *after), dilation)


def lines(s: OnnxStep, sizes: Sequence[int], kernel: Sequence[int]) -> list[AxisWindow]:
    """How the node's window slides along each axis of an image or volume of these sizes; `kernel` has as many.

    Source of the padding rules: ONNX operator reference, Conv and MaxPool (`auto_pad`).
    """
    count = len(kernel)
    strides = _numbers(s, "strides", count, 1)
    dilations = _numbers(s, "dilations", count, 1)
    if min(*kernel, *strides, *dilations) < 1:
        raise TinycError(
            f"kernel {list(kernel)}, strides {strides}, dilations {dilations}: all must be positive", s.where
        )
    pads = _numbers(s, "pads", 2 * count, 0)
    auto = s.node.text("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        _check_same(s, sizes, kernel, strides, dilations)
        pads = _same(sizes, kernel, strides, dilations, upper=auto == "SAME_UPPER")
    elif auto == "VALID":
        pads = [0] * (2 * count)
    elif auto not in ("NOTSET", ""):
        raise TinycError(f"auto_pad '{auto}' is unknown", s.where)
    if min(pads) < 0:
        raise TinycError(f"pads {pads}: negative padding (cropping) is not supported", s.where)
    axes = zip(kernel, strides, pads[:count], pads[count:], dilations, sizes, strict=True)
    return [AxisWindow(*numbers).within(size) for *numbers, size in axes]


def _numbers(s: OnnxStep, name: str, count: int, default: int) -> list[int]:
    numbers = s.node.ints(name)
    if numbers is None:
        return [default] * count
    if len(numbers) != count:
        raise TinycError(f"{name} {list(numbers)} does not fit a window of {count} axes", s.where)
    return list(numbers)


def _same(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    upper: bool,
) -> list[int]:
    """Padding for ceil(size / stride) windows; an odd element goes to the end (upper) or the start."""
    before, after = [], []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        windows = -(-size // stride)
        total = max(0, (windows - 1) * stride + (k - 1) * dilation + 1 - size)
        small, large = total // 2, total - total // 2
        before.append(small if upper else large)
        after.append(large if upper else small)
    return before + after


_EXPLICIT = "export the model with explicit pads (and auto_pad NOTSET)"


def _check_same(
    s: OnnxStep, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> None:
    """Refuse automatic padding where ONNX Runtime does not pad as the ONNX operator reference says.

    It leaves the dilation of a pool out, and lets the padding of a stride beyond the kernel become negative: then the
    first window of a convolution begins inside the image.
    """
    if max(dilations) > 1 and s.node.op != "Conv":
        raise TinycError("auto_pad with dilations: runtimes do not agree on what it means", s.where, _EXPLICIT)
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        if (-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size < -1:
            raise TinycError(
                f"auto_pad of {size} elements by a kernel of {k} and a stride of {stride}: runtimes do not agree on it",
                s.where,
                _EXPLICIT,
            )
