# SPDX-License-Identifier: Apache-2.0
"""Scatter and Gather with constant indices beside ONNX Runtime: which operators they become, and what is refused.
Random ones are in test_onnx_random.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, imported, load, one, op
from tinyc.base.errors import TinycError


def boxes(*axes: range) -> np.ndarray:
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).astype(np.int64)


def replaced(indices: np.ndarray, new: list[int], **attributes: object) -> onnx.ModelProto:
    return build([op("ScatterND", "x i n", "y", **attributes)], {"x": [2, 4, 6], "n": new}, ["y"], {"i": indices})


def operators(model: onnx.ModelProto, folder: Path) -> set[str]:
    return {node.op for node in imported(model, folder).nodes} - {"reshape"}


def test_a_slice_that_is_assigned_to_is_copied_with_what_is_around_it(tmp_path: Path) -> None:
    part = boxes(range(2), range(1, 3), range(2, 6))
    assert operators(replaced(part, [2, 2, 4]), tmp_path) == {"slice", "concat"}
    assert operators(replaced(part, [2, 2, 4], reduction="add"), tmp_path) == {"pick", "add", "slice", "concat"}


def test_other_places_are_picked(tmp_path: Path) -> None:
    assert "pick" in operators(replaced(boxes(range(0, 2), range(0, 4, 2)), [2, 2, 6]), tmp_path)


def test_values_for_one_element_are_added_one_after_the_other(tmp_path: Path) -> None:
    twice = np.array([[0, 1], [1, 2], [0, 1]], np.int64)
    assert "add" in operators(replaced(twice, [3, 6], reduction="add"), tmp_path)
    with pytest.raises(TinycError, match="2 values for one element"):
        load(replaced(twice, [3, 6]), tmp_path)


# fmt: off
ERRORS = {
    "leave an axis": replaced(np.array([[0, 4]], np.int64), [1, 6]),
    r"\[1, 6\] at indices \[1, 1\]": replaced(np.array([[0]], np.int64), [1, 6]),
    "must be constant integers": one("GatherND", [2, 3], [np.array([[0.5]], np.float32)]),
    "with batch_dims 2": one("GatherND", [2, 3], [np.array([[0], [1]], np.int64)], batch_dims=2),
    r"indices \[3\] of \[2, 3\]": one("GatherElements", [2, 3], [np.array([0, 1, 1], np.int64)]),
    "region of 2 numbers for 4 axes": build(
        [op("Resize", "x r - n", "y", coordinate_transformation_mode="tf_crop_and_resize")],
        {"x": [1, 1, 4, 4]}, ["y"], {"r": np.zeros(2, np.float32), "n": np.array([1, 1, 8, 8], np.int64)},
    ),
    "keeps its 4 elements": build(
        [op("Resize", "x r - n", "y", coordinate_transformation_mode="tf_crop_and_resize", axes=[2, 3])],
        {"x": [1, 1, 4, 4]}, ["y"],
        {"r": np.float32([0.1, 0.1, 0.9, 0.9]), "n": np.array([4, 8], np.int64)}, 19,
    ),
    "resizing with mode 'area'": one("Resize", [1, 1, 4, 4], [np.float32([]), np.float32([1, 1, 2, 2])], mode="area"),
    "its weights along axis 3": build(
        [op("Resize", "x - - n", "y", mode="cubic")], {"x": [1, 1, 1, 32000]}, ["y"],
        {"n": np.array([1, 1, 1, 16000], np.int64)},
    ),
}
# fmt: on


@pytest.mark.parametrize("message", ERRORS)
def test_refused(message: str, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=message):
        load(ERRORS[message], tmp_path)
