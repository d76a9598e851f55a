# SPDX-License-Identifier: Apache-2.0
"""ONNX Attention in float beside ONNX Runtime: `imported` asserts equality."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import build, imported, load, op, ops_of
from tinyc.base.errors import TinycError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import onnx_conformance as conformance

SPLIT = {"q": [1, 2, 5, 4], "k": [1, 2, 7, 4], "v": [1, 2, 7, 6]}
FLAT = {"q": [1, 5, 8], "k": [1, 7, 8], "v": [1, 7, 12]}
GROUPS = {"q": [1, 4, 5, 4], "k": [1, 2, 7, 4], "v": [1, 2, 7, 6]}
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}
BOOLS = np.random.default_rng(1).integers(0, 2, (5, 7)) > 0
BOOLS[:, 0] = True
MASKS = {
    "bool": BOOLS,
    "far": np.where(BOOLS, 0, -3e38).astype(np.float32),
    "near": np.where(BOOLS, 0.5, -1).astype(np.float32),
}


def model(inputs, constants=None, **attributes):
    given = "q k v m" if constants else "q k v"
    return build([op("Attention", given, "y", **attributes)], inputs, ["y"], constants, opset=23, ir_version=11)


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        (SPLIT, {}),
        (FLAT, HEADS),
        (SPLIT, {"scale": 0.3}),
        (GROUPS, {}),
        (SPLIT, {"is_causal": 1}),
        (GROUPS, {"is_causal": 1}),
        (SPLIT, {"softcap": 2.0}),
    ],
)
def test_is_onnxruntimes(inputs, attributes, tmp_path):
    assert "softmax" in ops_of(imported(model(inputs, **attributes), tmp_path))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("inputs", [SPLIT, GROUPS])
def test_masks(inputs, mask, tmp_path):
    imported(model(inputs, {"m": MASKS[mask]}), tmp_path)


def test_cases_of_the_onnx_package():
    """Keys and values of before, windows, scores as an output, queries that see no key."""
    names = (
        *("4d_with_past_and_present_qk_matmul_bias_4d_mask", "3d_with_past_and_present_qk_matmul_softcap"),
        *("local_window_with_past", "4d_causal_nonpad_batch_prefill", "23_fullymasked_qk_matmul_output_mode3_zero"),
        *("4d_gqa_with_past_and_present", "causal_boolmask_nan_robustness", "4d_causal_with_past_and_present"),
    )
    results = conformance.run_all(conformance.chosen(f"^test_attention_({'|'.join(names)})$", ["attention"]))
    assert {result.name for result in results} == {f"test_attention_{name}" for name in names}
    assert {result.way for result in results} <= {"exact", "float32"}, results


@pytest.mark.parametrize(
    ("inputs", "constants", "attributes", "message"),
    [
        (FLAT, None, {}, "q_num_heads 0"),
        ({**SPLIT, "k": [1, 2, 7, 3]}, None, {}, "do not fit"),
    ],
)
def test_refused(inputs, constants, attributes, message, tmp_path):
    with pytest.raises(TinycError, match=message):
        load(model(inputs, constants, **attributes), tmp_path)
