# SPDX-License-Identifier: Apache-2.0
"""A function that a cost counts once for several layers is one function in the library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path

import pytest

from tinyc.board import load_board
from tinyc.choose.select import Choice
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import forms_of
from tinyc.pipeline.progress import Progress


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("board", ["cortex-m33", "cortex-m7", "cortex-m4"])
@pytest.mark.parametrize("model", ["mlperf_tiny/vww", "zoo/person_detect", "mlperf_tiny/ad"])
def test_layers_with_the_same_code_have_the_same_text(models_dir: Path, board: str, model: str) -> None:
    """How often a layer runs a part of a function decides the order of its instructions, where nothing is done about
    it."""
    target, options = load_board(board), Options(board)
    integers = make_integers(models_dir / f"{model}_int8.tflite", target, options, Progress())
    sharing: dict[Hashable, list[Choice]] = defaultdict(list)
    for choices in forms_of(integers, target, options, Progress())[0].choices.values():
        for choice in choices:
            if choice.cost.code is not None and choice.kernel.written:
                sharing[choice.cost.code.key].append(choice)
    several = [own for own in sharing.values() if len(own) > 1]
    assert several
    for own in several:
        names = {choice.offer.special().name for choice in own if choice.offer.special is not None}
        assert len(names) == 1, names
