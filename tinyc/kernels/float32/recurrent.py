# SPDX-License-Identifier: Apache-2.0
"""Layers that remember, in float32: LSTM and SVDF, what they compute and their kernels in portable C."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyc.base import float32
from tinyc.base.float32 import Floats, fma
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import act_fields
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import in_float32

# Inputs of an LSTM node: x, 4 weights, 4 recurrent weights, 4 biases, the states.
_X, _W, _R, _B, _HIDDEN, _CELL = 0, 1, 5, 9, 13, 14


def lstm_ref(a: Any, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    """lstm: x [1,T,I]; each gate a chain over the inputs, then over the hidden state."""
    inputs = (x, *rest)
    w, r = (np.stack([np.asarray(inputs[first + k]) for k in range(4)]) for first in (_W, _R))
    bias = np.stack([_bias(inputs[_B + k], w.shape[1]) for k in range(4)])
    before = [np.asarray(inputs[k], np.float32) for k in (_HIDDEN, _CELL)]
    hidden, cell = (state.reshape(-1) for state in before)
    rows = []
    for step in x.reshape(-1, x.shape[-1]):
        gates = _chain(_chain(bias, step, w), hidden, r)
        added = float32.sigmoid(gates[0]) * float32.tanh(gates[2])
        cell = fma(float32.sigmoid(gates[1]), cell, added)
        cell = float32.clip(cell, -a.clip, a.clip) if a.clip > 0 else cell
        hidden = float32.sigmoid(gates[3]) * float32.tanh(cell)
        rows.append(hidden)
    lead = (len(rows), 1) if a.time_major else (1, len(rows))
    states = (now.reshape(state.shape) for now, state in zip((hidden, cell), before, strict=True))
    return np.reshape(rows, (*lead, -1)), *states


def _chain(acc: Floats, x: Array, w: Array) -> Floats:
    """acc [...,U] plus the products of x [K] and w [...,U,K], one after the other."""
    for k in range(len(x)):
        acc = fma(x[k], w[..., k], acc)
    return acc


def _bias(bias: Array | None, units: int) -> Floats:
    return np.zeros(units, np.float32) if bias is None else np.asarray(bias, np.float32)


def svdf_ref(a: Any, x: Array, w: Array, times: Array, b: Array | None, state: Array) -> tuple[Array, ...]:
    """svdf: x [1,I], w [F,I], times [F,M], state [1,F*M]."""
    newest = _chain(np.zeros(len(w), np.float32), x.reshape(-1), w)
    after = np.concatenate([state.reshape(times.shape)[:, 1:], newest[:, None]], axis=1)
    acc = _bias(b, len(w) // a.rank)
    for k in range(a.rank):
        for m in range(times.shape[1]):
            acc = fma(after[k :: a.rank, m], times[k :: a.rank, m], acc)
    return float32.clip(acc, a.act.lo, a.act.hi)[None], after.reshape(state.shape)


def lower_lstm(site: Site, p: Any) -> Call:
    """tc_lstm_f32: all steps, the states over the old ones or elsewhere."""
    w, r = (np.stack([site.const(first + k) for k in range(4)]) for first in (_W, _R))
    units, in_c = w.shape[1:]
    bias = np.stack([_bias(site.const(_B + k) if site.has(_B + k) else None, units) for k in range(4)])
    fields: dict[str, int | float | str | Const] = {
        "w": Const(w.transpose(1, 2, 0), "[units][in_c][4]", "w"),
        "r": Const(r.transpose(1, 2, 0), "[units][units][4]", "r"),
        "bias": Const(bias.T, "[units][4]", "bias"),
        "steps": site.x(_X).elements // in_c,
        "units": units,
        "in_c": in_c,
        "clip": float(site.attrs.clip),
    }
    arguments = (Params(), In(_X), In(_HIDDEN), In(_CELL), Out(0), Out(1), Out(2), Scratch())
    return Call(arguments, Struct("tc_lstm_f32_t", fields))


def scratch_lstm(site: Site, p: Any) -> int:
    """What goes into the gates."""
    return 16 * site.x(_W).shape[0]


def of_units(site: Site, p: Any) -> Units:
    """Products, units and steps in time of an LSTM."""
    units, in_c = site.x(_W).shape
    steps = site.x(_X).elements // in_c
    return {"product": 4 * steps * units * (in_c + units), "unit": steps * units, "step": steps}


def lstm_bytes(site: Site, p: Any) -> int:
    """Of weights and biases."""
    units, in_c = site.x(_W).shape
    return 16 * units * (in_c + units + 1)


def lower_svdf(site: Site, p: Any) -> Call:
    """tc_svdf_f32: the whole layer, the state over the old one or elsewhere."""
    times = site.const(2)
    units = len(times) // site.attrs.rank
    fields: dict[str, int | float | str | Const] = {
        "w": Const(site.const(1), "[filters][in_c]", "w"),
        "times": Const(times, "[filters][memory]", "times"),
        "bias": Const(_bias(site.const(3) if site.has(3) else None, units), "[units]", "bias"),
        "in_c": site.x(1).shape[1],
        "units": units,
        "rank": site.attrs.rank,
        "memory": times.shape[1],
        **act_fields(site.attrs.act),
    }
    return Call((Params(), In(0), In(4), Out(0), Out(1)), Struct("tc_svdf_f32_t", fields))


def of_filters(site: Site, p: Any) -> Units:
    """Products with the input and with the state, and outputs, of an SVDF."""
    return {"product": site.x(1).elements, "moved": site.x(2).elements, "element": site.y().elements}


def svdf_bytes(site: Site, p: Any) -> int:
    """Of weights."""
    return site.const(1).nbytes + site.const(2).nbytes


def has_lstm_weights(site: Site) -> bool:
    """weights and biases that are constants"""
    return all(site.is_const(k) or not site.has(k) for k in range(_W, _HIDDEN))


def has_svdf_weights(site: Site) -> bool:
    """weights and biases that are constants"""
    return all(site.is_const(k) or not site.has(k) for k in range(1, 4))


LSTM = Kernel(
    "tc_lstm_f32",
    offered(
        lower_lstm,
        scratch=scratch_lstm,
        cost=CountedCost("tc_lstm_f32", of_units, flash=lstm_bytes, fetched="product"),
    ),
    when=(in_float32, has_lstm_weights),
)
SVDF = Kernel(
    "tc_svdf_f32",
    offered(lower_svdf, cost=CountedCost("tc_svdf_f32", of_filters, flash=svdf_bytes, fetched="product")),
    when=(in_float32, has_svdf_weights),
)
