"""How far input and output of a row kernel may overlap, against every distance tried byte by byte."""

from __future__ import annotations

import random

import pytest

from tests.unit.plan_problems import random_rows
from tinyc.kernels import Rows
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


def test_three_rows_of_window_keep_two_rows_apart() -> None:
    rows = Rows(25, 25, 3, 1, 1, 1, 320, 320, None)
    assert (slide_of(rows).low, slide_of(rows).high) == (-640, 640)


def test_a_buffered_pixel_kernel_works_in_place() -> None:
    rows = Rows(125, 125, 1, 1, 0, 1, 64, 64, None, out_rows=2, buffered=True)
    assert slide_of(rows, forward=True).low >= 0
