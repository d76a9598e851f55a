# SPDX-License-Identifier: Apache-2.0
"""Pooling; that of the largest with their places is in `max_pooling.py`, of powers in `power_pooling.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import Pair
from tinyc.kernel.windows import Window
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.windows import ONE, RANK_OF_VOLUMES, AxisWindow, lines, window
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean


def windows_along(s: OnnxStep) -> tuple[list[AxisWindow], list[AxisWindow]]:
    """How the node's window slides along each axis behind the channels as its attributes say, and with the padding that
    ceil_mode implies."""
    sizes, kernel = s.value(0).shape[2:], s.node.ints("kernel_shape")
    if kernel is None or len(kernel) != len(sizes) or not kernel:
        raise TinycError(f"kernel_shape {list(kernel or ())} does not fit the input", s.where)
    given = lines(s, sizes, kernel)
    if not s.node.flag("ceil_mode", False):
        return given, given
    return given, [line.rounded_up(size) for line, size in zip(given, sizes, strict=True)]


def pooled(s: OnnxStep, sliding: Sequence[AxisWindow], attrs: Callable[[Window], Any]) -> None:
    """The pool of these attributes over signals, images or volumes."""
    rank = len(s.value(0).shape)
    if rank == RANK_OF_VOLUMES:
        from tinyc.load.onnx import volumes  # noqa: PLC0415  for models of volumes alone

        volumes.pool(s, sliding, attrs)
    else:
        s.emit_image([s.image(0)], attrs(window(*(ONE, *sliding)[-2:])), rank=rank)


@imports("AveragePool")
def average_pool(s: OnnxStep) -> None:
    given, sliding = windows_along(s)
    count_pad = s.node.flag("count_include_pad", False) and any(line.before or line.after for line in sliding)
    if count_pad and given != sliding:
        raise TinycError("ceil_mode together with count_include_pad is not supported", s.where)
    pooled(s, sliding, lambda at: AvgPool2D(*at, count_pad=count_pad))


@imports("GlobalMaxPool")
def global_max_pool(s: OnnxStep) -> None:
    _whole(s, lambda x: MaxPool2D(Pair(x.shape[1], x.shape[2])))


@imports("GlobalAveragePool")
def global_average_pool(s: OnnxStep) -> None:
    _whole(s, lambda x: Mean((1, 2), keep_dims=True))


def _whole(s: OnnxStep, attrs: Callable[[Value], Any]) -> None:
    """One element of each channel, by an operator over all of the image [1,H,W,C]."""
    rank = len(s.value(0).shape)
    if rank == RANK_OF_VOLUMES:
        from tinyc.load.onnx import volumes  # noqa: PLC0415  for models of volumes alone

        volumes.whole_volume(s, attrs)
    else:
        x = s.image(0)
        s.emit_image([x], attrs(x), rank=rank)
