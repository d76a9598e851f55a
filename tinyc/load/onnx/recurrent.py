# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN: one node per direction that loops over the steps, or unrolled where no loop does the same.

Unrolled, there is one pair of matrix products per direction and step, and the operators of the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import RELU
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mul import Mul
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.slice import Slice
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh

MAX_STEPS = 256
_DEFAULT = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_ACTS = {"Sigmoid": Sigmoid(), "Tanh": Tanh(), "Relu": Clip(RELU)}


@dataclass(frozen=True)
class _Cell:
    """One direction of the layer. `rows`: w x + b of all steps, [T, gates * H]; r [gates * H, H]."""

    s: OnnxStep
    tag: str
    units: int
    acts: tuple[str, ...]
    rows: Value
    r: Array
    state_bias: Array

    def make(self, inputs: Sequence[Value], attrs: object, what: str) -> Value:
        return self.s.insert(inputs, attrs, f"{self.tag}{what}")

    def act(self, number: int, x: Value, what: str) -> Value:
        return self.make([x], _ACTS[self.acts[number]], what)

    def row(self, t: int, first: int = 0, gates: int | None = None) -> Value:
        """Of step t, w x + b of `gates` gates from `first` on."""
        count = (self.rows.shape[1] // self.units if gates is None else gates) * self.units
        return self.make([self.rows], Slice((t, first * self.units), (1, count), (1, 1)), f"x{t}")

    def product(self, h: Value, first: int = 0, gates: int | None = None) -> Value:
        """r h + b of some gates."""
        end = None if gates is None else (first + gates) * self.units
        part = slice(first * self.units, end)
        inputs = [h, self.s.const(self.r[part], 2)]
        if self.state_bias[part].any():
            inputs.append(_constant(self.s, self.state_bias[part], 3, "bias"))
        return self.make(inputs, FullyConnected(), "r")

    def gate(self, x: Value, number: int) -> Value:
        start = (0, number * self.units)
        return self.make([x], Slice(start, (1, self.units), (1, 1)), "gate")


Run = Callable[[_Cell, int, Value | None, Value | None], tuple[Value, Value | None]]


_IGNORED = ("activation_alpha", "activation_beta")  # no activation that is supported has them


@imports("LSTM", ignores=_IGNORED)
def lstm(s: OnnxStep) -> None:
    """Gates in the order i, o, f, c."""
    if s.node.flag("input_forget", False) or s.node.float_("clip", 0.0) or s.has(7):
        raise TinycError("LSTM with coupled gates, a clip or peepholes is not supported", s.where)
    layer = _read(s, 4)
    if _goes_on(s, layer, (5, 6)):
        _kept_loop(s, layer, "lstm")
    elif _plain(s, layer) and not _wanted(s, 2):
        _loop(s, layer, "lstm")
    else:
        _unroll(s, layer, _lstm_step)


def _lstm_step(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    x = x if h is None else cell.make([x, cell.product(h)], Add(), "sum")
    i, o, f = (cell.act(0, cell.gate(x, k), "gate") for k in range(3))
    new = cell.make([i, cell.act(1, cell.gate(x, 3), "candidate")], Mul(), "new")
    if c is not None:
        new = cell.make([cell.make([f, c], Mul(), "kept"), new], Add(), "cell")
    return cell.make([o, cell.act(2, new, "shown")], Mul(), "hidden"), new


@imports("GRU", ignores=_IGNORED)
def gru(s: OnnxStep) -> None:
    """Gates in the order z, r, h."""
    if s.node.float_("clip", 0.0):
        raise TinycError("GRU with a clip is not supported", s.where)
    layer, after = _read(s, 3), s.node.flag("linear_before_reset", False)
    if after and _goes_on(s, layer, (5,)):
        _kept_loop(s, layer, "gru")
    elif after and _plain(s, layer):
        _loop(s, layer, "gru")
    else:
        _unroll(s, layer, _gru_reset_after if after else _gru_reset_before, fold_bias=not after)


def _gru_reset_after(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x, y = cell.row(t), cell.product(h if h is not None else _zeros(cell))
    z, r = _update_and_reset(cell, x, y)
    inner = cell.make([r, cell.gate(y, 2)], Mul(), "reset")
    candidate = cell.act(1, cell.make([cell.gate(x, 2), inner], Add(), "inner"), "candidate")
    return _blend(cell, z, candidate, h), None


def _gru_reset_before(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    inner = cell.gate(x, 2)
    if h is None:
        z = cell.act(0, cell.gate(x, 0), "update")
    else:
        z, r = _update_and_reset(cell, x, cell.product(h, 0, 2))
        seen = cell.product(cell.make([r, h], Mul(), "reset"), 2, 1)
        inner = cell.make([inner, seen], Add(), "inner")
    return _blend(cell, z, cell.act(1, inner, "candidate"), h), None


def _update_and_reset(cell: _Cell, x: Value, y: Value) -> tuple[Value, Value]:
    sums = [cell.make([cell.gate(x, k), cell.gate(y, k)], Add(), "sum") for k in (0, 1)]
    return cell.act(0, sums[0], "update"), cell.act(0, sums[1], "open")


def _blend(cell: _Cell, z: Value, candidate: Value, h: Value | None) -> Value:
    """(1 - z) * candidate + z * h, as candidate + z * (h - candidate)."""
    if h is None:
        return cell.make([candidate, cell.make([z, candidate], Mul(), "part")], Sub(), "hidden")
    back = cell.make([z, cell.make([h, candidate], Sub(), "far")], Mul(), "back")
    return cell.make([candidate, back], Add(), "hidden")


def _zeros(cell: _Cell) -> Value:
    return cell.s.builder.add_const(f"{cell.s.node.outputs[0]}:zeros", np.zeros((1, cell.units), np.float32))


@imports("RNN", ignores=_IGNORED)
def rnn(s: OnnxStep) -> None:
    if s.node.float_("clip", 0.0):
        raise TinycError("RNN with a clip is not supported", s.where)
    _unroll(s, _read(s, 1), _rnn_step)


def _rnn_step(cell: _Cell, t: int, h: Value | None, c: Value | None) -> tuple[Value, Value | None]:
    x = cell.row(t)
    x = x if h is None else cell.make([x, cell.product(h)], Add(), "sum")
    return cell.act(0, x, "hidden"), None


@dataclass(frozen=True)
class _Weights:
    """x [T,1,I]; of each direction w [gates * U,I], r [gates * U,U], and both biases, one behind the other."""

    x: Value
    w: Array
    r: Array
    biases: Array
    directions: tuple[bool, ...]

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    @property
    def units(self) -> int:
        return int(self.r.shape[-1])

    @property
    def gates(self) -> int:
        return int(self.r.shape[1]) // self.units


def _read(s: OnnxStep, gates: int) -> _Weights:
    """TinycError for what neither a loop nor the unrolled form does."""
    x, w, r = s.value(0), s.weights(1), s.weights(2)
    if s.node.int_("layout", 0) or len(x.shape) != 3 or x.shape[1] != 1 or s.has(4):
        raise TinycError(
            f"{s.node.op} of {list(x.shape)}: the input must be [steps, 1, numbers], without sequence lengths",
            s.where,
            "export the model with batch size 1 and layout 0",
        )
    units = r.shape[-1]
    if s.node.int_("hidden_size", units) != units:
        raise TinycError(
            f"hidden_size {s.node.int_('hidden_size', units)} does not fit weights {list(r.shape)}", s.where
        )
    directions = _directions(s)
    if w.shape != (len(directions), gates * units, x.shape[2]) or r.shape != (len(directions), gates * units, units):
        raise TinycError(f"weights {list(w.shape)} and {list(r.shape)} do not fit {list(x.shape)}", s.where)
    biases = s.weights(3) if s.has(3) else np.zeros((len(directions), 2 * gates * units), np.float32)
    return _Weights(x, w, r, biases, directions)


def _wanted(s: OnnxStep, output: int) -> bool:
    """Whether an output has a name, and somebody who reads it."""
    outputs = s.node.outputs
    return output < len(outputs) and outputs[output] != "" and outputs[output] in s.builder.read


def _plain(s: OnnxStep, layer: _Weights) -> bool:
    """Whether all activations are the usual ones."""
    return all(_activations(s, d) == _DEFAULT[s.node.op] for d in range(len(layer.directions)))


_ORDER: Mapping[Literal["lstm", "gru"], tuple[int, ...]] = {"lstm": (0, 2, 3, 1), "gru": (0, 1, 2)}  # in ONNX's gates


def _loop(s: OnnxStep, layer: _Weights, cell: Literal["lstm", "gru"]) -> None:
    """A node for each direction, and the outputs Y [T,D,1,U] and Y_h [D,1,U]."""
    count, units, steps, sequence = len(layer.directions), layer.units, layer.steps, _wanted(s, 0)
    flat = s.reshape(layer.x, (steps, layer.x.shape[2]), "steps")
    made: list[Value] = []
    ends: list[Value] = []
    for d, backward in enumerate(layer.directions):
        inputs = _inputs(s, layer, cell, d, flat)
        made.append(s.insert(inputs, Recurrent(cell, backward, sequence), f"d{d}:hidden"))
        at = Slice((0 if backward else steps - 1, 0), (1, units), (1, 1))
        ends.append(s.insert([made[-1]], at, f"d{d}:end") if sequence and _wanted(s, 1) else made[-1])
    _emit(s, 0, made, (steps, count, 1, units), axis=1)
    _emit(s, 1, ends, (count, 1, units))


def _inputs(s: OnnxStep, layer: _Weights, cell: Literal["lstm", "gru"], d: int, flat: Value) -> list[Value | None]:
    """What the loop of a direction reads. flat: x [T,I]."""
    order, units = list(_ORDER[cell]), layer.units
    own, state = (part.reshape(-1, units)[order] for part in np.split(layer.biases[d], 2))
    late = state[2] if cell == "gru" else np.zeros(0, np.float32)
    bias = own + state if cell == "lstm" else own + [[1], [1], [0]] * state
    w, r = (part.reshape(layer.gates, units, -1)[order].transpose(1, 0, 2) for part in (layer.w[d], layer.r[d]))
    return [
        flat,
        s.const(w.reshape(-1, w.shape[2]), 1),
        _constant(s, bias.T.reshape(-1), 3, "bias"),
        s.const(r.reshape(-1, units), 2),
        _constant(s, late, 3, "late") if late.any() else None,
        _initial(s, 5, d, units),
        *([_initial(s, 6, d, units)] if cell == "lstm" else []),
    ]


def _goes_on(s: OnnxStep, layer: _Weights, states: Sequence[int]) -> bool:
    """Whether the layer has one direction, and begins with states of the model where it ended in the last run."""
    begins = [s.value(index) if s.has(index) and s.constant(index) is None else None for index in states]
    return len(layer.directions) == 1 and _plain(s, layer) and any(s.is_state(value) for value in begins)


def _kept_loop(s: OnnxStep, layer: _Weights, cell: Literal["lstm", "gru"]) -> None:
    """One node, and the outputs Y [T,1,1,U], Y_h and Y_c [1,1,U]."""
    units, steps, sequence = layer.units, layer.steps, _wanted(s, 0)
    flat = s.reshape(layer.x, (steps, layer.x.shape[2]), "steps")
    attrs = RecurrentKept(cell, layer.directions[0], sequence)
    names = ["d0:rows", "d0:hidden", "d0:cell"][: 3 if cell == "lstm" else 2]
    rows, hidden, *others = s.insert_all(_inputs(s, layer, cell, 0, flat), attrs, names)
    _emit(s, 0, [rows], (steps, 1, 1, units))
    _emit(s, 1, [hidden], (1, 1, units))
    for kept in others:
        _emit(s, 2, [kept], (1, 1, units))


def _unroll(s: OnnxStep, layer: _Weights, run: Run, fold_bias: bool = False) -> None:
    """All directions and steps, and the outputs Y [T,D,1,H], Y_h and Y_c [D,1,H]."""
    x, steps, units, directions = layer.x, layer.steps, layer.units, layer.directions
    if steps > MAX_STEPS:
        raise TinycError(f"{s.node.op} of {steps} steps; at most {MAX_STEPS} are unrolled", s.where)
    flat = s.reshape(x, (steps, x.shape[2]), "steps")
    hidden: list[list[Value]] = []
    ends: list[tuple[Value, Value | None]] = []
    for d, backward in enumerate(directions):
        own, state = np.split(layer.biases[d], 2)
        if layer.gates != 3 or fold_bias:
            own, state = own + state, np.zeros_like(state)
        weights = [s.const(layer.w[d], 1), _constant(s, own, 3, "bias")]
        rows = s.insert([flat, *weights], FullyConnected(), f"d{d}:inputs")
        cell = _Cell(s, f"d{d}:", units, _activations(s, d), rows, layer.r[d], state)
        h, c = _initial(s, 5, d, units), _initial(s, 6, d, units) if s.node.op == "LSTM" else None
        made: list[Value] = []
        for t in reversed(range(steps)) if backward else range(steps):
            h, c = run(cell, t, h, c)
            made.append(h)
        assert h is not None  # there is at least one step
        hidden.append(made[::-1] if backward else made)
        ends.append((h, c))
    _emit(s, 0, [row for t in range(steps) for row in (made[t] for made in hidden)], (steps, len(directions), 1, units))
    for output, k in ((1, 0), (2, 1)):
        _emit(s, output, [end[k] for end in ends], (len(directions), 1, units))


def _constant(s: OnnxStep, array: Array, index: int, what: str) -> Value:
    """Made from an optional input of the node."""
    name = s.node.inputs[index] if s.has(index) else f"{s.node.outputs[0]}:{what}"
    return s.builder.add_const(name, np.asarray(array, np.float32))


def _directions(s: OnnxStep) -> tuple[bool, ...]:
    """Whether each direction runs backward."""
    name = s.node.text("direction", "forward")
    found = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(name)
    if found is None:
        raise TinycError(f"direction '{name}'", s.where)
    return found


def _activations(s: OnnxStep, direction: int) -> tuple[str, ...]:
    default = _DEFAULT[s.node.op]
    given = s.node.texts("activations")
    names = tuple(given[direction * len(default) : (direction + 1) * len(default)]) if given else default
    for name in names:
        if name not in _ACTS:
            raise TinycError(f"activation {name} is not supported in {s.node.op}", s.where)
    return names


def _initial(s: OnnxStep, index: int, direction: int, units: int) -> Value | None:
    """[1,H] of the direction; None for zeros."""
    if not s.has(index):
        return None
    known = s.constant(index)
    if known is not None and not known.any():
        return None
    x = s.value(index)
    if len(x.shape) != 3 or x.shape[1:] != (1, units):
        raise TinycError(f"the initial state is {list(x.shape)}, not [directions, 1, {units}]", s.where)
    if x.shape[0] > 1:
        x = s.insert([x], Slice((direction, 0, 0), (1, 1, units), (1, 1, 1)), f"d{direction}:initial")
    return s.reshape(x, (1, units), f"d{direction}:start")


def _emit(s: OnnxStep, output: int, parts: Sequence[Value | None], shape: tuple[int, ...], axis: int = 0) -> None:
    """The parts, one after the other along the axis, as an output of this shape, if it is wanted."""
    if not _wanted(s, output):
        return
    found = [part for part in parts if part is not None]
    together = found[0] if len(found) == 1 else s.insert(found, Concat(axis), f"all{output}")
    s.emit([together], Reshape(shape), output=output)
