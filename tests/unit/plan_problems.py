# SPDX-License-Identifier: Apache-2.0
"""Random planning problems of every kind that the planner knows; `tinyc/plan/instances.py` has bare rectangles."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tinyc.choose.select import Choice
from tinyc.kernel.kernel import Across, Cost, Rows
from tinyc.plan.blocks import Block, Layout, Member, conflicts
from tinyc.plan.buffers import buffers_of
from tinyc.plan.moves import Cut, Part
from tinyc.plan.placement import in_order, running_of
from tinyc.plan.problem import Form, Layer, Problem, SlidingInput, TensorRows


def layer(
    node: str,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    inplace: tuple[str, ...] = (),
    scratch_bytes: int = 0,
    sliding: SlidingInput | None = None,
) -> Layer:
    """A layer that runs whole, by no kernel."""
    form = Form(cast(Choice, None), None, Cost(0, 0, scratch_bytes), inplace, sliding=sliding)
    return Layer(node, reads, writes, None, (), (form,))


def changed(old: Layer, **changes: Any) -> Layer:
    """The layer with another form."""
    return replace(old, whole_forms=(replace(old.whole, **changes),))


def problem_of(
    layers: tuple[Layer, ...], sizes: Mapping[str, int], inputs: tuple[str, ...], outputs: tuple[str, ...], **more: Any
) -> Problem:
    """Layers that run whole; sizes: bytes of each tensor."""
    return Problem(layers, tensors_of(sizes), inputs, outputs, **{"scratch_unit": 16, **more})


def tensors_of(sizes: Mapping[str, int]) -> dict[str, TensorRows]:
    return {name: TensorRows(name, 1, size) for name, size in sizes.items()}


def sizes_of(problem: Problem) -> dict[str, int]:
    return {name: tensor.size for name, tensor in problem.tensors.items()}


def random_rows(rng: random.Random, in_h: int, in_row: int) -> Rows:
    """A row kernel over in_h rows: any window that fits, padding above and below, any row size out."""
    k_h, dilation, stride = rng.choice([1, 1, 2, 3, 5]), rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 2, 3])
    span = (k_h - 1) * dilation + 1
    pad_top = rng.randrange(span)
    pad_bottom = max(rng.randrange(span), span - in_h - pad_top)
    out_h = (in_h + pad_top + pad_bottom - span) // stride + 1
    out_row = rng.choice([in_row, in_row, rng.randrange(1, 9)])
    return Rows(
        in_h, out_h, k_h, stride, pad_top, dilation, in_row, out_row, None, rng.choice([1, 1, 2, 3]), rng.random() < 0.2
    )


def with_way_across(rng: random.Random, rows: Rows) -> Rows:
    """The same kernel, going along its rows by pieces: fewer or more columns at a time, read early or late."""
    in_step = rng.choice([n for n in range(1, rows.in_row_bytes + 1) if rows.in_row_bytes % n == 0])
    out_step = rng.choice([n for n in range(1, rows.out_row_bytes + 1) if rows.out_row_bytes % n == 0])
    ahead = rng.randrange(rows.in_row_bytes // in_step + 2)
    across = Across(rng.choice([1, 1, 2, 3]), ahead, rng.choice([1, 1, 2]), in_step, out_step)
    return replace(rows, across=across, buffered=False)


def random_problem(seed: int, tasks: int, width: int = 4, largest: int = 24, align: int = 4) -> Problem:
    """Tasks that read some of the `width` newest tensors: whole, in place, by rows, by rows in its own order,
    with scratch, with two outputs. Some inputs and tensors are never read, some are outputs of the model."""
    rng = random.Random(seed)
    sizes = {f"in{i}": rng.randrange(1, largest) for i in range(rng.choice([1, 1, 2]))}
    inputs = tuple(sizes)
    new_tasks = []
    for t in range(tasks):
        task, new = _random_task(rng, t, dict(sizes), width, largest)
        sizes |= new
        new_tasks.append(task)
    outputs = {name for name in sizes if rng.random() < 0.1} | {list(sizes)[-1]}
    views = {f"view of {name}": name for name in sizes if rng.random() < 0.2}
    lasting = tuple(name for name in sizes if name in outputs)
    units = {"unit": align, "scratch_unit": max(align, rng.choice([4, 16]))}
    return problem_of(tuple(new_tasks), sizes, inputs, lasting, views=views, **units)


def with_moves(problem: Problem, seed: int) -> Problem:
    """The same, and on its end joins (one of them of another join) and cuts, which are read and are outputs."""
    rng = random.Random(seed)
    sizes, tasks, joins = sizes_of(problem), list(problem.layers), {}
    free = [name for name in sizes if sizes[name] % problem.unit == 0]
    rng.shuffle(free)
    for number in range(rng.choice([1, 2, 3])):
        names = [free.pop() for _ in range(min(len(free), rng.choice([1, 2, 3])))]
        names += [f"join {number - 1}"] * (number == 2 and "join 1" in joins)
        if not names:
            break
        offsets = [sum(sizes[name] for name in names[:i]) for i in range(len(names))]
        join = f"join {number}"
        joins[join] = tuple(Part(name, offset) for name, offset in zip(names, offsets, strict=True))
        sizes[join] = sum(sizes[name] for name in names)
        tasks.insert(_ready(tasks, names, problem.inputs), layer(join, tuple(names), (join,)))
        if rng.random() < 0.7:
            sizes[f"of {join}"] = sizes[join]
            reads, allowed = rng.choice([((join, rng.choice(names)), ()), ((join,), ()), ((join,), (join,))])
            tasks.append(layer(f"t of {join}", reads, (f"of {join}",), allowed))
    parts = {part.name for join_parts in joins.values() for part in join_parts}
    tasks = [_without(task, parts) for task in tasks]
    cut = rng.choice([name for name in sizes if name not in joins])
    offset = rng.randrange(sizes[cut] // problem.unit + 1) * problem.unit % sizes[cut]
    outputs = (*problem.outputs, list(sizes)[-1])
    cuts = {"cut": Cut(cut, offset, rng.randrange(1, sizes[cut] - offset + 1))}
    outputs, tensors = tuple(dict.fromkeys(outputs)), tensors_of(sizes)
    return replace(problem, layers=tuple(tasks), tensors=tensors, joins=joins, cuts=cuts, outputs=outputs)


def without_sliding(problem: Problem) -> Problem:
    """The same as problems with rows have it: a layer that runs whole takes its input's place, or leaves it alone."""
    return replace(problem, layers=tuple(changed(task, sliding=None) for task in problem.layers))


