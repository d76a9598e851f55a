# SPDX-License-Identifier: Apache-2.0
"""Published int8 models as Python functions: what is generated for a board gives TensorFlow Lite Micro's bytes here.

The kernels that the compiler writes in a core's assembly run as their twins in C, under the board's own arena plan,
with outputs over the inputs that they use up.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tinyc
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

QUICK = [  # model, inputs, reference outputs
    ("kws", "kws_inputs_dev", "kws_dev_ref_outputs"),
    ("sww", "sww_inputs_dev", "sww_dev_ref_outputs"),
    ("ad", "ad_inputs_dev", "ad_dev_ref_outputs"),
]
LONG = [
    ("ic", "ic_inputs_synthetic", "ic_synthetic_ref_outputs"),
    ("vww", "vww_inputs_synthetic", "vww_synthetic_ref_outputs"),
]
BOARDS = ["host", "cortex-m4", "cortex-m0plus"]
RUNS = [
    *((*QUICK[0], board) for board in BOARDS),
    *((*model, board) for model, board in zip([*QUICK[1:], LONG[1]], (*BOARDS[1:], "host"), strict=True)),
    pytest.param(*LONG[0], "host", marks=pytest.mark.slow),  # as long as all others together
    *(pytest.param(*model, board, marks=pytest.mark.slow) for model in LONG for board in BOARDS[1:]),
    *(
        pytest.param(*model, board, marks=pytest.mark.slow)
        for model, quick in zip(QUICK[1:], BOARDS[1:], strict=True)
        for board in BOARDS
        if board != quick
    ),
]


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(("model", "inputs", "outputs", "board"), RUNS)
def test_bytes(models_dir: Path, tmp_path: Path, model: str, inputs: str, outputs: str, board: str) -> None:
    folder = models_dir / "mlperf_tiny"
    compiled = compile_model(
        folder / f"{model}_int8.tflite", load_board(board), Options(board, flash=1 << 20), Progress()
    )
    for name, text in compiled.files.items():
        (tmp_path / name).write_text(text)
    library = tinyc.load(tmp_path, "balanced")
    with np.load(folder / f"{inputs}.npz") as given, np.load(folder / f"{outputs}.npz") as reference:
        x = given["x"].reshape(-1, *library.inputs[0].sample_shape)
        np.testing.assert_array_equal(library(x).reshape(len(x), -1), reference["int8_tflm"].reshape(len(x), -1))
