"""The estimate of waits for flash, on the toy firmware."""

from __future__ import annotations

from dataclasses import replace

import pytest
import toy
from machines import Build

from tinyc.board import load_board
from tinyc.run import OVERHEAD
from tinyc.run.flash_waits import flash_waits
from tinyc.run.unicorn import find_unicorn

INPUTS = toy.inputs(3)


def test_waits_of_the_toy(build: Build) -> None:
    board = load_board("nucleo-l4r5zi")
    target, timing = find_unicorn(board), board.flash_timing
    if target is None:
        pytest.skip("unicorn is not installed: pip install unicorn")
    assert timing is not None
    firmware = build("nucleo-l4r5zi", "gcc")
    waits = flash_waits(target, timing, firmware, INPUTS)
    assert set(waits) == {OVERHEAD, 0, 1, 2}
    assert all(cycles > 0 for cycles in waits.values())
    assert flash_waits(target, replace(timing, wait_states=0), firmware, INPUTS).keys() == waits.keys()
    assert not any(flash_waits(target, replace(timing, wait_states=0), firmware, INPUTS).values())
    without_caches = replace(timing, instruction_lines=0, data_lines=0)
    worse = flash_waits(target, without_caches, firmware, INPUTS)
    assert all(worse[step] > waits[step] for step in (0, 1, 2))
    # Everything is in large caches after the first inference.
    large = replace(timing, instruction_lines=4096, data_lines=4096)
    assert flash_waits(target, large, firmware, INPUTS) == flash_waits(target, large, firmware, INPUTS[:1])