def _ready(tasks: Sequence[Layer], names: Sequence[str], inputs: Sequence[str]) -> int:
    """Behind the last task that makes one of the tensors, and no earlier than any of them is read in place."""
    writers = [i for i, task in enumerate(tasks) if set(names) & set(task.writes)]
    return max(writers, default=-1) + 1


def _without(task: Layer, parts: set[str]) -> Layer:
    """No part of a join is given up to an output."""
    sliding = task.whole.sliding
    inplace = tuple(name for name in task.whole.inplace if name not in parts)
    return changed(task, inplace=inplace, sliding=None if sliding and sliding.tensor in parts else sliding)


def _random_task(
    rng: random.Random, t: int, sizes: dict[str, int], width: int, largest: int
) -> tuple[Layer, dict[str, int]]:
    near = list(sizes)[-width:]
    name, scratch = f"t{t}", rng.choice([0, 0, rng.randrange(1, largest)])
    kind = rng.choice(["whole", "whole", "inplace", "rows", "rows"])
    if kind == "rows":
        x = rng.choice(near)
        heights = [h for h in range(1, sizes[x] + 1) if sizes[x] % h == 0]
        in_h = rng.choice(heights)
        rows = random_rows(rng, in_h, sizes[x] // in_h)
        forward = rng.random() < 0.2
        if forward and t % 2:
            rows = with_way_across(random.Random(t), rows)
        task = layer(name, (x,), (name,), (), scratch, SlidingInput(x, rows, forward))  # node and tensor share a name
        return task, {name: rows.out_h * rows.out_row_bytes}
    reads = tuple(dict.fromkeys(rng.choice(near) for _ in range(rng.choice([1, 1, 2, 3]))))
    if kind == "inplace":
        size = min(sizes[x] for x in reads)
        allowed = tuple(x for x in reads if sizes[x] == size)
        return layer(name, reads, (name,), allowed, scratch), {name: size}
    new = {name: rng.randrange(1, largest)}
    if rng.random() < 0.1:
        new[f"{name} second"] = rng.randrange(1, largest)
    return layer(name, reads, tuple(new), (), scratch), new


def layout(problem: Problem, order: Sequence[int], merge: bool = True) -> Layout:
    """What is placed of layers that run whole in this order."""
    return buffers_of(running_of(problem, in_order(problem, order)), merge).layout


def rectangles(spans: Sequence[tuple[int, int, int]], align: int = 1) -> Layout:
    """The layout of (born, dies, size)."""
    blocks = tuple(Block((Member(f"b{i}", 0, s, b, d),), align) for i, (b, d, s) in enumerate(spans))
    return Layout(blocks, conflicts(blocks, {}))
