# SPDX-License-Identifier: Apache-2.0
"""How far input and output of a row kernel may overlap, against every distance tried byte by byte."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.ops.one_node import one_node, tensor
from tests.unit.plan_problems import random_rows, with_way_across
from tinyc.base.numerics import Numerics
from tinyc.kernel.kernel import Across, Offer, Rows
from tinyc.kernel.site import Pair, Site
from tinyc.kernels.rows.conv import KERNELS
from tinyc.ops.conv2d import Conv2D, prepare
from tinyc.plan.problem import SlidingInput
from tinyc.plan.replay import InvalidPlanError, _Arena, _walk
from tinyc.plan.slide import slide_of


def legal(rows: Rows, distance: int, bottom_up: bool) -> bool:
    """Whether the output may start `distance` bytes after the input: no call destroys a byte still needed."""
    starts = list(range(0, rows.out_h, rows.out_rows))
    if bottom_up:
        starts.reverse()
    needs = []
    for start in starts:
        needed = set()
        for r in range(start, min(start + rows.out_rows, rows.out_h)):
            for k in range(rows.k_h):
                i = r * rows.stride - rows.pad_top + k * rows.dilation
                if 0 <= i < rows.in_h:
                    needed |= set(range(i * rows.in_row_bytes, (i + 1) * rows.in_row_bytes))
        needs.append(needed)
    for n, start in enumerate(starts):
        end = min(start + rows.out_rows, rows.out_h)
        written = range(distance + start * rows.out_row_bytes, distance + end * rows.out_row_bytes)
        later = set().union(*needs[n + 1 :]) if rows.buffered else set().union(*needs[n:])
        if later.intersection(written):
            return False
    return True


@pytest.mark.parametrize("seed", range(300))
def test_closest_distances(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.randrange(1, 9), rng.randrange(1, 6))
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    slide = slide_of(rows)
    assert all(legal(rows, d, bottom_up=False) for d in range(-y - 1, slide.low + 1))
    assert all(legal(rows, d, bottom_up=True) for d in range(slide.high, x + 2))
    if slide.low < x:  # one byte closer is too close, unless rows that nobody reads lie between
        assert not legal(rows, slide.low + 1, bottom_up=False) or rows.stride > 1 or rows.dilation > 1
    if slide.high > -y:
        assert not legal(rows, slide.high - 1, bottom_up=True) or rows.stride > 1 or rows.dilation > 1


def accepted(rows: Rows, distance: int, bottom_up: bool) -> bool:
    """Whether the check of plans lets the output lie `distance` bytes after the input."""
    sizes = {("x", 0): rows.in_h * rows.in_row_bytes, ("y", 0): rows.out_h * rows.out_row_bytes}
    places = {("x", 0): max(0, -distance), ("y", 0): max(0, distance)}
    arena = _Arena(max(places[row] + sizes[row] for row in sizes), sizes, places)
    arena.claim(("x", 0), "the caller")
    try:
        _walk(arena, SlidingInput("x", rows, False), ("y", 0), "step", bottom_up)
    except InvalidPlanError:
        return False
    return True


@pytest.mark.parametrize("seed", range(60))
def test_the_check_of_plans_takes_every_distance_that_destroys_nothing_and_no_other(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.randrange(1, 9), rng.randrange(1, 6))
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    for bottom_up in (False, True):
        for distance in range(-y - 1, x + 2):
            assert accepted(rows, distance, bottom_up) == legal(rows, distance, bottom_up), (distance, bottom_up)


@pytest.mark.parametrize("seed", range(50))
def test_a_kernel_that_goes_forward_by_itself_never_runs_bottom_up(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.randrange(1, 9), rng.randrange(1, 6))
    forward, both = slide_of(rows, forward=True), slide_of(rows)
    assert forward.low == both.low
    assert forward.high == rows.in_h * rows.in_row_bytes


@pytest.mark.parametrize("seed", range(100))
def test_extent_is_the_shortest_union(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.randrange(1, 9), rng.randrange(1, 6))
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    slide = slide_of(rows)
    unions = [max(x, d + y) - min(0, d) for d in range(-x - y, x + y) if d <= slide.low or d >= slide.high]
    assert slide.extent(x, y) == min(unions)


def legal_along(rows: Rows, distance: int) -> bool:
    """As `legal`, of a call that goes along its rows: what it has not read yet must be there."""
    across = rows.across
    assert across is not None
    in_w, out_w = rows.in_row_bytes // across.in_step, rows.out_row_bytes // across.out_step
    events: list[tuple[str, set[int]]] = []
    for start in range(0, rows.out_h, rows.out_rows):
        rows_of_call = range(start, min(start + rows.out_rows, rows.out_h))
        taps = {r * rows.stride - rows.pad_top + k * rows.dilation for r in rows_of_call for k in range(rows.k_h)}
        inside = [i for i in taps if 0 <= i < rows.in_h]
        window = range(min(inside), max(inside) + 1) if inside else range(0)
        columns_read = 0
        for left in range(0, out_w, across.columns):
            until = min(in_w, across.ahead + left * across.stride)
            fresh = range(columns_read * across.in_step, until * across.in_step)
            events.append(("read", {i * rows.in_row_bytes + j for i in window for j in fresh}))
            columns_read = max(columns_read, until)
            span = range(left * across.out_step, min(left + across.columns, out_w) * across.out_step)
            events.append(("write", {distance + r * rows.out_row_bytes + b for r in rows_of_call for b in span}))
        rest = range(columns_read * across.in_step, rows.in_row_bytes)  # it may look at them as well
        events.append(("read", {i * rows.in_row_bytes + j for i in window for j in rest}))
    gone: set[int] = set()
    for kind, places in events:
        if kind == "write":
            gone |= places
        elif gone & places:
            return False
    return True


@pytest.mark.parametrize("seed", range(200))
def test_every_distance_of_a_call_that_goes_along_its_rows(seed: int) -> None:
    rng = random.Random(seed)
    rows = with_way_across(rng, random_rows(rng, rng.randrange(1, 7), rng.choice([1, 2, 4, 6])))
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    slide = slide_of(rows, forward=True)
    allowed = [d for d in range(-y - 2, x + 3) if not any(low < d < high for low, high in slide.forbidden)]
    told = [d for d in range(-y - 2, x + 3) if legal_along(rows, d)]
    if rows.stride == rows.dilation == 1:
        assert allowed == told
    assert set(allowed) <= set(told)
    assert slide.extent(x, y) == min(max(x, d + y) - min(0, d) for d in allowed)


def test_tiles_of_four_by_four_trail_their_reading_by_one_row() -> None:
    """3x3, 32x32x16: output one row up is read already, though a call takes six rows; two and a half rows up is not."""
    across = Across(columns=8, ahead=9, stride=1, in_step=16, out_step=16)
    rows = Rows(32, 32, 3, 1, 1, 1, 512, 512, None, out_rows=4, across=across)
    slide = slide_of(rows, forward=True)
    assert slide.extent(16384, 16384) == 16384 + 512
    assert any(low <= -512 <= high for low, high in slide.islands)
    assert any(low < -1280 < high for low, high in slide.forbidden)


def test_three_rows_of_window_keep_two_rows_apart() -> None:
    rows = Rows(25, 25, 3, 1, 1, 1, 320, 320, None)
    assert (slide_of(rows).low, slide_of(rows).high) == (-640, 640)


def test_a_buffered_pixel_kernel_works_in_place() -> None:
    rows = Rows(125, 125, 1, 1, 0, 1, 64, 64, None, out_rows=2, buffered=True)
    assert slide_of(rows, forward=True).low >= 0


def test_windows_that_overlap_along_a_row_keep_what_the_next_pair_reads() -> None:
    """A one-dimensional convolution of 256 taps at steps of 128: its second pair reads from byte 256 on."""
    x, w = tensor("x", (1, 1, 640, 1), 0.1, 3), tensor("w", (258, 1, 256, 1), 0.01)
    ones = {"w": np.ones((258, 1, 256, 1), np.int8)}
    graph = one_node("conv2d", Conv2D(stride=Pair(1, 128)), [x, w, None], 1.0, 0, ones)
    site = Site(graph, graph.nodes[0], Numerics.OURS)
    flows = [kernel.offer(site, prepare(site)) for kernel in KERNELS[:2]]
    rows = [flow.call().flow for flow in flows if isinstance(flow, Offer)]
    assert rows
    for flow in rows:
        assert flow is not None
        slide = slide_of(flow, forward=True)
        assert slide.low == 256 - 2 * 258
        assert legal(flow, slide.low, bottom_up=False)
        assert not legal(flow, slide.low + 1, bottom_up=False)
