# SPDX-License-Identifier: Apache-2.0
"""Which layers make and read a tensor, and which of their turns its rows: found once for all groups of a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.plan.problem import Layer, Problem, TensorRows

Ints = npt.NDArray[np.int64]
Tensors = Mapping[str, TensorRows]


@dataclass(frozen=True, slots=True)
class Access:
    """The turns of a layer by rows. A row that no turn makes or reads has the number after the last turn."""

    turns: int
    written_in: Ints  # of each row that it writes, the turn
    read: Ints  # of each row that it reads, the last turn
    first_read: Ints  # of each row that it reads, the first turn that reads it or a later row
    reach: Ints  # of each turn, one past the last row that it reads
    needed: Ints  # of each number of rows that it writes, how many turns make them
    tops: Ints  # of each turn, the rows read in whose place those made may be; -1: there is none
    inplace: tuple[tuple[str, ...], ...]  # what its forms allow


@dataclass(frozen=True, slots=True)
class Uses:
    """Of each tensor: the layer that makes it (-1: a model input), the first, the last and all that read it.

    last is the number of layers for outputs of the model. A tensor that nobody reads: first and last are its maker.
    sources: of each layer, the layers that make what it reads, in that order. crossing: tensors that are made before a
    layer, and read by it or after it. access: of each layer; None: it has no rows.
    """

    maker: Mapping[str, int]
    first: Mapping[str, int]
    last: Mapping[str, int]
    readers: Mapping[str, Sequence[int]]
    sources: Sequence[Sequence[int]]
    crossing: Sequence[Sequence[str]]
    access: Sequence[Access | None]

    def is_inside(self, name: str, start: int, stop: int) -> bool:
        """Whether a tensor is made and used up within layers [start, stop)."""
        return start <= self.maker[name] and self.last[name] < stop


def uses_of(problem: Problem) -> Uses:
    """Makers and readers of every tensor of the problem."""
    count = len(problem.layers)
    maker = dict.fromkeys(problem.inputs, -1)
    maker |= {name: i for i, layer in enumerate(problem.layers) for name in layer.writes}
    readers: dict[str, list[int]] = {name: [] for name in maker}
    for i, layer in enumerate(problem.layers):
        for name in layer.reads:
            readers[name].append(i)
    ends = {name: max(number, 0) for name, number in maker.items()}
    last = ends | {name: own[-1] for name, own in readers.items() if own} | dict.fromkeys(problem.outputs, count)
    crossing: list[list[str]] = [[] for _ in range(max(count, 1))]  # inputs are there where nothing runs, too
    for name, index in maker.items():
        for place in range(index + 1, min(last[name] + 1, len(crossing))):
            crossing[place].append(name)
    return Uses(
        maker=maker,
        first=ends | {name: own[0] for name, own in readers.items() if own},
        last=last,
        readers=readers,
        sources=[[maker[name] for name in layer.reads if maker[name] >= 0] for layer in problem.layers],
        crossing=crossing,
        access=[access_of(layer, problem.tensors) for layer in problem.layers],
    )


def access_of(layer: Layer, tensors: Tensors) -> Access | None:
    """What the turns of the layer's walk make and read; None without one."""
    walk = layer.walk
    if walk is None:
        return None
    in_rows, out_rows = tensors[layer.reads[0]].rows, tensors[layer.writes[0]].rows
    written_in, read = np.full(out_rows, walk.turns), np.full(in_rows, walk.turns)
    tops = np.full((walk.turns, walk.rows), -1)
    for turn, rows in enumerate(walk.needs):
        written = walk.output_rows(turn)
        written_in[list(written)] = turn
        read[list(rows)] = turn
        top = rows[: len(written)]
        tops[turn, : len(top)] = top
    reach = np.array([max(rows, default=-1) + 1 for rows in walk.needs])
    return Access(
        turns=walk.turns,
        written_in=written_in,
        read=read,
        first_read=np.searchsorted(np.maximum.accumulate(reach), np.arange(in_rows), side="right"),
        reach=reach,
        needed=np.array([walk.turns_for(rows) for rows in range(out_rows + 1)]),
        tops=tops,
        inplace=tuple({form.inplace: None for form in layer.row_forms if form.inplace}),
    )
