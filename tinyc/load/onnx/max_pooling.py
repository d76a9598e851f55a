# SPDX-License-Identifier: Apache-2.0
"""MaxPool, where its maxima lie, and MaxUnpool, which puts numbers back there.

The elements that the window reads at a place stand one below the other; the place of the largest among them looks up
which element of the input that is. Taps that read padding repeat the first that reads none: of equals the first counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import FROM_NHWC, OnnxStep, imports
from tinyc.load.onnx.integers import constant, number
from tinyc.load.onnx.pooling import pooled, windows_along
from tinyc.load.onnx.windows import ONE, AxisWindow, lines
from tinyc.load.picking import picked
from tinyc.ops.argmax import ArgMax
from tinyc.ops.choose import Choose
from tinyc.ops.compare import Compare
from tinyc.ops.gather import Gather
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose

_WINDOW = ("kernel_shape", "strides", "pads")  # what both say; MaxUnpool knows no dilations
MOST_PLACES = 2**20  # that are looked at one by one


@imports("MaxPool", ignores=("storage_order",))  # of the second output
def max_pool(s: OnnxStep) -> None:
    _, sliding = windows_along(s)
    if any(name in s.builder.read for name in s.node.outputs[1:]):
        _places_of_maxima(s, sliding)
    if s.node.outputs[0]:
        pooled(s, sliding, lambda at: MaxPool2D(*at))


def _places_of_maxima(s: OnnxStep, sliding: Sequence[AxisWindow]) -> None:
    """The second output of MaxPool: for each maximum its place in the whole tensor, counted along rows, or columns."""
    rank = len(s.value(0).shape)
    if rank > 4:
        raise TinycError(
            "the places of maxima in a volume cannot be compiled", s.where, "pool images, or leave them out"
        )
    x = s.image(0)
    _, high, wide, channels = x.shape
    rows, columns = (ONE, *sliding)[-2:]
    read = _elements_read(s, rows, columns, high, wide)  # [taps][places]
    by_columns = s.node.int_("storage_order", 0) == 1 and rank == 4
    order: Array = np.arange(high * wide, dtype=np.int32)
    if by_columns:
        order = np.arange(high * wide, dtype=np.int32).reshape(wide, high).T.reshape(-1)
    planes = high * wide * np.arange(channels, dtype=np.int32)
    size = (1, rows.places(high), columns.places(wide), channels)
    shape = (1, channels, *((size[1],) if rank == 4 else ()), size[2])
    if len(read) == 1:  # each window is one element, as PyTorch's exporter has it to count planes from 0
        s.builder.fold(s.node.outputs[1], (order[read[0]] + planes[:, None]).reshape(shape).astype(np.int64))
        return
    apart = s.reshape(x, (high * wide, channels), "elements")
    below = s.insert([apart], picked(apart.shape, 0, read.reshape(-1).tolist()), "read")
    stack = s.reshape(below, (*read.shape, channels), "windows")
    tap = s.insert([stack], ArgMax(0), "taps")  # [places][channels]
    count = read.shape[1]
    step = s.insert([tap, number(s, "count", tap, count)], IntegerBinary("mul", "s32"), "line")
    at = s.builder.add_integers(f"{s.node.outputs[1]}:at", np.arange(count, dtype=np.int32)[:, None], "s32")
    table = s.builder.add_integers(f"{s.node.outputs[1]}:elements", order[read].reshape(-1), "s32")
    in_plane = s.insert([table, s.insert([step, at], IntegerBinary("add", "s32"), "entry")], Gather(), "in_plane")
    starts = s.builder.add_integers(f"{s.node.outputs[1]}:planes", planes, "s32")
    whole = s.insert([in_plane, starts], IntegerBinary("add", "s32"), "in_tensor") if channels > 1 else in_plane
    image = s.reshape(whole, size if rank == 4 else (1, size[2], channels), "image_of_places")
    s.emit([image], Transpose(FROM_NHWC[rank]), output=1)


def _elements_read(s: OnnxStep, rows: AxisWindow, columns: AxisWindow, high: int, wide: int) -> Array:
    """[taps][places] of the elements of an image, counted along rows."""
    axes: list[Array] = []
    windows = rows.places(high) * columns.places(wide)
    if windows < 1 or rows.kernel * columns.kernel * windows > MOST_PLACES:
        raise TinycError(f"the places of maxima of {windows} windows cannot be compiled", s.where)
    for line, size in ((rows, high), (columns, wide)):
        read = [line.taps(place, size) for place in range(line.places(size))]
        if not read or not all(read):
            raise TinycError("a window that reads padding alone has no maximum", s.where)
        axes.append(np.array([[taps.get(tap, -1) for taps in read] for tap in range(line.kernel)]))
    down, along = axes[0][:, None, :, None], axes[1][None, :, None, :]
    taps, places = axes[0].shape[0] * axes[1].shape[0], axes[0].shape[1] * axes[1].shape[1]
    elements = np.where((down < 0) | (along < 0), -1, down * wide + along).reshape(taps, places)
    first = elements[(elements >= 0).argmax(0), np.arange(places)]
    return np.where(elements < 0, first, elements)


@imports("MaxUnpool")
def max_unpool(s: OnnxStep) -> None:
    """Each number at the place that stands beside it, 0 elsewhere: of the windows that can reach an element, the last
    that names it. The places are those of a MaxPool with the same windows over an image as large as the output."""
    x, sizes = s.value(0), s.value(0).shape[2:]
    kernel = s.node.ints("kernel_shape")
    if kernel is None or len(kernel) != len(sizes) or len(x.shape) not in FROM_NHWC or x.shape[0] != 1:
        raise TinycError(f"MaxUnpool of {list(x.shape)} by {list(kernel or ())} cannot be compiled", s.where)
    sliding = lines(s, [2**31] * len(sizes), kernel)  # a stride means something where the output is not known yet
    given = s.numbers(2) if s.has(2) else None
    shape = given or (*x.shape[:2], *(_unpooled(line, n) for line, n in zip(sliding, sizes, strict=True)))
    fits = len(shape) == len(x.shape) and tuple(shape[:2]) == x.shape[:2]
    if not fits or any(n < 1 or line.places(n) < p for line, n, p in zip(sliding, shape[2:], sizes, strict=True)):
        raise TinycError(f"an output of {list(shape)} does not fit", s.where, "it is the shape that was pooled")
    places = _places(s, shape)
    rows, columns = (ONE, *sliding)[-2:]
    high, wide = (1, *shape[2:])[-2:]
    flat, at = (s.reshape(v, (x.shape[1], math.prod(sizes)), name) for v, name in ((x, "flat"), (places, "at")))
    if x.shape[1] > 1:
        planes: Array = high * wide * np.arange(x.shape[1], dtype=np.int32)[:, None]
        starts = s.builder.add_integers(f"{s.node.outputs[0]}:planes", planes, "s32")
        at = s.insert([at, starts], IntegerBinary("sub", "s32"), "in_plane")
    element = s.builder.add_integers(f"{s.node.outputs[0]}:own", np.arange(high * wide, dtype=np.int32), "s32")
    y = s.builder.add_const(f"{s.node.outputs[0]}:zero", np.zeros((), np.float32))
    for windows in _windows_that_reach(s, (rows, columns), (1, *sizes)[-2:], (high, wide)):
        there, named = (s.insert([value], picked(value.shape, 1, windows), "of_window") for value in (flat, at))
        y = s.insert([s.insert([named, element], Compare("equal"), "is_there"), there, y], Choose(), "put")
    s.emit([y], Reshape(tuple(shape)))


def _unpooled(line: AxisWindow, places: int) -> int:
    """The size of an axis that so many windows fill."""
    return (places - 1) * line.stride + line.span - line.before - line.after


def _windows_that_reach(
    s: OnnxStep, sliding: Sequence[AxisWindow], places: Sequence[int], sizes: Sequence[int]
) -> list[list[int]]:
    """For each element of an image a window that can name it, by the window's number; as many lists as windows overlap
    anywhere, in order of windows. An element that none reaches has any: its own place is never named there."""
    axes: list[list[list[int]]] = []
    for line, count, size in zip(sliding, places, sizes, strict=True):
        axes.append([[] for _ in range(size)])
        for place in range(count):
            for element in line.taps(place, size).values():
                axes[-1][element].append(place)
    reach = [[row * places[1] + column for row in rows for column in columns] for rows, columns in product(*axes)]
    most = max(1, *map(len, reach))
    if most * len(reach) > MOST_PLACES:
        raise TinycError(f"{most} windows reach an element of {list(sizes)}: too many to try", s.where)
    first = [windows[:1] or [0] for windows in reach]
    padded = [one * (most - len(windows)) + windows for one, windows in zip(first, reach, strict=True)]
    return [list(windows) for windows in zip(*padded, strict=True)]


def _places(s: OnnxStep, shape: Sequence[int]) -> Value:
    """Input 1, int32. TinycError if they are places of another image than the output's."""
    file, name = s.builder.file, s.node.inputs[1] if s.has(1) else ""
    maker = next((node for node in file.nodes if len(node.outputs) > 1 and node.outputs[1] == name and name), None)
    if maker is None or maker.op != "MaxPool":
        raise TinycError("the places are not those of a MaxPool", s.where, "pool with the places as its second output")
    pooled = s.builder.values[maker.inputs[0]].shape
    if pooled != tuple(shape) or any(maker.ints(k) != s.node.ints(k) for k in _WINDOW):
        raise TinycError(
            f"the places are those of another pool: it takes {list(pooled)}, the output is {list(shape)}",
            s.where,
            "give MaxUnpool the shape that was pooled, and the pool's windows",
        )
    return s.value(1) if s.constant(1) is None else constant(s, 1, "s32")
