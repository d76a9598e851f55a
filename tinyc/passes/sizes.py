# SPDX-License-Identifier: Apache-2.0
"""Sizes of the bins of spectra become one operator, whose integers are wide enough; other transforms are products.

Where a transform of its length is computed (`ops/transform.py`). Spectra come as STFT, as DFT along any axis, and as
convolutions or products with cosines and sines; their sizes as norms of real and imaginary parts, or sums of squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node, Shape, Value
from tinyc.ops.add import Add
from tinyc.ops.dft import Dft, matrix
from tinyc.ops.div import Div
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mul import SQUARE, Mul
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.ops.spectrum_sizes import SpectrumSizes
from tinyc.ops.stft import Stft
from tinyc.ops.sum import Sum
from tinyc.ops.transform import is_transformed
from tinyc.ops.transpose import Transpose
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule
from tinyc.passes.spectra import NO_ACT, number_of, offsets_of, spectra_at, squared, window_of

_NOTHING = 1e-10  # what is added to a power before its root so that a gradient stays finite


@dataclass(frozen=True, slots=True)
class _Magnitudes:
    """SpectrumSizes (attrs) of lines along an axis of x, which has `shape`; in the result the bins are along it.

    axis: None: x is lines already, and the result [lines, frames, bins], or with the last two turned.
    """

    x: str
    shape: Shape
    axis: int | None
    window: Array
    attrs: SpectrumSizes
    turned: bool = False


@rule(Power, Sum, Add)
def join_bins(view: View, node: Node) -> Rewrite | None:
    """the sizes of bins of a transform -> spectrum_sizes."""
    is_root = isinstance(node.attrs, Power) and node.attrs.exponent == 0.5  # a root of magnitudes is a layer of its own
    if not view.is_float(node) or (not is_root and _has_root(view, node.outputs[0])):
        return None
    sizes = _at(view, node.outputs[0])
    if sizes is None or not is_transformed(sizes.attrs.length) or sizes.window.size % 2:
        return None
    return _emitted(view, node, sizes)


def _has_root(view: View, name: str) -> bool:
    """Whether a root follows, alone: then the magnitudes are what it makes."""
    readers = view.consumers(name)
    if len(readers) != 1 or view.is_output(name):
        return False
    (reader,) = readers
    if isinstance(reader.attrs, Power):
        return bool(reader.attrs.exponent == 0.5)
    _, floor, add = offsets_of(view, reader.outputs[0])
    return 0 < max(floor, add) <= _NOTHING and _has_root(view, reader.outputs[0])


def _at(view: View, name: str) -> _Magnitudes | None:
    """What magnitudes or powers the value is."""
    root = view.producer(name, Power)
    if root is not None:
        inner, floor, add = offsets_of(view, root.inputs[0])
        sizes = _at(view, inner) if root.attrs.exponent == 0.5 and max(floor, add) <= _NOTHING else None
        if sizes is None or sizes.attrs.power != 2:
            return None
        return replace(sizes, attrs=replace(sizes.attrs, power=1, factor=math.sqrt(sizes.attrs.factor)))
    return _of_lines(view, name) or _of_dft(view, name) or _of_products(view, name)


def _of_lines(view: View, name: str) -> _Magnitudes | None:
    spectra = spectra_at(view, name)
    if spectra is None or spectra.power != 2:
        return None
    attrs = SpectrumSizes(spectra.lines, spectra.step, spectra.window.size, spectra.bins, 2)
    return _Magnitudes(spectra.line, view.value(spectra.line).shape, None, spectra.window, attrs, spectra.turned)


def _of_dft(view: View, name: str) -> _Magnitudes | None:
    """The sum of the squares of the parts of a DFT: over the last axis, or of two slices."""
    node = view.producer(name, Sum, Add)
    if node is None:
        return None
    parts = [squared(view, each) for each in node.inputs]
    if isinstance(node.attrs, Sum):
        whole = parts[0] if parts[0] and node.attrs.axes == (len(view.value(parts[0]).shape) - 1,) else None
    else:
        whole = _both_parts(view, parts)
    if whole is None:
        return None
    whole, factor = _factor(view, whole)
    dft = view.producer(whole, Dft)
    if dft is None:
        return None
    a, shape = dft.attrs, view.value(dft.inputs[0]).shape
    n = shape[a.axis]
    if n > a.length:
        return None
    attrs = SpectrumSizes(math.prod(shape) // n, 1, a.length, a.bins, 2, factor**2)
    return _Magnitudes(dft.inputs[0], shape[:-1], a.axis, np.ones(n, np.float32), attrs)


def _both_parts(view: View, parts: list[str | None]) -> str | None:
    """What two slices are the real and the imaginary parts of."""
    cuts = []
    for part in parts:
        name = _behind(view, part) if part is not None else ""
        cut = view.producer(name, Slice)
        if cut is None or cut.attrs.size[-1] != 1 or any(cut.attrs.begin[:-1]):
            return None
        if cut.attrs.size[:-1] != view.value(cut.inputs[0]).shape[:-1]:
            return None
        cuts.append(cut)
    same = cuts[0].inputs[0] == cuts[1].inputs[0]
    return cuts[0].inputs[0] if same and {cut.attrs.begin[-1] for cut in cuts} == {0, 1} else None


def _behind(view: View, name: str) -> str:
    """What is behind reshapes."""
    while (node := view.producer(name, Reshape)) is not None:
        name = node.inputs[0]
    return name


def _factor(view: View, name: str) -> tuple[str, float]:
    """(what is multiplied, divided by a number, the factor)."""
    factor = 1.0
    while (node := view.producer(name, Mul, Div)) is not None and node.attrs.act == NO_ACT:
        number = number_of(view, node)
        if number is None or number[1] <= 0 or (isinstance(node.attrs, Div) and view.is_const(node.inputs[0])):
            break
        name, factor = number[0], factor * (1 / number[1] if isinstance(node.attrs, Div) else number[1])
    return name, factor


def _of_products(view: View, name: str) -> _Magnitudes | None:
    """Squares of a product with cosines and of one with sines, added."""
    node = view.producer(name, Add)
    squares = [squared(view, each) for each in node.inputs] if node is not None else []
    layers = [view.producer(each, FullyConnected) if each else None for each in squares]
    if len(layers) != 2 or layers[0] is None or layers[1] is None or layers[0].inputs[0] != layers[1].inputs[0]:
        return None
    if any(n.attrs.act != NO_ACT or any(n.inputs[2:]) or not view.is_const(n.inputs[1]) for n in layers if n):
        return None
    first, second = (view.const(each.inputs[1]) for each in layers if each)
    for cosines, sines in ((first, second), (second, first)):
        window = window_of(cosines, sines)
        if window is not None:
            x = layers[0].inputs[0]
            shape = view.value(x).shape
            attrs = SpectrumSizes(math.prod(shape[:-1]), 1, window.size, len(cosines), 2)
            return _Magnitudes(x, shape, len(shape) - 1, window, attrs)
    return None


def _emitted(view: View, node: Node, sizes: _Magnitudes) -> Rewrite:
    """The samples as lines, their magnitudes, and these with the shape that the node's output has."""
    draft, y = RewriteDraft(view, node), view.value(node.outputs[0])
    sizes = _with_window(view, sizes)
    x = view.value(sizes.x)
    lines, n = sizes.attrs.lines, x.elements // sizes.attrs.lines
    name, order = sizes.x, _last(sizes)
    if sizes.axis is not None and x.shape != sizes.shape:
        name = draft.add([name], Reshape(sizes.shape), x, sizes.shape, "line")
    if order is not None:
        shape = tuple(sizes.shape[k] for k in order)
        name = draft.add([name], Transpose(order), x, shape, "turned")
    name = draft.add([name], Reshape((lines, n)), x, (lines, n), "lines")
    window = draft.const(sizes.window, replace(x, dtype="f32", quant=None), "window")
    frames = lines * ((n - sizes.window.size) // sizes.attrs.step + 1)
    magnitudes = draft.add([name, window], sizes.attrs, y, (1, frames, sizes.attrs.bins), "sizes")
    return _shaped(draft, sizes, magnitudes, y)


def _last(sizes: _Magnitudes) -> tuple[int, ...] | None:
    """The order of axes that takes that of the lines to the end, where it is not there."""
    axis, rank = sizes.axis, len(sizes.shape)
    return None if axis is None or axis == rank - 1 else (*(k for k in range(rank) if k != axis), axis)


def _shaped(draft: RewriteDraft, sizes: _Magnitudes, magnitudes: str, y: Value) -> Rewrite:
    bins, order = sizes.attrs.bins, _last(sizes)
    if order is not None:
        whole = (*(sizes.shape[k] for k in order[:-1]), bins)
        magnitudes = draft.add([magnitudes], Reshape(whole), y, whole, "whole")
        back = tuple(int(k) for k in np.argsort(order))
        magnitudes = draft.add([magnitudes], Transpose(back), y, tuple(whole[k] for k in back), "back")
    elif sizes.turned:
        frames = draft.value(magnitudes).shape[1] // sizes.attrs.lines
        whole = (sizes.attrs.lines, frames, bins)
        magnitudes = draft.add([magnitudes], Reshape(whole), y, whole, "whole")
        magnitudes = draft.add([magnitudes], Transpose((0, 2, 1)), y, (whole[0], bins, frames), "back")
    return draft.finish([magnitudes], Reshape(y.shape))


def _with_window(view: View, sizes: _Magnitudes) -> _Magnitudes:
    """The same with the window in it that the samples are multiplied by before a DFT."""
    node = view.producer(_behind(view, sizes.x), Mul)
    if node is None or node.attrs.act != NO_ACT or sizes.axis is None or sizes.attrs.step != 1:
        return sizes
    for x, w in (node.inputs, node.inputs[::-1]):
        shape = view.value(x).shape
        if not view.is_const(w) or view.is_const(x) or shape not in (sizes.shape, (*sizes.shape, 1)):
            continue
        table = view.const(w)
        aligned = (1,) * (len(shape) - table.ndim) + table.shape
        if all(size == 1 for k, size in enumerate(aligned) if k != sizes.axis):
            window = sizes.window * np.broadcast_to(table.reshape(-1), sizes.window.shape)
            return replace(sizes, x=x, window=window) if window.any() else sizes
    return sizes


@rule(Mul, Div)
def join_square(view: View, node: Node) -> Rewrite | None:
    """spectrum_sizes, squared or times a number -> spectrum_sizes."""
    if not view.is_float(node) or node.attrs.act != NO_ACT:
        return None
    producer = view.producer(node.inputs[0] if node.inputs[0] == node.inputs[1] else _factor_once(view, node), *_VIEWS)
    path = []
    while producer is not None and not isinstance(producer.attrs, SpectrumSizes):
        path.append(producer)
        producer = view.producer(producer.inputs[0], *_VIEWS)
    if producer is None or any(not _alone(view, each, node) for each in (producer, *path)):
        return None
    attrs = producer.attrs
    if node.inputs[0] == node.inputs[1]:
        if attrs.power != 1 or isinstance(node.attrs, Div):
            return None
        attrs = replace(attrs, power=2, factor=attrs.factor**2)
    else:
        number = number_of(view, node)
        if number is None or number[1] <= 0:
            return None
        attrs = replace(attrs, factor=attrs.factor * (1 / number[1] if isinstance(node.attrs, Div) else number[1]))
    draft, y = RewriteDraft(view, node), view.value(node.outputs[0])
    name = draft.add(producer.inputs, attrs, y, view.value(producer.outputs[0]).shape, "sizes")
    for each in reversed(path):
        name = draft.add([name], each.attrs, y, view.value(each.outputs[0]).shape, "shaped")
    return draft.finish([name], Reshape(y.shape))


_VIEWS = (SpectrumSizes, Reshape, Transpose)


def _factor_once(view: View, node: Node) -> str:
    """What the node multiplies by a number, or divides; an input where it does neither."""
    number = number_of(view, node)
    return (
        node.inputs[0] if number is None or view.is_const(node.inputs[0]) == isinstance(node.attrs, Div) else number[0]
    )


def _alone(view: View, each: Node, reader: Node) -> bool:
    """Whether one node reads what `each` makes, and it is no output."""
    (name,) = each.outputs
    return len(view.consumers(name)) == 1 and not view.is_output(name)


@rule(Dft)
def spell_out_dft(view: View, node: Node) -> Rewrite:
    """dft -> a product with a constant matrix."""
    a, y = node.attrs, view.value(node.outputs[0])
    x, draft = view.value(node.inputs[0]), RewriteDraft(view, node)
    rank, weights = len(x.shape), matrix(x.shape[a.axis], a.length, 1, a.bins, back=False)
    order = (*(k for k in range(rank - 1) if k != a.axis), a.axis, rank - 1)
    turned = tuple(x.shape[k] for k in order)
    rows = (x.elements // weights.shape[1], weights.shape[1])
    name = draft.add([x.name], Transpose(order), x, turned, "last")
    name = draft.add([name], Reshape(rows), x, rows, "rows")
    transform = draft.const(weights, x, "transform")
    name = draft.add([name, transform], FullyConnected(), y, (rows[0], len(weights)), "bins")
    return _turned_back(draft, name, y, (*turned[:-2], a.bins, 2), order)


@rule(Dft)
def transform_lines(view: View, node: Node) -> Rewrite | None:
    """dft of one side -> stft of lines of one frame."""
    a, x, y = node.attrs, view.value(node.inputs[0]), view.value(node.outputs[0])
    n = x.shape[a.axis]
    if a.length != n or a.bins != n // 2 + 1 or not is_transformed(n):
        return None
    draft, rank = RewriteDraft(view, node), len(x.shape)
    order = (*(k for k in range(rank - 1) if k != a.axis), a.axis, rank - 1)
    turned, lines = tuple(x.shape[k] for k in order), x.elements // n
    name = draft.add([x.name], Transpose(order), x, turned, "last")
    name = draft.add([name], Reshape((lines, n)), x, (lines, n), "lines")
    window = draft.const(np.ones(n, np.float32), x, "window")
    name = draft.add([name, window], Stft(1), y, (lines, 1, a.bins, 2), "bins")
    return _turned_back(draft, name, y, (*turned[:-2], a.bins, 2), order)


def _turned_back(draft: RewriteDraft, bins: str, y: Value, whole: Shape, order: Sequence[int]) -> Rewrite:
    """From the bins of all lines to those of the whole, whose axes were in that order, in their places."""
    name = draft.add([bins], Reshape(whole), y, whole, "whole")
    return draft.finish([name], Transpose(tuple(int(k) for k in np.argsort(order))))


@begins_with(Dft)
def join_lines(graph: Graph) -> Graph:
    """The graph, to be computed in float32, in which DFTs are transforms of lines."""
    return rewrite(graph, (transform_lines,))


@begins_with(SQUARE, SpectrumSizes)
def join_sizes(graph: Graph) -> Graph:
    """The graph in which magnitudes and powers of spectra are one node."""
    return rewrite(graph, (join_bins, join_square))


@begins_with(Dft)
def spell_out_transforms(graph: Graph) -> Graph:
    """The graph in which other DFTs are products."""
    return rewrite(graph, (spell_out_dft,))
