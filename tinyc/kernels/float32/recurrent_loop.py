# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU in float32: all steps in one loop. Inputs as in ops/recurrent.py.

Of each row, one sum over x (its bias first) and one over the hidden state (the late bias first, else 0), each in order
by fma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from tinyc.base import float32
from tinyc.base.float32 import Floats
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Arg, Call, Const, In, Out, Params, Scratch, Struct
from tinyc.kernel.site import Site

T = TypeVar("T")

_X, _W, _B, _R, _LATE, _HIDDEN, _CELL = range(7)


def with_absent(rest: Sequence[T | None]) -> list[T | None]:
    """All inputs behind x: those that a node does not name at its end are absent."""
    return [*rest, *[None] * (_CELL - len(rest))]


def _late(r: Array, late: Array | None) -> Floats:
    """What the sums over the hidden state begin with."""
    begin = np.zeros(len(r), np.float32)
    if late is not None:
        begin[2::3] = late
    return begin


def ref(a: Any, x: Array, *rest: Array | None) -> tuple[Array, ...]:
    return (steps(a, x, *rest)[0],)


def steps(a: Any, x: Array, *rest: Array | None) -> tuple[Array, Array, Array]:
    """(y, hidden state and cell [U] after the step that is last in time)"""
    w, bias, r, late, hidden, cell = with_absent(rest)
    assert w is not None
    assert r is not None
    units, clip = r.shape[1], np.float32(getattr(a, "clip", 0.0))
    h, c = (np.zeros(units, np.float32) if state is None else state.reshape(-1) for state in (hidden, cell))
    firsts = np.broadcast_to(np.zeros(len(w), np.float32) if bias is None else bias, (len(x), len(w)))
    for k in range(w.shape[1]):
        firsts = float32.fma(x[:, k : k + 1], w[:, k], firsts)
    rows = []
    for first in firsts[::-1] if a.reverse else firsts:
        second = _late(r, late)
        for k in range(units):
            second = float32.fma(h[k], r[:, k], second)
        p, q = first.reshape(units, -1).T, second.reshape(units, -1).T
        if a.cell == "lstm":
            i, f, o = (float32.sigmoid(p[k] + q[k]) for k in (0, 1, 3))
            c = float32.fma(f, c, i * float32.tanh(p[2] + q[2]))
            c = np.clip(c, -clip, clip) if clip else c
            h = o * float32.tanh(c)
        else:
            z, reset = (float32.sigmoid(p[k] + q[k]) for k in (0, 1))
            n = float32.tanh(float32.fma(reset, q[2], p[2]))
            h = float32.fma(z, h - n, n)
        rows.append(h)
    return np.stack(rows[::-1] if a.reverse and a.sequence else rows if a.sequence else rows[-1:]), h, c


def _rows(site: Site) -> int:
    """Rows of weights, up to a multiple of four."""
    rows = site.x(_W).shape[0]
    return rows + -rows % 4


def scratch(site: Site, p: Any) -> int:
    """Both sums of every row, hidden state and cell."""
    return 4 * (2 * _rows(site) + 2 * site.x(_R).shape[1])


def lower(site: Site, p: Any) -> Call:
    """tc_recurrent_f32: all steps."""
    return Call((Params(), In(_X), *states_before(site), Out(), Scratch()), struct(site))


def states_before(site: Site, indices: Sequence[int] = (_HIDDEN, _CELL)) -> list[Arg]:
    """The states that a layer begins with, computed or constant; 0 of those that begin with zeros."""
    return [_state(site, index) if site.has(index) else 0 for index in indices]


def _state(site: Site, index: int) -> Arg:
    return Const(site.const(index), "[units]", "state") if site.is_const(index) else In(index)


def struct(site: Site) -> Struct:
    """The tc_recurrent_f32_t of a layer."""
    steps, in_c = site.x(_X).shape
    rows, units, back = _rows(site), site.x(_R).shape[1], site.attrs.reverse
    spare = (0, rows - site.x(_W).shape[0])
    late = _late(site.const(_R), site.const(_LATE) if site.has(_LATE) else None)
    bias = site.const(_B) if site.has(_B) else np.zeros(rows - spare[1], np.float32)
    blocks = [np.pad(site.const(k), (spare, (0, 0))).reshape(rows // 4, 4, -1).transpose(0, 2, 1) for k in (_W, _R)]
    fields: dict[str, int | float | str | Const] = {
        "w": Const(blocks[0], "[rows / 4][in_c][4]", "w"),
        "r": Const(blocks[1], "[rows / 4][units][4]", "r"),
        "bias": Const(np.pad(bias, spare), "[rows]", "bias"),
        "late": Const(np.pad(late, spare), "[rows]", "late") if late.any() else "0",
        "gates": site.x(_W).shape[0] // units,
        "steps": steps,
        "units": units,
        "in_c": in_c,
        "rows": rows,
        "x_first": (steps - 1) * in_c if back else 0,
        "x_step": -in_c if back else in_c,
        "y_first": (steps - 1) * units if back and site.attrs.sequence else 0,
        "y_step": (-units if back else units) if site.attrs.sequence else 0,
    }
    return Struct("tc_recurrent_f32_t", fields)


def of_units(site: Site, p: Any) -> Units:
    """Products, units and steps in time."""
    steps, units = site.x(_X).shape[0], site.x(_R).shape[1]
    return {"product": steps * (site.x(_W).elements + site.x(_R).elements), "unit": steps * units, "step": steps}


def weight_bytes(site: Site, p: Any) -> int:
    return site.const(_W).nbytes + site.const(_R).nbytes


def cost(name: str) -> CountedCost:
    """Of the kernel of that name."""
    return CountedCost(name, of_units, flash=weight_bytes, fetched="product")
