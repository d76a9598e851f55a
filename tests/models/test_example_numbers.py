# SPDX-License-Identifier: Apache-2.0
"""The pages of the examples state what builds of them say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import example_numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accuracy", "colors"])
def test_the_page_says_what_the_build_does(name: str) -> None:
    """What the third page says, tests/frontend/test_listening.py holds to a build of its own."""
    stated = example_numbers.STATED[name]
    assert stated.stated() == stated.computed(), "run scripts/example_numbers.py"
