# SPDX-License-Identifier: Apache-2.0
"""Scatter with constant indices, and Compress: as what they move."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.moves import gather_places, joined_places
from tinyc.load.picking import picked
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.extremum import Extremum
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole

_REDUCTIONS = {"none": None, "add": Add(), "mul": Mul(), "max": Extremum(True), "min": Extremum(False)}


@imports("ScatterND")
def scatter_nd(s: OnnxStep) -> None:
    """Rows of x replaced: what PyTorch's assignment to a slice is exported as."""
    x, at = s.value(0), gather_places(s, s.constant(1))
    axes = at.shape[-1] if at.ndim else 0
    if not 1 <= axes <= len(x.shape) or s.value(2).shape != (*at.shape[:-1], *x.shape[axes:]):
        raise TinycError(f"{list(s.value(2).shape)} at indices {list(at.shape)} of {list(x.shape)}", s.where)
    _replace(s, x, axes, joined_places(s, x, [*np.moveaxis(at, -1, 0)]))


@imports("ScatterElements", "Scatter")
def scatter_elements(s: OnnxStep) -> None:
    """Constant indices: those of all elements in one axis."""
    x, at = s.value(0), gather_places(s, s.constant(1))
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    if at.ndim != len(x.shape) or s.value(2).shape != at.shape:
        raise TinycError(f"{list(s.value(2).shape)} at indices {list(at.shape)} of {list(x.shape)}", s.where)
    places = np.indices(at.shape)
    places[axis] = at
    _replace(s, x, len(x.shape), joined_places(s, x, [*places]))


def _replace(s: OnnxStep, x: Value, axes: int, rows: Array) -> None:
    """x whose first axes are joined, with those rows replaced by input 2, or combined with it, in order."""
    how, rows = s.node.text("reduction", "none"), rows.reshape(-1)
    rounds = _rounds(rows)
    if how not in _REDUCTIONS or (how == "none" and len(rounds) > 1):
        raise TinycError(f"reduction '{how}', and {len(rounds)} values for one element cannot be compiled", s.where)
    box = (x.shape[:axes], x.shape[axes:])
    done = s.reshape(x, (math.prod(box[0]), *box[1]), "old")
    every = s.reshape(s.value(2), (len(rows), *box[1]), "new")
    for places in rounds:
        new = s.insert([every], picked(every.shape, 0, places), "some") if len(rounds) > 1 else every
        if how != "none":
            there = s.insert([done], picked(done.shape, 0, [int(rows[k]) for k in places]), "there")
            new = s.insert([there, new], _REDUCTIONS[how], how)
        done = _replaced(s, done, new, rows[places], box)
    s.emit([done], Reshape(x.shape))


def _rounds(rows: Array) -> list[list[int]]:
    """Places of the list such that no round has a row twice: each row's first time, second time ..."""
    rounds: list[list[int]] = []
    times: Counter[int] = Counter()
    for place, row in enumerate(rows):
        if times[row] == len(rounds):
            rounds.append([])
        rounds[times[row]].append(place)
        times[row] += 1
    return rounds


def _replaced(s: OnnxStep, old: Value, new: Value, rows: Array, axes: tuple[Shape, Shape]) -> Value:
    """old [P,...] with other rows. axes: those that are joined to P, and the others."""
    box = _box(rows, axes[0])
    if box is not None:
        whole_x = s.reshape(old, (*axes[0], *axes[1]), "apart")
        return s.reshape(_inside(s, whole_x, new, box + [(0, n) for n in axes[1]]), old.shape, "joined")
    order = np.arange(old.shape[0])
    order[rows] = old.shape[0] + np.arange(len(rows))
    both = s.insert([old, new], Concat(0), "both")
    return s.insert([both], picked(both.shape, 0, [int(k) for k in order]), "replaced")


def _box(rows: Array, shape: Shape) -> list[tuple[int, int]] | None:
    """(begin, size) of each axis if the rows are all those of a part of it, in order."""
    if not rows.size:
        return None
    places = np.unravel_index(rows, shape)
    box = [(int(at.min()), int(at.max() - at.min()) + 1) for at in places]
    inside = np.arange(math.prod(shape)).reshape(shape)[tuple(slice(b, b + n) for b, n in box)]
    return box if np.array_equal(inside.reshape(-1), rows) else None


def _inside(s: OnnxStep, x: Value, new: Value, box: list[tuple[int, int]]) -> Value:
    """x with a part replaced: what is before it, it, and what is behind it, axis by axis."""
    for axis, (begin, size) in enumerate(box):
        count = x.shape[axis]
        if size < count:
            middle = s.insert([x], whole(x.shape, axis, begin, size), "part")
            box = [*box[:axis], (0, size), *box[axis + 1 :]]
            spans = ((0, begin), (begin + size, count - begin - size))
            before, after = ([s.insert([x], whole(x.shape, axis, b, n), "kept")] if n else [] for b, n in spans)
            return s.insert([*before, _inside(s, middle, new, box), *after], Concat(axis), "replaced")
    return s.reshape(new, x.shape, "new")


@imports("Compress")
def compress(s: OnnxStep) -> None:
    """By a constant condition."""
    x, taken = s.value(0), s.constant(1)
    if taken is None:
        raise TinycError("how many elements it takes is computed from the data", s.where)
    flat = len(x.shape)  # no axis: where the node names none
    given = s.node.int_("axis", flat)
    axis = 0 if given == flat else s.axis(given, flat)
    x = s.reshape(x, (x.elements,), "flat") if given == flat else x
    try:
        s.emit([x], picked(x.shape, axis, [int(k) for k in np.flatnonzero(taken.reshape(-1))]))
    except ValueError as e:
        raise TinycError(str(e), s.where) from e
