# SPDX-License-Identifier: Apache-2.0
"""transpose_conv2d between integer tensors -> conv2d, whose channels are then laid side by side as pixels.

Exact. With a stride of s, output rows t * s + e (t counts, e below s is their phase) are sums of the same taps, every
s-th of the kernel, on input rows around t: a plain convolution. One convolution makes all phases, as channels
[phases of rows, phases of columns, O]; its window holds the taps of all phases, and 0 where a phase has none. Or each
phase has a convolution of its own, without zeros, and their channels are joined: which of them a library has is chosen
by what they take (`pipeline/lowering.py`). Padding with the zero point stands for pixels that do not exist.
Convolutions have the faster kernels, on every core.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node, Value
from tinyc.kernel.site import Padding, Pair
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.ops.transpose import Transpose
from tinyc.ops.transpose_conv2d import TransposeConv2D
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule


@dataclass(frozen=True, slots=True)
class _Phases:
    """One axis. taps[e][k]: the tap of the kernel that phase e has at k of the window, -1 for none. before, after:
    padding of the input. count: outputs of each phase."""

    taps: tuple[tuple[int, ...], ...]
    before: int
    after: int
    count: int

    @classmethod
    def of(cls, kernel: int, stride: int, cut: int, sizes: tuple[int, int]) -> _Phases | None:
        """Of a kernel's taps, the outputs that are cut off before, and (input, output); None where the window would
        begin behind the input's start or end before its end."""
        in_size, out_size = sizes
        count = -(-out_size // stride)
        # Output t * stride + e adds tap k of input i where i * stride + k = t * stride + e + cut.
        places = [
            {(e + cut) // stride - m: (e + cut) % stride + m * stride for m in range(_met(kernel, stride, e + cut))}
            for e in range(stride)
        ]
        met = [offset for phase in places for offset in phase]
        if not met:
            return None
        first, last = min(met), max(met)
        before, after = -first, count + last - in_size
        if before < 0 or after < 0:
            return None
        taps = tuple(tuple(phase.get(offset, -1) for offset in range(first, last + 1)) for phase in places)
        return cls(taps, before, after, count)

    def apart(self) -> tuple[_Phases, ...]:
        """Each phase alone, in a window of its own taps; none where one has no tap, or its window would begin behind
        the input's start or end before its end."""
        phases = []
        for taps in self.taps:
            held = [k for k, tap in enumerate(taps) if tap >= 0]
            if not held or held[0] > self.before or len(taps) - 1 - held[-1] > self.after:
                return ()
            before, after = self.before - held[0], self.after - (len(taps) - 1 - held[-1])
            phases.append(_Phases((taps[held[0] : held[-1] + 1],), before, after, self.count))
        return tuple(phases)


def _met(kernel: int, stride: int, place: int) -> int:
    """How many taps of a kernel lie at place modulo stride."""
    return -(-(kernel - place % stride) // stride) if kernel > place % stride else 0


@begins_with(TransposeConv2D)
def as_convolutions(graph: Graph, apart: bool = False) -> Graph:
    """The same integer function. apart: each phase by a convolution of its own, where that leaves zeros out."""

    @rule(TransposeConv2D)
    def split(view: View, node: Node) -> Rewrite | None:
        return _split(view, node, apart)

    return rewrite(graph, (split,))


def _split(view: View, node: Node, apart: bool) -> Rewrite | None:
    a: TransposeConv2D = node.attrs
    x, w, y = view.value(node.inputs[0]), view.value(node.inputs[1]), view.value(node.outputs[0])
    if x.dtype == "f32" or not all(view.is_const(name) for name in node.inputs[1:] if name):
        return None
    rows = _Phases.of(w.shape[1], a.stride.h, a.pad.h, (x.shape[1], a.size.h))
    columns = _Phases.of(w.shape[2], a.stride.w, a.pad.w, (x.shape[2], a.size.w))
    if rows is None or columns is None or (w.quant is not None and any(w.quant.zero)):
        return None
    draft = RewriteDraft(view, node)
    phases = a.stride.h * a.stride.w
    if phases == 1:
        return draft.finish(*_convolution(draft, rows, columns, "phases"))
    shape = (1, rows.count, columns.count, phases * w.shape[0])
    alone = [(r, c) for r in rows.apart() for c in columns.apart()] if apart and _has_zeros(rows, columns) else []
    if not alone:
        image = draft.add(*_convolution(draft, rows, columns, "phases"), y, shape, "phases")
    else:
        one = (*shape[:3], w.shape[0])
        names = [
            draft.add(*_convolution(draft, *pair, f"phase{k}"), y, one, f"phase{k}") for k, pair in enumerate(alone)
        ]
        image = draft.add(names, Concat(3), y, shape, "phases")
    return _interleaved(draft, image, (rows.count, columns.count), a)


def _has_zeros(rows: _Phases, columns: _Phases) -> bool:
    """Whether a phase has no tap at a place of the window."""
    return any(tap < 0 for phases in (rows, columns) for taps in phases.taps for tap in taps)


def _convolution(draft: RewriteDraft, rows: _Phases, columns: _Phases, suffix: str) -> tuple[list[str], Conv2D]:
    """Inputs and attributes of the convolution that makes these phases, side by side as channels."""
    view, (x, *held) = draft.view, [name for name in draft.node.inputs if name]
    phases = len(rows.taps) * len(columns.taps)
    weights = _weights(view.const(held[0]), rows, columns)
    inputs = [x, draft.const(weights, _tiled(view.value(held[0]), phases), suffix)]
    if len(held) > 1:
        inputs.append(draft.const(np.tile(view.const(held[1]), phases), _tiled(view.value(held[1]), phases), suffix))
    pad = Padding(rows.before, columns.before, rows.after, columns.after)
    return inputs, Conv2D(Pair(1, 1), pad, act=draft.node.attrs.act)


def _interleaved(draft: RewriteDraft, image: str, counts: tuple[int, int], a: TransposeConv2D) -> Rewrite:
    """[1, rows, columns, (row phases, column phases, O)] -> [1, H', W', O]."""
    (height, width), y = counts, draft.view.value(draft.node.outputs[0])
    run = a.stride.w * y.shape[3]
    if a.stride.h > 1:
        parts = (1, height, width, a.stride.h, run)
        apart = draft.add([image], Reshape(parts), y, parts, "parts")
        image = draft.add([apart], Transpose((0, 1, 3, 2, 4)), y, (1, height, a.stride.h, width, run), "rows")
    full = (1, height * a.stride.h, width * a.stride.w, y.shape[3])
    if full == y.shape:
        return draft.finish([image], Reshape(full))
    whole = draft.add([image], Reshape(full), y, full, "whole")
    return draft.finish([whole], Slice((0, 0, 0, 0), y.shape, (1, 1, 1, 1)))


def _weights(w: Array, rows: _Phases, columns: _Phases) -> Array:
    """[O,KH,KW,I] -> [row phases * column phases * O, rows of the window, columns of the window, I]."""
    padded = np.pad(w, ((0, 0), (0, 1), (0, 1), (0, 0)))  # taps at -1 are 0
    by_rows = padded[:, np.array(rows.taps)]  # [O, row phases, window rows, KW, I]
    both = by_rows[:, :, :, np.array(columns.taps)]  # [O, row phases, window rows, column phases, window columns, I]
    ordered = both.transpose(1, 3, 0, 2, 4, 5)
    return np.ascontiguousarray(ordered.reshape(-1, len(rows.taps[0]), len(columns.taps[0]), w.shape[3]))


def _tiled(value: Value, times: int) -> Value:
    """A constant's description for so many repetitions along its first axis."""
    quant = value.quant
    if quant is None or quant.axis is None:
        return value
    return replace(value, quant=replace(quant, scale=quant.scale * times, zero=quant.zero * times))
