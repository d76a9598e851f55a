# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: the machine for a board, and the type of the `build` fixture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.run import Target, find_target
from tinyc.toolchain.compile import Firmware

Build = Callable[..., Firmware]


def target_for(board_name: str, emulator: str | None) -> Target:
    """The machine, or a skip that names what is missing."""
    try:
        return find_target(load_board(board_name), emulator)
    except TinycError as error:
        pytest.skip(error.message)
