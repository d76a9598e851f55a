"""Random planning problems of every kind that the planner knows; `tinyc/plan/instances.py` has bare rectangles."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tinyc.kernels import Rows
from tinyc.plan.lifetimes import Block, Layout, Member, conflicts
from tinyc.plan.problem import Problem, Task


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


def random_problem(seed: int, tasks: int, width: int = 4, largest: int = 24, align: int = 4) -> Problem:
    """Tasks that read some of the `width` newest tensors: whole, in place, by rows, by rows in its own order,
    with scratch, with two outputs. Some inputs and tensors are never read, some are outputs of the model."""
    rng = random.Random(seed)
    sizes = {f"in{i}": rng.randrange(1, largest) for i in range(rng.choice([1, 1, 2]))}
    inputs = tuple(sizes)
    made = []
    for t in range(tasks):
        task, new = _random_task(rng, t, dict(sizes), width, largest)
        sizes |= new
        made.append(task)
    outputs = {name for name in sizes if rng.random() < 0.1} | {list(sizes)[-1]}
    views = {f"view of {name}": name for name in sizes if rng.random() < 0.2}
    kept = tuple(name for name in sizes if name in outputs)
    return Problem(tuple(made), sizes, inputs, kept, views, align, max(align, rng.choice([4, 16])))


def _random_task(
    rng: random.Random, t: int, sizes: dict[str, int], width: int, largest: int
) -> tuple[Task, dict[str, int]]:
    near = list(sizes)[-width:]
    name, scratch = f"t{t}", rng.choice([0, 0, rng.randrange(1, largest)])
    kind = rng.choice(["whole", "whole", "inplace", "rows", "rows"])
    if kind == "rows":
        x = rng.choice(near)
        heights = [h for h in range(1, sizes[x] + 1) if sizes[x] % h == 0]
        in_h = rng.choice(heights)
        rows = random_rows(rng, in_h, sizes[x] // in_h)
        task = Task(name, (x,), (name,), (), scratch, rows, x, rng.random() < 0.2)  # node and tensor share a name
        return task, {name: rows.out_h * rows.out_row_bytes}
    reads = tuple(dict.fromkeys(rng.choice(near) for _ in range(rng.choice([1, 1, 2, 3]))))
    if kind == "inplace":
        size = min(sizes[x] for x in reads)
        allowed = tuple(x for x in reads if sizes[x] == size)
        return Task(name, reads, (name,), allowed, scratch), {name: size}
    new = {name: rng.randrange(1, largest)}
    if rng.random() < 0.1:
        new[f"{name} second"] = rng.randrange(1, largest)
    return Task(name, reads, tuple(new), (), scratch), new


def rectangles(spans: Sequence[tuple[int, int, int]], align: int = 1) -> Layout:
    """The layout of (born, dies, size)."""
    blocks = tuple(Block((Member(f"b{i}", 0, s, b, d),), align) for i, (b, d, s) in enumerate(spans))
    return Layout(blocks, conflicts(blocks, {}))
