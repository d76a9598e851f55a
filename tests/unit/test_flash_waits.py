# SPDX-License-Identifier: Apache-2.0
"""The estimate of waits for slow flash, on sequences counted by hand."""

from __future__ import annotations

from tinyc.board.instruction_set import THUMB
from tinyc.board.parts import FlashTiming
from tinyc.run.base import OVERHEAD
from tinyc.run.flash_waits import FlashWatch, LineCache
from tinyc.run.trace import TracePlan

# Words of 8 bytes, lines of 32: four words a line; two lines of code, one of data.
TIMING = FlashTiming(wait_states=5, word_bytes=8, line_bytes=32, instruction_lines=2, data_lines=1)
PLAN = TracePlan(
    run_start=0, run_end=64, run_return=0x1000, steps=((3, 64),), step_count=4, limit=0, widths=THUMB.widths
)


def watch(timing: FlashTiming = TIMING) -> FlashWatch:
    watching = FlashWatch(timing, PLAN)
    watching.block(0, 2)  # enters the model: one word of the run function
    assert watching.waits == {OVERHEAD: timing.wait_states}
    watching.waits.clear()
    return watching


def test_a_cache_keeps_words_and_drops_the_oldest_line() -> None:
    cache = LineCache.of(2, TIMING)
    assert [cache.miss(word) for word in (0, 0, 1, 4, 4, 0)] == [True, False, True, True, False, False]
    assert cache.miss(8)  # a third line: the one of word 4 goes, word 0 was used after it
    assert not cache.miss(1)
    assert cache.miss(4)


def test_without_a_cache_everything_is_fetched() -> None:
    cache = LineCache.of(0, TIMING)
    assert [cache.miss(0) for _ in range(3)] == [True, True, True]


def test_a_loop_that_fits_waits_once() -> None:
    watching = watch()
    for _ in range(10):
        watching.block(64, 32)  # four words
    assert watching.waits == {3: 20}


def test_a_loop_that_does_not_fit_waits_every_time() -> None:
    watching = watch()
    for _ in range(10):
        watching.block(64, 96)  # three lines, two are there
    assert watching.waits == {3: 10 * 12 * 5}


def test_a_piece_that_begins_and_ends_inside_words() -> None:
    watching = watch()
    watching.block(64 + 6, 4)
    assert watching.waits == {OVERHEAD: 10}


def test_prefetch_hides_what_follows() -> None:
    watching = watch(FlashTiming(5, 8, 32, 2, 1, prefetch=True))
    watching.block(64, 32)
    assert watching.waits == {3: 5 + 3 * 3}  # 8 bytes of code keep the core busy for 2 cycles
    wide = watch(FlashTiming(5, 16, 32, 2, 1, prefetch=True))
    wide.block(64, 32)
    assert wide.waits == {3: 5}


def test_data_has_its_own_cache() -> None:
    watching = watch()
    watching.block(64, 8)
    for address in (0x100, 0x104, 0x108, 0x11C, 0x120, 0x100):
        watching.read(address, 4)
    # Words 0x100, 0x108, 0x118 and 0x120, and 0x100 again, whose line had to go.
    assert watching.waits == {3: 5 + 5 * 5}
    watching.read(0x106, 4)  # over the end of a word: 0x100 is there, 0x108 has gone with its line
    assert watching.waits == {3: 5 + 6 * 5}


def test_nothing_counts_outside_the_model() -> None:
    watching = watch()
    watching.block(0x1000, 64)
    watching.read(0x100, 4)
    watching.block(64, 64)
    assert not watching.waits
