# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN: one node per direction that loops over the steps, or unrolled where no loop does the same.

Unrolled, there is one pair of matrix products per direction and step, and the operators of the cell. A loop has a
sequence of its own; of several sequences each is a loop on the same constants. See `recurrent_batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Act
from tinyc.load.onnx.grids import Move
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.recurrent_batch import (
    Packed,
    all_rows,
    all_steps,
    emit,
    entering,
    in_order,
    initial,
    last_rows,
    one_sequence,
    part,
    with_all_steps,
    zeros,
)
from tinyc.load.onnx.recurrent_layer import IGNORED, Activation, RecurrentLayer, is_read, operators_of, read
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mul import Mul
from tinyc.ops.recurrent import Recurrent, have_one_step
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.slice import Slice
from tinyc.ops.sub import Sub

MAX_STEPS = 256


@dataclass(frozen=True)
class _Cell:
    """One direction of the layer. `rows`: w x + b of all steps, [*, gates * H]; r [gates * H, H]."""

    s: OnnxStep
    layer: RecurrentLayer
    packed: Packed
    direction: int
    rows: Value
    r: Array
    state_bias: Array

    def make(self, inputs: Sequence[Value], attrs: object, what: str) -> Value:
        return self.s.insert(inputs, attrs, f"d{self.direction}:{what}")

    def row(self, t: int, first: int = 0, gates: int | None = None) -> Value:
        """Of step t, w x + b of `gates` gates from `first` on."""
        units = self.layer.units
        count = (self.rows.shape[1] // units if gates is None else gates) * units
        at = (self.packed.first_row(t), first * units)
        return self.make([self.rows], Slice(at, (self.packed.rows[t], count), (1, 1)), f"x{t}")

    def product(self, h: Value, first: int = 0, gates: int | None = None) -> Value:
        """r h + b of some gates."""
        units = self.layer.units
        end = None if gates is None else (first + gates) * units
        taken = slice(first * units, end)
        inputs = [h, self.s.const(self.r[taken], 2)]
        if self.state_bias[taken].any():
            inputs.append(_constant(self.s, self.state_bias[taken], 3, "bias"))
        return self.make(inputs, FullyConnected(), "r")

    def gate(self, x: Value, number: int) -> Value:
        units = self.layer.units
        return self.make([x], Slice((0, number * units), (x.shape[0], units), (1, 1)), "gate")


Run = Callable[[_Cell, int, Value | None, Value | None], tuple[Value, Value | None]]


def _act(cell: _Cell, number: int, x: Value, what: str) -> Value:
    """An activation of what goes into a gate."""
    if (most := cell.layer.clip) is not None:
        x = cell.make([x], Clip(Act(-most, most)), "clipped")
    return _activated(cell, cell.layer.activations[cell.direction][number], x, what)


def _activated(cell: _Cell, activation: Activation, x: Value, what: str) -> Value:
    for attrs, number in operators_of(activation):
        x = cell.make([x] if number is None else [x, _number(cell.s, number)], attrs, what)
    return x


def _number(s: OnnxStep, number: float) -> Value:
    return s.builder.add_const(f"{s.node.outputs[0]}:number", np.array(number, np.float32))


@imports("LSTM", ignores=IGNORED)
def lstm(s: OnnxStep) -> None:
    """Gates in the order i, o, f, c; peepholes, a clip, coupled gates. Lengths of sequences are constants."""
    layer = read(s)
    if _goes_on(s, layer, (5, 6)):
        _stateful_loop(s, layer, "lstm")
    elif layer.is_usual and not is_read(s, 2):
        _loop(s, layer, "lstm")
    else:
        _unroll(s, layer, _lstm_step)


def _lstm_step(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    x = x if h is None else cell.make([x, cell.product(h)], Add(), "sum")
    i = _gate(cell, x, 0, c)
    o = _gate(cell, x, 1, None) if cell.layer.peepholes is None else None  # else it sees the new cell
    f = None if cell.layer.coupled else _gate(cell, x, 2, c)
    candidate = _act(cell, 1, cell.gate(x, 3), "candidate")
    if c is not None and f is None:  # (1 - i) * c + i * candidate
        far = cell.make([candidate, c], Sub(), "far")
        new = cell.make([c, cell.make([i, far], Mul(), "new")], Add(), "cell")
    else:
        new = cell.make([i, candidate], Mul(), "new")
        if c is not None and f is not None:
            new = cell.make([cell.make([f, c], Mul(), "kept"), new], Add(), "cell")
    o = _gate(cell, x, 1, new) if o is None else o
    shown = _activated(cell, cell.layer.activations[cell.direction][2], new, "shown")
    return cell.make([o, shown], Mul(), "hidden"), new


def _gate(cell: _Cell, x: Value, number: int, seen: Value | None) -> Value:
    """The gate i, o or f of an LSTM. seen: the cell that it sees through its peephole."""
    x = cell.gate(x, number)
    if seen is not None and cell.layer.peepholes is not None:
        weights = np.split(cell.layer.peepholes[cell.direction], 3)[number]
        hole = cell.make([seen, cell.s.const(weights, 7)], Mul(), "peephole")
        x = cell.make([x, hole], Add(), "seen")
    return _act(cell, 0, x, "gate")


@imports("GRU", ignores=IGNORED)
def gru(s: OnnxStep) -> None:
    """Gates in the order z, r, h; a clip. Lengths of sequences are constants."""
    layer, after = read(s), s.node.flag("linear_before_reset", False)
    if after and _goes_on(s, layer, (5,)):
        _stateful_loop(s, layer, "gru")
    elif after and layer.is_usual:
        _loop(s, layer, "gru")
    elif after:
        _unroll(s, layer, _gru_reset_after)
    else:
        _unroll(s, layer, _gru_reset_before, fold_bias=True)


def _gru_reset_after(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    y = cell.product(h if h is not None else zeros(cell.s, x.shape[0], cell.layer.units))
    z, r = _update_and_reset(cell, x, y)
    inner = cell.make([r, cell.gate(y, 2)], Mul(), "reset")
    candidate = _act(cell, 1, cell.make([cell.gate(x, 2), inner], Add(), "inner"), "candidate")
    return _blend(cell, z, candidate, h), None


def _gru_reset_before(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    inner = cell.gate(x, 2)
    if h is None:
        z = _act(cell, 0, cell.gate(x, 0), "update")
    else:
        z, r = _update_and_reset(cell, x, cell.product(h, 0, 2))
        seen = cell.product(cell.make([r, h], Mul(), "reset"), 2, 1)
        inner = cell.make([inner, seen], Add(), "inner")
    return _blend(cell, z, _act(cell, 1, inner, "candidate"), h), None


def _update_and_reset(cell: _Cell, x: Value, y: Value) -> tuple[Value, Value]:
    sums = [cell.make([cell.gate(x, k), cell.gate(y, k)], Add(), "sum") for k in (0, 1)]
    return _act(cell, 0, sums[0], "update"), _act(cell, 0, sums[1], "open")


def _blend(cell: _Cell, z: Value, candidate: Value, h: Value | None) -> Value:
    """(1 - z) * candidate + z * h, as candidate + z * (h - candidate)."""
    if h is None:
        return cell.make([candidate, cell.make([z, candidate], Mul(), "part")], Sub(), "hidden")
    back = cell.make([z, cell.make([h, candidate], Sub(), "far")], Mul(), "back")
    return cell.make([candidate, back], Add(), "hidden")


@imports("RNN", ignores=IGNORED)
def rnn(s: OnnxStep) -> None:
    """f(w x + r h + b), with a clip or without. Lengths of sequences are constants."""
    _unroll(s, read(s), _rnn_step)


def _rnn_step(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    x = x if h is None else cell.make([x, cell.product(h)], Add(), "sum")
    return _act(cell, 0, x, "hidden"), None


_ORDER: Mapping[Literal["lstm", "gru"], tuple[int, ...]] = {"lstm": (0, 2, 3, 1), "gru": (0, 1, 2)}  # in ONNX's gates


def _loop(s: OnnxStep, layer: RecurrentLayer, cell: Literal["lstm", "gru"]) -> None:
    """A node for each direction of each sequence, and the outputs Y and Y_h."""
    sequences = [one_sequence(s, layer, b) if n else None for b, n in enumerate(layer.lengths)]
    rows: list[Value] = []
    ends: list[Value] = []
    for d in range(len(layer.directions)):
        constants, starts = _loop_constants(s, layer, cell, d), _loop_starts(s, layer, cell, d)
        for b, x in enumerate(sequences):
            y, end = _loop_over(s, layer, cell, d, b, [x, *constants, *(_row(s, start, b) for start in starts)])
            rows.append(y)
            ends.append(end)
    places = range(layer.batch)
    if is_read(s, 0):
        emit(s, layer, 0, rows, places, axis=1)
    if is_read(s, 1):
        emit(s, layer, 1, ends, places)


def _row(s: OnnxStep, x: Value | None, b: int) -> Value | None:
    return None if x is None else part(s, x, 0, b, 1, f"b{b}:start")


def _loop_over(
    s: OnnxStep, layer: RecurrentLayer, cell: Literal["lstm", "gru"], d: int, b: int, inputs: Sequence[Value | None]
) -> tuple[Value, Value]:
    """([T,U], [1,U]) of one sequence: its hidden states, if anybody reads them, and the one that is last in time."""
    units, count, sequence, backward = layer.units, layer.lengths[b], is_read(s, 0), layer.directions[d]
    if count == 0:
        return zeros(s, layer.steps, units), zeros(s, 1, units)
    tag = f"d{d}:" if layer.batch == 1 else f"d{d}:b{b}:"
    y = s.insert(inputs, Recurrent(cell, backward, sequence), f"{tag}hidden")
    at = Slice((0 if backward else count - 1, 0), (1, units), (1, 1))
    end = s.insert([y], at, f"{tag}end") if sequence and is_read(s, 1) else y
    return with_all_steps(s, layer, y, f"{tag}hidden") if sequence else y, end


def _loop_constants(s: OnnxStep, layer: RecurrentLayer, cell: Literal["lstm", "gru"], d: int) -> list[Value | None]:
    """What all loops of a direction read, as `recurrent` wants it, from the weights to the late bias."""
    order, units = list(_ORDER[cell]), layer.units
    own, state = (half.reshape(-1, units)[order] for half in np.split(layer.biases[d], 2))
    late = state[2] if cell == "gru" else np.zeros(0, np.float32)
    bias = own + state if cell == "lstm" else own + [[1], [1], [0]] * state

    def moved(weights: Array) -> Array:
        by_gate = weights[d].reshape(layer.gates, units, -1)[order]
        return by_gate.transpose(1, 0, 2).reshape(layer.gates * units, -1)

    wide = _have_other_steps(s, moved)
    return [
        s.weight(1, moved, 0, wide),
        _constant(s, bias.T.reshape(-1), 3, "bias"),
        s.weight(2, moved, 0, wide),
        _constant(s, late, 3, "late") if late.any() else None,
    ]


def _have_other_steps(s: OnnxStep, move: Move) -> bool:
    """Whether weights of inputs and of states do not have one step or type, as a loop has it: of 4 bits, they would be
    far from the file's when they are rounded to one. In a file of tinyc that is as they were learned."""
    w, r = s.grid(1), s.grid(2)
    if w is None or r is None:
        return False
    quants = w.moved(move).quant(0), r.moved(move).quant(0)
    if quants[0] is None or quants[1] is None:
        return False
    return w.dtype != r.dtype or not (s.builder.file.own or have_one_step(quants[0], quants[1]))


def _loop_starts(s: OnnxStep, layer: RecurrentLayer, cell: Literal["lstm", "gru"], d: int) -> list[Value | None]:
    """The states [B,U] that the loops of a direction begin with."""
    return [initial(s, layer, 5, d), *([initial(s, layer, 6, d)] if cell == "lstm" else [])]


def _goes_on(s: OnnxStep, layer: RecurrentLayer, states: Sequence[int]) -> bool:
    """Whether the layer has one sequence and direction, and begins with states of the model where it ended in the last
    run."""
    begins = [s.value(index) if s.has(index) and s.constant(index) is None else None for index in states]
    is_one = len(layer.directions) == 1 and layer.lengths == (layer.steps,)
    return is_one and layer.is_usual and any(s.is_state(value) for value in begins)


def _stateful_loop(s: OnnxStep, layer: RecurrentLayer, cell: Literal["lstm", "gru"]) -> None:
    """One node, and the outputs Y, Y_h and Y_c."""
    attrs = RecurrentKept(cell, layer.directions[0], is_read(s, 0))
    names = ["d0:rows", "d0:hidden", "d0:cell"][: 3 if cell == "lstm" else 2]
    x = one_sequence(s, layer, 0)
    inputs = [x, *_loop_constants(s, layer, cell, 0), *_loop_starts(s, layer, cell, 0)]
    for output, value in enumerate(s.insert_all(inputs, attrs, names)):
        if is_read(s, output):
            emit(s, layer, output, [value], (0,))


def _unroll(s: OnnxStep, layer: RecurrentLayer, run: Run, fold_bias: bool = False) -> None:
    """All directions and steps, and the outputs Y, Y_h and Y_c."""
    packed = Packed.of(layer.lengths)
    if len(packed.rows) > MAX_STEPS:
        raise TinycError(f"{s.node.op} of {len(packed.rows)} steps; at most {MAX_STEPS} are unrolled", s.where)
    flat = all_steps(s, layer, packed)
    hidden: list[list[Value]] = []
    cells: list[list[Value]] = []
    for d in range(len(layer.directions)):
        states = _states(_cell(s, layer, packed, d, flat, fold_bias), run)
        hidden.append([h for h, _ in states])
        cells.append([c for _, c in states if c is not None])
    if is_read(s, 0):
        emit(s, layer, 0, [all_rows(s, layer, packed, hidden)], packed.order)
    for output, of_output in ((1, hidden), (2, cells)):
        if is_read(s, output):
            ends = [
                last_rows(s, layer, of_output[d], backward, f"d{d}:end") for d, backward in enumerate(layer.directions)
            ]
            emit(s, layer, output, ends, packed.order)


def _cell(s: OnnxStep, layer: RecurrentLayer, packed: Packed, d: int, flat: Value, fold_bias: bool) -> _Cell:
    own, state = np.split(layer.biases[d], 2)
    if layer.gates != 3 or fold_bias:
        own, state = own + state, np.zeros_like(state)
    weights = [s.const(layer.w[d], 1), _constant(s, own, 3, "bias")]
    rows = s.insert([flat, *weights], FullyConnected(), f"d{d}:inputs")
    return _Cell(s, layer, packed, d, rows, layer.r[d], state)


def _states(cell: _Cell, run: Run) -> list[tuple[Value, Value | None]]:
    """(hidden state, cell) after each step, in the order of the steps."""
    s, layer, packed, d = cell.s, cell.layer, cell.packed, cell.direction
    begins = [initial(s, layer, index, d) for index in ((5, 6) if s.node.op == "LSTM" else (5,))]
    starts = [None if x is None else in_order(s, x, 0, packed.order, f"d{d}:ordered") for x in begins]
    h: Value | None = None
    c: Value | None = None
    states = []
    steps = range(len(packed.rows))
    for t in reversed(steps) if layer.directions[d] else steps:
        rows = packed.rows[t]
        h = entering(s, h, starts[0], rows, f"d{d}:before{t}")
        c = entering(s, c, starts[1], rows, f"d{d}:cell{t}") if s.node.op == "LSTM" else None
        h, c = run(cell, t, h, c)
        states.append((h, c))
    return states[::-1] if layer.directions[d] else states


def _constant(s: OnnxStep, array: Array, index: int, what: str) -> Value:
    """Made from an optional input of the node."""
    name = s.node.inputs[index] if s.has(index) else f"{s.node.outputs[0]}:{what}"
    return s.builder.add_const(name, np.asarray(array, np.float32))
