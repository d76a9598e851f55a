# SPDX-License-Identifier: Apache-2.0
"""Strides, padding and dilation of ONNX convolutions and pools, as the graph's explicit numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Shape
from tinyc.kernel.site import Padding, Pair
from tinyc.kernel.windows import Window
from tinyc.load.onnx.importing import OnnxStep


def window(s: OnnxStep, x: Shape, kernel: Sequence[int]) -> Window:
    """The window of a node over the image x [1,H,W,C]; `kernel` is (KH, KW), or (K,) over an image of height 1.

    Source of the padding rules: ONNX operator reference, Conv and MaxPool (`auto_pad`).
    """
    count = len(kernel)
    strides = _numbers(s, "strides", count, 1)
    dilations = _numbers(s, "dilations", count, 1)
    sizes = x[3 - count : 3]
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
    before, after = pads[:count], pads[count:]
    pad = Padding(*_pair(before, 0), *_pair(after, 0))
    return Window(_pair(kernel, 1), _pair(strides, 1), pad, _pair(dilations, 1)).within(x)


def _numbers(s: OnnxStep, name: str, count: int, default: int) -> list[int]:
    numbers = s.node.ints(name)
    if numbers is None:
        return [default] * count
    if len(numbers) != count:
        raise TinycError(f"{name} {list(numbers)} does not fit a window of {count} axes", s.where)
    return list(numbers)


def _pair(numbers: Sequence[int], missing: int) -> Pair:
    return Pair(missing, numbers[0]) if len(numbers) == 1 else Pair(numbers[0], numbers[1])


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


def rounded_up(at: Window, x: Shape) -> Window:
    """The window with the padding at the end that `ceil_mode` implies: a last, partial window counts too.

    A window that would start in the padding after the image is left out, as ONNX and PyTorch do.
    """
    extra = []
    for axis in (0, 1):
        size, stride = x[1 + axis], at.stride[axis]
        padded = size + at.pad[axis] + at.pad[2 + axis]
        windows = -(-(padded - at.span[axis]) // stride) + 1
        if (windows - 1) * stride >= size + at.pad[axis]:
            windows -= 1
        extra.append(max(0, (windows - 1) * stride + at.span[axis] - padded))
    pad = Padding(at.pad.top, at.pad.left, at.pad.bottom + extra[0], at.pad.right + extra[1])
    return at._replace(pad=pad)
