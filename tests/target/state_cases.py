# SPDX-License-Identifier: Apache-2.0
"""Layers that remember, as one call with the state of before and the state of after, for kernel_cases.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.ops.one_node import one_node, random_s8, tensor
from tinyc.ir.graph import Array, DType, Graph, Quant, Shape, Value
from tinyc.kernel.site import RELU
from tinyc.ops.lstm import Lstm
from tinyc.ops.recurrent import GATES, Recurrent
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.softmax import Softmax
from tinyc.ops.svdf import Svdf


def svdf(units: int, rank: int, memory: int, in_c: int, state: DType = "s16", zero: int = 0) -> Graph:
    """One call of an SVDF layer with random weights; int16 states are in steps of 1/2^12. zero: of an int8 state."""
    filters = units * rank
    rng = np.random.default_rng(units + memory)
    s_scale, t_scale = (2.0**-12, 2.0**-17) if state == "s16" else (0.03, 0.01)
    most = 8000 if state == "s16" else 127
    state_before = tensor("state", (1, filters * memory), s_scale, zero, state)
    times = rng.integers(-most, most + 1, (filters, memory)).astype(np.int16 if state == "s16" else np.int8)
    inputs = [
        tensor("x", (1, in_c), 0.05, 7),
        tensor("w", (filters, in_c), 0.005),
        tensor("t", (filters, memory), t_scale, 0, state),
        Value("b", (units,), "s32", Quant((s_scale * t_scale,), (0,))),
        state_before,
    ]
    consts = {
        "w": np.maximum(random_s8(1, (filters, in_c)), -127),
        "t": times,
        "b": rng.integers(-(2**20), 2**20, units).astype(np.int32),
    }
    after = tensor("after", state_before.shape, s_scale, zero, state)
    return one_node("svdf", Svdf(rank, RELU), inputs, 0.02, -128, consts, others=[after])


def lstm(units: int, in_c: int, steps: int, clip: float = 0.0, power: int = -12, scale: float = 0.004) -> Graph:
    """One call of an LSTM layer with random weights. scale: of all of them."""
    rng = np.random.default_rng(units)
    shapes: dict[str, Shape] = {f"w{k}": (units, in_c) for k in "ifgo"}
    shapes |= {f"r{k}": (units, units) for k in "ifgo"}
    weights = {name: np.maximum(random_s8(k, shape), -127) for k, (name, shape) in enumerate(shapes.items())}
    biases = {f"b{k}": rng.integers(-20000, 20000, units).astype(np.int32) for k in "ifgo"}
    state = [tensor("hidden", (1, units), 1 / 120, 3), tensor("cell", (1, units), 2.0**power, 0, "s16")]
    inputs = [
        tensor("x", (1, steps, in_c), 0.02, -5),
        *(tensor(name, array.shape, scale) for name, array in weights.items()),
        *(Value(name, (units,), "s32", Quant((0.02 * scale,), (0,))) for name in biases),
        *state,
    ]
    others = [tensor("hidden2", (1, units), 1 / 120, 3), tensor("cell2", (1, units), 2.0**power, 0, "s16")]
    return one_node("lstm", Lstm(clip), inputs, 1 / 120, 3, {**weights, **biases}, others=others)


def loop(
    attrs: Recurrent | RecurrentKept,
    units: int,
    in_c: int,
    steps: int,
    states: bool = False,
    most: int = 127,
    wide: bool = False,
    narrow: bool = False,
) -> Graph:
    """A recurrent layer with random weights up to `most`; of one that is kept, the hidden state reaches beyond 1. wide:
    int16 instead of int8. narrow: weights of 4 bits, -8 to 7."""
    scale_of_state = {"h": 1.5 / 2**15, "c": 3e-4} if isinstance(attrs, RecurrentKept) else {}
    scale_of_state = {"h": scale_of_state["h"]} if scale_of_state and attrs.cell == "gru" else scale_of_state
    rng = np.random.default_rng(units + in_c)
    rows = GATES[attrs.cell] * units
    shapes: tuple[Shape, Shape] = ((rows, in_c), (rows, units))
    least, most = (-8, 7) if narrow else (-most, most)
    w, r = (rng.integers(least, most + 1, shape).astype(np.int8) for shape in shapes)
    coarser = 16 if narrow else 1
    steps_of_w = coarser * rng.uniform(0.002, 0.006, rows)
    scales = {name: tuple((times * steps_of_w).astype(np.float32).tolist()) for name, times in (("w", 1), ("r", 1.3))}
    zeros = (0,) * rows

    def value(name: str, shape: Shape, scale: float, zero: int) -> Value:
        return tensor(name, shape, scale / 256, 0, "s16") if wide else tensor(name, shape, scale, zero)

    finer = 256 if wide else 1
    inputs: list[Value | None] = [
        value("x", (steps, in_c), 0.02, -5),
        Value("w", w.shape, "s4" if narrow else "s8", Quant(scales["w"], zeros, 0)),
        Value("b", (rows,), "s32", Quant(tuple(0.02 / finer * scale for scale in scales["w"]), zeros, 0)),
        Value("r", r.shape, "s4" if narrow else "s8", Quant(scales["r"], zeros, 0)),
        Value("late", (units,), "f32") if attrs.cell == "gru" else None,
        *([value("h", (1, units), 0.009, 4)] if states and not scale_of_state else []),
        *([value("c", (1, units), 0.02, -7)] if states and not scale_of_state and attrs.cell == "lstm" else []),
        *([tensor(name, (1, units), scale, 0, "s16") for name, scale in scale_of_state.items()] if states else []),
    ]
    others = [tensor(f"{name}2", (1, units), scale, 0, "s16") for name, scale in scale_of_state.items()]
    consts: dict[str, Array] = {
        "w": w,
        "r": r,
        "b": finer * (rng.integers(-9000, 9000, rows) // coarser).astype(np.int32),
    }
    if attrs.cell == "gru":
        consts["late"] = rng.standard_normal(units).astype(np.float32)
    name = "recurrent_kept" if scale_of_state else "recurrent"
    scale, zero = (1 / 120 / 256, 0) if wide else (1 / 120, 3)
    return one_node(name, attrs, inputs, scale, zero, consts, others=others)


def state_cases() -> Iterator[Graph]:
    """One-node graphs, their states as inputs and outputs."""
    yield svdf(5, 2, 3, 7)
    yield svdf(4, 1, 1, 9, "s8")
    yield svdf(8, 1, 8, 130)  # whole vectors, more taps than are unrolled
    yield svdf(6, 2, 70, 16)
    yield svdf(3, 3, 7, 33, "s8")
    yield lstm(5, 3, 2)
    yield lstm(8, 33, 2, 0.5, -9)  # a clipped and coarse cell, whole vectors
    yield lstm(21, 150, 2, power=-16)  # more taps than are unrolled
    yield loop(Recurrent("lstm"), 5, 3, 3)
    yield loop(Recurrent("gru"), 5, 6, 3)
    yield loop(RecurrentKept("lstm"), 5, 3, 3, states=True)
    yield loop(RecurrentKept("gru"), 5, 6, 3, states=True)
    yield loop(Recurrent("lstm", reverse=True), 61, 50, 2, wide=True)  # more chunks than are unrolled
    yield loop(Recurrent("gru"), 9, 107, 2)
    yield loop(Recurrent("lstm"), 5, 3, 3, narrow=True)
    yield loop(Recurrent("gru"), 5, 6, 3, narrow=True)
    yield loop(RecurrentKept("lstm"), 6, 4, 3, states=True, narrow=True)
    yield loop(RecurrentKept("gru"), 5, 6, 3, states=True, wide=True, narrow=True)
    yield loop(Recurrent("lstm"), 61, 50, 2, narrow=True)
    yield loop(Recurrent("gru", reverse=True), 9, 107, 2, narrow=True)
    yield one_node("softmax", Softmax(widened=True), [tensor("x", (3, 11), 0.1, 7)], 1 / 65536, -32768)
