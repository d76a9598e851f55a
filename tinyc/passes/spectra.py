# SPDX-License-Identifier: Apache-2.0
"""Spectra, their bands and the logarithm become one operator, which computes them in integers wide enough.

Exporters write magnitudes and powers of an STFT in several ways; where there are no complex numbers people convolve
with cosines and sines, which is the same transform.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node, Shape
from tinyc.kernel.site import Act, Padding, Pair
from tinyc.ops.add import Add
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.clip import Clip
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.function import Function
from tinyc.ops.log_mel import LogMel
from tinyc.ops.mul import SQUARE, Mul
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice, whole
from tinyc.ops.stft import Stft, lines_of, spectrum_rows
from tinyc.ops.sum import Sum
from tinyc.ops.transform import is_transformed
from tinyc.ops.transpose import Transpose
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule

NO_ACT = Act()
_CLOSE = 1e-4  # of the largest sample of a window: how near convolutions have to come to a transform


@dataclass(frozen=True, slots=True)
class Spectra:
    """Of the `lines` lines of samples: magnitudes (power 1) or their squares, as [lines, frames, bins] or with frames
    and bins turned."""

    line: str
    window: Array
    step: int
    power: int
    turned: bool
    bins: int
    lines: int = 1


@rule(Function)
def join_spectra(view: View, node: Node) -> Rewrite | None:
    """log of bands of spectra, or of their bins -> log_mel."""
    if node.attrs.name != "log" or not view.is_float(node):
        return None
    name, floor, add = offsets_of(view, node.inputs[0])
    name, turns = _through(view, name)
    bands = _bands(view, name)
    spectra = spectra_at(view, name if bands is None else bands[0])
    if spectra is None or spectra.lines > 1 or spectra.bins != spectra.window.size // 2 + 1:
        return None
    if bands is None and not is_transformed(spectra.window.size):
        return None
    weights, makes_bands_first = bands[1:] if bands is not None else (np.eye(spectra.bins), spectra.turned)
    if spectra.turned != makes_bands_first:
        return None
    x = view.value(node.outputs[0])
    draft = RewriteDraft(view, node)
    like = view.value(next(n for n in _constants(view, node)))
    inputs = [spectra.line, draft.const(spectra.window, like, "window"), draft.const(weights, like, "weights")]
    attrs = LogMel(spectra.step, spectra.power, floor, add)
    if makes_bands_first == turns:  # an even number of turns
        return draft.finish(inputs, attrs)
    frames, count = x.shape[2], x.shape[1]
    joined = draft.add(inputs, attrs, x, (1, frames, count), "frames")
    return draft.finish([joined], Transpose((0, 2, 1)))


def _constants(view: View, node: Node) -> Iterator[str]:
    """Constants that the node is made of, itself or by what comes before."""
    for name in node.inputs:
        if view.is_const(name):
            yield name
        elif (before := view.producer(name)) is not None:
            yield from _constants(view, before)


@rule(Mul)
def join_factor(view: View, node: Node) -> Rewrite | None:
    """log_mel, mul by a number -> log_mel: decibels."""
    for name, other in (node.inputs, node.inputs[::-1]):
        log_mel = view.producer(name, LogMel)
        if log_mel is not None and view.is_const(other) and view.const(other).size == 1 and view.sole_use(name):
            factor = float(view.const(other).reshape(-1)[0])
            if factor > 0 and node.attrs.act == NO_ACT:
                attrs = replace(log_mel.attrs, factor=log_mel.attrs.factor * factor)
                return RewriteDraft(view, node).finish(log_mel.inputs, attrs)
        turn = view.producer(name, Transpose)
        if turn is not None and view.is_const(other) and view.const(other).size == 1 and view.sole_use(name):
            before = view.producer(turn.inputs[0], LogMel)
            if before is not None:
                draft, x = RewriteDraft(view, node), view.value(turn.inputs[0])
                scaled = draft.add([turn.inputs[0], other], node.attrs, x, x.shape, "scaled")
                return draft.finish([scaled], turn.attrs)
    return None


def number_of(view: View, node: Node) -> tuple[str, float] | None:
    """(computed input, constant) of a binary node with a number."""
    for name, other in (node.inputs, node.inputs[::-1]):
        if view.is_const(other) and view.const(other).size == 1 and not view.is_const(name):
            return name, float(view.const(other).reshape(-1)[0])
    return None


def offsets_of(view: View, name: str) -> tuple[str, float, float]:
    """(what the logarithm is taken of, floor, add)."""
    floor = add = 0.0
    while True:
        node = view.producer(name, Clip, Add)
        if node is None:
            return name, floor, add
        if isinstance(node.attrs, Clip):
            if node.attrs.act.hi != np.inf or node.attrs.act.lo <= 0 or floor or add:
                return name, floor, add
            name, floor = node.inputs[0], node.attrs.act.lo
            continue
        number = number_of(view, node)
        if number is None or number[1] <= 0 or node.attrs.act != NO_ACT or add:
            return name, floor, add
        name, add = number


def _through(view: View, name: str) -> tuple[str, bool]:
    """What is behind transposes of [1, a, b], and whether they turn it."""
    turned = False
    while (node := view.producer(name, Transpose)) is not None and node.attrs.perm in ((0, 2, 1), (0, 1, 2)):
        name, turned = node.inputs[0], turned != (node.attrs.perm == (0, 2, 1))
    return name, turned


def _bands(view: View, name: str) -> tuple[str, Array, bool] | None:
    """(the spectra, weights [bands, bins], whether bands come before frames)."""
    node = view.producer(name, FullyConnected, BatchMatmul)
    if node is None:
        return None
    if isinstance(node.attrs, FullyConnected):
        plain = node.attrs.act == NO_ACT and not any(node.inputs[2:]) and view.is_const(node.inputs[1])
        return (node.inputs[0], view.const(node.inputs[1]), False) if plain else None
    plain = not node.attrs.adj_x and not node.attrs.adj_y and view.is_const(node.inputs[0])
    weights = view.const(node.inputs[0]) if plain else None
    if weights is None or weights.size != weights.shape[-1] * weights.shape[-2]:
        return None
    return node.inputs[1], weights.reshape(weights.shape[-2:]), True


def squared(view: View, name: str) -> str | None:
    """v where the value is v * v."""
    node = view.producer(name, SQUARE)
    return None if node is None else node.inputs[0]


def spectra_at(view: View, name: str) -> Spectra | None:
    """What magnitudes or powers the value is."""
    name, turned = _through(view, name)
    inner = squared(view, name)
    if inner is not None and (spectra := spectra_at(view, inner)) is not None and spectra.power == 1:
        return replace(spectra, power=2, turned=spectra.turned != turned)
    root = view.producer(name, Power)
    if root is not None and root.attrs.exponent == 0.5:
        spectra = spectra_at(view, root.inputs[0])
        return replace(spectra, power=1, turned=spectra.turned != turned) if spectra and spectra.power == 2 else None
    node = view.producer(name, Sum, Add)
    if node is None:
        return None
    spectra = _of_stft(view, node) if isinstance(node.attrs, Sum) else _of_convolutions(view, node)
    return spectra and replace(spectra, turned=spectra.turned != turned)


def _of_stft(view: View, node: Node) -> Spectra | None:
    """sum of the squares of real and imaginary parts."""
    parts = squared(view, node.inputs[0])
    if parts is None or node.attrs.axes != (3,):
        return None
    turn = view.producer(parts, Transpose)
    turned = turn is not None and turn.attrs.perm == (0, 2, 1, 3)
    stft = view.producer(turn.inputs[0] if turn is not None and turned else parts, Stft)
    if stft is None or not view.is_const(stft.inputs[1]):
        return None
    line, bins = stft.inputs[0], view.value(stft.outputs[0]).shape[2]
    lines, _ = lines_of(view.value(line))
    return Spectra(line, view.const(stft.inputs[1]), stft.attrs.step, 2, turned, bins, lines)


def _of_convolutions(view: View, node: Node) -> Spectra | None:
    """squares of a convolution with cosines and of one with sines."""
    squares = [squared(view, name) for name in node.inputs]
    convolutions = [_convolution(view, name) if name is not None else None for name in squares]
    first, second = convolutions
    if first is None or second is None or first[:2] != second[:2] or first[3] != second[3]:
        return None
    for cosines, sines in ((first[2], second[2]), (second[2], first[2])):
        window = window_of(cosines, sines)
        if window is not None:
            return Spectra(first[0], window, first[1], 2, first[3], len(cosines))
    return None


def _convolution(view: View, name: str) -> tuple[str, int, Array, bool] | None:
    """(line of samples, step, rows [bins, n], whether bins come before frames) of a convolution over one line, or of
    some of its channels."""
    path = []
    while (before := view.producer(name, Transpose, Slice, Reshape)) is not None:
        path.append(before)
        name = before.inputs[0]
    node = view.producer(name, Conv2D)
    if node is None or not view.is_const(node.inputs[1]) or any(node.inputs[2:]):
        return None
    a, w = node.attrs, view.const(node.inputs[1])
    if a.pad != Padding(0, 0, 0, 0) or a.act != NO_ACT or a.groups != 1 or a.dilation.w != 1 or w.shape[1::2] != (1, 1):
        return None
    line = node.inputs[0]
    while (before := view.producer(line, Reshape, Transpose)) is not None and max(view.value(line).shape) == (
        view.value(line).elements
    ):
        line = before.inputs[0]
    picked = _picked(view, path[::-1], len(w))
    return picked and (line, a.stride.w, w.reshape(len(w), -1)[picked[0]], picked[1])


def _picked(view: View, path: Sequence[Node], channels: int) -> tuple[npt.NDArray[np.intp], bool] | None:
    """(which channels of [.., frames, channels] the nodes leave one after the other, whether these come before frames);
    None where they do anything else."""
    left, turned = np.arange(channels), False
    for node in path:
        a, shape = node.attrs, view.value(node.inputs[0]).shape
        if isinstance(a, Transpose):
            if a.perm not in ((0, 2, 1), (0, 1, 2)):
                return None
            turned = turned != (a.perm == (0, 2, 1))
        elif isinstance(a, Slice):
            axis = len(shape) - 1 - turned
            if a != whole(shape, axis, a.begin[axis], a.size[axis], a.step[axis]):
                return None
            left = left[a.begin[axis] + a.step[axis] * np.arange(a.size[axis])]
        elif _longer_axes(shape) != _longer_axes(a.shape):
            return None
    return left, turned


def _longer_axes(shape: Shape) -> tuple[int, ...]:
    """Without axes of 1."""
    return tuple(n for n in shape if n > 1)


def window_of(cosines: Array, sines: Array) -> Array | None:
    """w where row k from 0 on is w cos(2 pi k n / N), and w sin in either sense; None where they are anything else."""
    bins, n = cosines.shape
    if sines.shape != cosines.shape or not 1 < bins <= n // 2 + 1:
        return None
    window = cosines[0].astype(np.float64)
    phases = 2 * np.pi * np.arange(bins)[:, None] * np.arange(n) / n
    most = _CLOSE * np.abs(window).max()
    turned = np.sin(phases) * window
    off = min(np.abs(sines - turned).max(), np.abs(sines + turned).max())
    return cosines[0] if max(off, np.abs(cosines - np.cos(phases) * window).max()) <= most else None


@rule(Stft)
def spell_out(view: View, node: Node) -> Rewrite:
    """stft -> conv2d over its lines: as many multiply-accumulates as samples times bins, whatever the length."""
    (line, window), y = node.inputs, view.value(node.outputs[0])
    x, (lines, frames, bins) = view.value(line), y.shape[:3]
    shape = (1, lines, x.elements // lines, 1)
    draft = RewriteDraft(view, node)
    rows = spectrum_rows(view.const(window), bins)[:, None, :, None]
    inputs = [
        draft.add([line], Reshape(shape), x, shape, "line"),
        draft.const(rows, view.value(window), "rows"),
    ]
    conv = draft.add(inputs, Conv2D(Pair(1, node.attrs.step)), y, (1, lines, frames, 2 * bins), "bins")
    return draft.finish([conv], Reshape(y.shape))


@rule(Stft)
def spell_out_other(view: View, node: Node) -> Rewrite | None:
    """stft of a length that no transform has -> conv2d."""
    return None if is_transformed(view.value(node.inputs[1]).elements) else spell_out(view, node)


@rule(Add)
def join_convolutions(view: View, node: Node) -> Rewrite | None:
    """squares of convolutions with cosines and with sines, added -> the same of an stft, if it has all bins."""
    spectra = _of_convolutions(view, node) if view.is_float(node) else None
    if spectra is None or spectra.bins != spectra.window.size // 2 + 1 or not is_transformed(spectra.window.size):
        return None
    draft, y, line = RewriteDraft(view, node), view.value(node.outputs[0]), view.value(spectra.line)
    frames = (line.elements - spectra.window.size) // spectra.step + 1
    shape = (1, frames, spectra.bins)
    name = draft.add([line.name], Reshape((1, line.elements)), line, (1, line.elements), "line")
    window = draft.const(spectra.window.astype(np.float32), line, "window")
    name = draft.add([name, window], Stft(spectra.step), y, (*shape, 2), "stft")
    name = draft.add([name, name], Mul(), y, (*shape, 2), "squares")
    name = draft.add([name], Sum((3,)), y, shape, "powers")
    if spectra.turned:
        name = draft.add([name], Transpose((0, 2, 1)), y, (1, spectra.bins, frames), "back")
    return draft.finish([name], Reshape(y.shape))


@begins_with(SQUARE)
def join_transforms(graph: Graph) -> Graph:
    """The graph, to be computed in float32, in which convolutions with cosines and sines are transforms."""
    return rewrite(graph, (join_convolutions,))


@begins_with(Function, LogMel)
def join_bands(graph: Graph) -> Graph:
    """The graph in which logarithms of bands of spectra are one node."""
    return rewrite(graph, (join_spectra, join_factor))


@begins_with(Stft)
def spell_out_spectra(graph: Graph) -> Graph:
    """The graph in which other spectra are convolutions."""
    return rewrite(graph, (spell_out,))


@begins_with(Stft)
def spell_out_others(graph: Graph) -> Graph:
    """The same of those of lengths that no transform has."""
    return rewrite(graph, (spell_out_other,))
