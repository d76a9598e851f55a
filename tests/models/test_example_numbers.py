# SPDX-License-Identifier: Apache-2.0
"""The example's page states what a build of it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import example_numbers


@pytest.mark.slow
def test_the_page_says_what_the_build_does() -> None:
    (stated,) = example_numbers.ROW.findall(example_numbers.PAGE.read_text(encoding="utf-8"))
    assert stated == example_numbers.row(), "run scripts/example_numbers.py"
