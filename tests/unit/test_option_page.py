# SPDX-License-Identifier: Apache-2.0
"""What is printed from the declarations of options says what they say."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from tinyc.explain.option_page import keyword_types, option_page
from tinyc.options.build import Options
from tinyc.options.keywords import LibraryOptions, LimitedOptions, ProofOptions
from tinyc.options.option import keyword_of
from tinyc.options.recipe import Pictures, Recipe
from tinyc.sweep.job import setting_kinds

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "text"), [("docs/options.md", option_page), ("tinyc/options/keywords.py", keyword_types)]
)
def test_the_file_is_as_printed(name: str, text: object) -> None:
    assert callable(text)
    assert (ROOT / name).read_text(encoding="utf-8") == text(), "run `make docs`"


def test_every_keyword_is_an_option() -> None:
    keywords = {keyword_of(each) for kind in (Options, Recipe, Pictures) for each in fields(kind)}
    assert LibraryOptions.__annotations__.keys() < ProofOptions.__annotations__.keys()
    assert ProofOptions.__annotations__.keys() < LimitedOptions.__annotations__.keys() <= keywords


def test_a_sweep_varies_whatever_a_value_of_a_file_can_say() -> None:
    names = setting_kinds().keys()
    assert {"precision", "outputs", "float_layers", "prefer", "calibration_method", "equalize", "numerics"} <= names
    assert not {"board", "calibration", "recipe", "wav", "proof", "like", "state"} & names
