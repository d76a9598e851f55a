# SPDX-License-Identifier: Apache-2.0
"""The words of a function on its stack."""

from __future__ import annotations

import pytest

from tinyc.machine.frame import SAVED, Frame


@pytest.mark.parametrize("saved", [SAVED, 8, 5, 2])
@pytest.mark.parametrize("above", [0, 4, 12])
@pytest.mark.parametrize("below", [0, 4, 8])
@pytest.mark.parametrize("count", range(4))
def test_the_stack_pointer_stays_a_multiple_of_8(count: int, below: int, above: int, saved: int) -> None:
    frame = Frame([f"w{i}" for i in range(count)], below, above, saved)
    assert (frame.size + 4 * saved) % 8 == 0
    assert 0 <= frame.size - (below + 4 * count + above) < 8


def test_words_lie_one_after_the_other_between_what_is_below_and_above() -> None:
    frame = Frame(["a", "b"], below=8, above=20)
    assert [frame.place(name) for name in "ab"] == [8, 12]
    assert (frame.at("b"), frame.top) == ("[sp, #12]", 16)
    assert Frame(["a"]).at("a") == "[sp]"
