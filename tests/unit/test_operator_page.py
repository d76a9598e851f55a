# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md says what the code says, and the reading of importers finds what they emit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyc.explain.operator_page import condition_text, emitted_by, operator_page
from tinyc.load.onnx.every import IMPORTERS as ONNX
from tinyc.load.onnx.every import LEARNING, RUNTIME
from tinyc.load.tflite_ops import IMPORTERS as TFLITE
from tinyc.ops import all_ops

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == operator_page(), "run `make docs`"


@pytest.mark.parametrize(
    ("foreign", "operators"),
    [
        ("Conv", {"conv2d", "depthwise_conv2d"}),
        ("Add", {"add", "choose"}),
        ("Sub", {"add", "sub"}),
        ("Mul", {"mul"}),
        ("Max", {"reshape", "clip", "extremum"}),
        ("HardSigmoid", {"mul", "add", "clip"}),
        ("Softmax", {"softmax", "reshape", "transpose"}),
    ],
)
def test_onnx_importers(foreign: str, operators: set[str]) -> None:
    assert set(emitted_by(ONNX[foreign], foreign)) == operators


@pytest.mark.parametrize(
    ("foreign", "operators"),
    [
        ("CONV_2D", ("conv2d",)),
        ("CONCATENATION", ("lookup", "concat", "clip")),
        ("QUANTIZE", ("quantize", "requantize")),
    ],
)
def test_tflite_importers(foreign: str, operators: tuple[str, ...]) -> None:
    assert set(emitted_by(TFLITE[foreign], foreign)) == set(operators)


def test_constants_only() -> None:
    assert emitted_by(TFLITE["SHAPE"], "SHAPE") == ()


@pytest.mark.parametrize("importers", [ONNX, LEARNING, RUNTIME, TFLITE], ids=["onnx", "learning", "runtime", "tflite"])
def test_every_importer_emits_known_operators(importers: dict) -> None:
    for foreign, importer in importers.items():
        assert set(emitted_by(importer, foreign)) <= all_ops().keys()


def test_every_condition_says_what_it_asks_for() -> None:
    conditions = [test for op in all_ops().values() for kernel in op.every_kernel for test in kernel.when]
    assert conditions
    for condition in conditions:
        assert condition.__doc__, f"{condition.__module__}.{condition.__name__} has no docstring"
        assert not condition_text(condition).endswith(".")
