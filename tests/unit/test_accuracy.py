# SPDX-License-Identifier: Apache-2.0
"""Figures of accuracy are stated where they mean something, and nowhere else."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc.cli.quantize import decibels
from tinyc.ir.graph import Graph, Value
from tinyc.options.build import Options
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.quantizing import QuantizeReport, quantize_file
from tinyc.quantize.score import class_output, classes
from tinyc.verify import accuracy


def _graph(output: tuple[int, ...], source: tuple[int, ...] = (1, 8)) -> Graph:
    values = {"x": Value("x", source, "f32"), "y": Value("y", output, "f32")}
    return Graph("g", ("x",), ("y",), (), values)


ROWS = np.array([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.9, 0.0, 0.1]])
OTHER = np.array([[0.6, 0.4, 0.0], [0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.9, 0.0, 0.1]])


def _agreement(graph: Graph, reference: np.ndarray, computed: np.ndarray) -> float | None:
    return accuracy.agreement(*(classes(graph, {"y": rows}) for rows in (reference, computed)))


def test_agreement_is_a_share_of_equal_decisions() -> None:
    assert _agreement(_graph((1, 3)), ROWS, OTHER) == 0.75


def test_the_number_of_a_class_is_no_score() -> None:
    """A label beside scores is the class itself; nobody looks for the largest of its one element."""
    graph = _graph((1, 3))
    label = Value("label", (1,), "s32")
    graph = replace(graph, outputs=("label", "y"), values={**graph.values, "label": label})
    outputs = {"label": np.array([[7], [2], [9], [2]]), "y": ROWS}
    assert class_output(graph) == "label"
    assert classes(graph, outputs).tolist() == [7, 2, 9, 2]
    plain = replace(graph, outputs=("y",))
    assert class_output(plain) is None
    assert classes(plain, outputs).tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        pytest.param((1, 2, 2, 1), np.hstack([ROWS, ROWS[:, :1]]), id="a mask of one channel"),
        pytest.param((1, 1), ROWS[:, :1], id="one number"),
        pytest.param((1, 8), np.tile(ROWS[:, :1], 8), id="a reconstruction of the input"),
        pytest.param((1, 3), np.tile(ROWS[:1], (4, 1)), id="the same for every input"),
    ],
)
def test_agreement_of_what_is_no_decision_is_not_stated(shape: tuple[int, ...], rows: np.ndarray) -> None:
    assert _agreement(_graph(shape), rows, rows) is None


def test_sqnr_is_stated_of_a_signal_with_an_error() -> None:
    decibels_of_rows = accuracy.sqnr_db(ROWS, OTHER)
    assert decibels_of_rows == round(10 * math.log10((ROWS**2).sum() / ((ROWS - OTHER) ** 2).sum()), 2)
    assert accuracy.sqnr_db(ROWS, ROWS) is None  # no error
    assert accuracy.sqnr_db(0 * ROWS, OTHER) is None  # no signal
    assert accuracy.sqnr_db(np.tile(ROWS[:1], (4, 1)), OTHER) is None  # the same for every input
    assert accuracy.sqnr_db(ROWS[:1], OTHER[:1]) is not None  # of one input that cannot be told


@pytest.mark.parametrize(("ratio", "shown"), [(None, "-"), (200.0, "-"), (100.0, "-"), (-2980.0, "-"), (31.26, "31.3")])
def test_no_ratio_is_shown_where_there_is_none(ratio: float | None, shown: str) -> None:
    assert decibels(ratio) == shown


def _quantized(folder: Path, w: np.ndarray, data: np.ndarray | None) -> QuantizeReport:
    model = build([op("Gemm", "x w", "y", transB=1)], {"x": (1, 8)}, ["y"], {"w": w.astype(np.float32)})
    onnx.save(model, folder / "m.onnx")
    if data is not None:
        np.savez(folder / "c.npz", x=data)
    options = Options(board="host", calibration=None if data is None else folder / "c.npz")
    return quantize_file(folder / "m.onnx", options, None, None, Progress())


def _is_finite(tree: object) -> bool:
    if isinstance(tree, dict | list):
        return all(map(_is_finite, tree.values() if isinstance(tree, dict) else tree))
    return not isinstance(tree, float) or math.isfinite(tree)


def test_quantize_states_no_agreement_on_inputs_that_it_made_up(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((3, 8))
    report = _quantized(tmp_path, w, None).diagnosis
    assert report.agreement is None
    assert report.sqnr_db is not None
    data = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    assert _quantized(tmp_path, w, data).diagnosis.agreement is not None


def test_quantize_states_nothing_of_a_model_that_always_answers_the_same(tmp_path: Path) -> None:
    data = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    report = _quantized(tmp_path, np.zeros((3, 8)), data)
    assert report.diagnosis.agreement is None
    assert report.diagnosis.sqnr_db is None
    assert _is_finite(json.loads(json.dumps(report.to_json())))
