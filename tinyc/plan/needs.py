# SPDX-License-Identifier: Apache-2.0
"""How many bytes each step of an order needs with one kernel or another, without planning again.

What a step needs is its own affair: its kernel's scratch, and how far the output may overlap the input. What is alive
before and after it is the same for all kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph
from tinyc.plan.builder import Builder, Freedom
from tinyc.plan.live import Costs, costs_of, round_up, savings_of
from tinyc.plan.problem import Problem


class Needs:
    """Live bytes of the steps of `order` (names of nodes), layer by layer, rows sliding."""

    def __init__(self, graph: Graph, choices: Mapping[str, Choice], order: Sequence[str], fuse: bool = False) -> None:
        """`choices`: any kernels of the nodes. fuse: as in `Freedom`."""
        self._builder = Builder(graph, Freedom(slide=True, fuse=fuse))
        self._problem: Problem = self._builder.problem({node: (choice,) for node, choice in choices.items()})
        self._costs: Costs = costs_of(self._problem)
        self._tensors = {name: i for i, name in enumerate(self._problem.tensors)}
        self._task = {task.node: i for i, task in enumerate(self._problem.layers)}
        self._before: dict[str, tuple[int, int]] = {}  # live bytes, tasks done
        self._bytes: dict[tuple[str, int], int] = {}  # by id of the choice, which `_alive` keeps alive
        self._alive: list[Choice] = []
        live = self._costs.begin()
        self.floor = live
        done = 0
        for name in order:
            task = self._task[name]
            self._before[name] = live, done
            _, live = self._costs.step(live, done, task)
            done |= 1 << task
            self.floor = max(self.floor, live)

    def of(self, node: str, choice: Choice) -> int:
        """Bytes alive while `node` runs with `choice`, starts rounded up to the alignment; 0 if it does not run."""
        if node not in self._task:
            return 0
        key = (node, id(choice))
        if key not in self._bytes:
            self._bytes[key] = self._measure(node, choice)
            self._alive.append(choice)
        return self._bytes[key]

    def fits(self, node: str, choice: Choice, limit: int) -> bool:
        """Whether `of` is at most `limit`; most kernels need not be asked how far their output may overlap."""
        if node not in self._task:
            return True
        task = self._task[node]
        scratch = round_up(choice.offer.scratch_bytes, self._problem.unit)
        apart = self._before[node][0] + self._costs.written[task] + scratch
        return apart <= limit or self.of(node, choice) <= limit

    def _measure(self, node: str, choice: Choice) -> int:
        problem, costs, task = self._problem, self._costs, self._task[node]
        changed = self._builder.layer(self._builder.nodes[node], (choice,))
        live, done = self._before[node]
        left = ~(done | 1 << task)
        saved = [
            saving.bytes
            for saving in savings_of(problem, changed, self._tensors)
            if all(not costs.is_output[i] and not costs.readers[i] & left for i in saving.tensors)
        ]
        scratch = round_up(changed.whole.scratch_bytes, problem.unit)
        return live + costs.written[task] + scratch - max(saved, default=0)
