# SPDX-License-Identifier: Apache-2.0
"""scripts/house_measures.py: what it counts, where a wrong count would not be seen."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import house_measures as house

from tinyc.ir.graph import Node, Value
from tinyc.kernel.site import Site


def test_names_are_not_words_of_comments_strings_or_other_names() -> None:
    text = "found = 1  # found\nx.found(found_here, 'found')\n"
    assert house.names({"a.py": text, "b.py": "found\n"})["found"] == 3


def test_entered_files_are_told_by_what_they_get() -> None:
    entered, file = house.Entered(stage="select"), f"{house.PACKAGE}/kernels/sum.py"

    def call(place: str, /, **given: Any) -> None:
        code = SimpleNamespace(co_filename=place, co_varnames=tuple(given), co_argcount=len(given), co_name="f")
        entered.see(SimpleNamespace(f_code=code, f_locals=given), "call", None)  # type: ignore[arg-type]

    call("/usr/lib/python/json.py", w=np.zeros(house.WEIGHTS))
    call(file, w=np.zeros(8), name="other")
    assert (dict(entered.all), entered.weight, entered.activation) == ({"select": {"kernels/sum.py"}}, set(), set())
    call(file, w=np.zeros(house.WEIGHTS), name=f"{house.ACTIVATION}:moved")
    assert (entered.weight, entered.activation, entered.layer) == ({"kernels/sum.py"}, {"kernels/sum.py"}, set())


def test_objects_without_fields_are_entered_too() -> None:
    entered = house.Entered()
    for kind in (Value, Node, Site):
        entered._argument("ir/graph.py", object.__new__(kind))
    assert not entered.weight | entered.layer | entered.activation


def test_a_compile_of_the_example_can_be_followed() -> None:
    measures = list(house.traced())
    everywhere, in_select, *seen = (measure.today for measure in measures[:-1])
    assert len(seen) == 3
    assert all(0 < files <= everywhere for files in (in_select, *seen))
    assert measures[-1].today > 0


def test_operators_tell_what_they_have() -> None:
    assert all(measure.today > 0 for measure in house.of_operators() if measure.goal != 0)
