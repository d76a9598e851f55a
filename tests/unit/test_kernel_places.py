# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect` names files and lines of tinyc: there stands what it says. Those of a library: tests/package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyc.base.paths import runtime_dir
from tinyc.explain.places import places_of
from tinyc.ops import all_ops

ROOT = Path(__file__).resolve().parents[2]
UNNAMED = {"tc_pool2d_s16"}  # its offer is one expression beside the kernel's name


@pytest.mark.parametrize("name", sorted(all_ops()))
def test_every_kernel_names_its_functions(name: str) -> None:
    op = all_ops()[name]
    for kernel in op.every_kernel:
        places = places_of(op, kernel)
        assert {"meaning", "integers", "parameters"} & {place.part for place in places}
        own = [place for place in places if place.part not in ("meaning", "integers", "parameters")]
        assert own or kernel.name in UNNAMED, kernel.name
        for place in places:
            file = ROOT / place.file if place.line else runtime_dir() / place.file.removeprefix("runtime_c/")
            assert file.is_file()
            if place.line:
                assert file.read_text().splitlines()[place.line - 1].lstrip().startswith(("def ", "@"))
