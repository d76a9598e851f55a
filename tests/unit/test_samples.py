# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from tinyc.base.errors import TinycError
from tinyc.ir.graph import DType, Graph, Quant, Value
from tinyc.reference.samples import load_npz, load_samples, synthetic_samples

S8 = Graph("g", ("in",), (), (), {"in": Value("in", (1, 3, 2), "s8", Quant((0.5,), (3,)))})


def _file(tmp_path: Path, **arrays: np.ndarray) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, **arrays)
    return path


def test_integers_pass_and_reals_are_quantized(tmp_path: Path) -> None:
    integers = np.arange(-6, 6, dtype=np.int8).reshape(2, 3, 2)
    direct = load_samples(_file(tmp_path, **{"in": integers, "y": np.array([1, 0])}), S8)
    reals = load_samples(_file(tmp_path, x=((integers.astype(np.float32) - 3) * 0.5)), S8)
    np.testing.assert_array_equal(direct.arrays["in"], integers)
    np.testing.assert_array_equal(reals.arrays["in"], integers)
    assert direct.labels is not None
    assert direct.labels.tolist() == [1, 0]
    assert reals.labels is None
    assert direct.sample(1, S8)["in"].shape == (1, 3, 2)
    assert len(direct.slice(1, 5)) == 1


def test_arrays_may_have_all_names_that_litert_says(tmp_path: Path) -> None:
    """A tensor of a TFLite file is called by the first of its names."""
    a, b = np.zeros((2, 3, 2), np.int8), np.ones((2, 3, 2), np.int8)
    two = Graph("g", ("in", "add"), (), (), {**S8.values, "add": Value("add", (1, 3, 2), "s8", Quant((0.5,), (3,)))})
    samples = load_samples(_file(tmp_path, **{"add;conv": a, "in;add": b}), two)
    assert {name: array.tolist() for name, array in samples.arrays.items()} == {"add": a.tolist(), "in": b.tolist()}
    with pytest.raises(TinycError, match="no array for input 'in'"):
        load_samples(_file(tmp_path, **{"add": a, "in;one": a, "in;two": b}), two)


def test_integers_win_over_reals_for_an_integer_input(tmp_path: Path) -> None:
    integers = np.full((1, 3, 2), 7, np.int8)
    samples_read = load_samples(_file(tmp_path, x_f32=np.zeros((1, 3, 2), np.float32), x=integers), S8)
    assert (samples_read.arrays["in"] == 7).all()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((4, 3, 3), np.int8)}, r"shape \[4, 3, 3\], expected \[samples, 3, 2\]"),
        ({"x": np.zeros((0, 3, 2), np.int8)}, r"expected \[samples, 3, 2\]"),
        ({"x": np.full((1, 3, 2), np.nan)}, "no finite 32-bit floats"),
        ({"x": np.full((1, 3, 2), 200, np.int32)}, "outside s8"),
        ({"x": np.array([["a"]])}, "dtype"),
        ({"a": np.zeros((1, 3, 2)), "b": np.zeros((1, 3, 2))}, "no array for input 'in'"),
    ],
)
def test_misfits_are_named(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(TinycError, match=message):
        load_samples(_file(tmp_path, **arrays), S8)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 truncated", b"\x93NUMP", b"plain text"])
def test_files_that_are_no_npz(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(TinycError, match="not a readable"):
        load_npz(path)
    with pytest.raises(TinycError, match="no such file"):
        load_npz(tmp_path / "absent.npz")


def test_synthetic_samples_are_repeatable_and_reach_both_ends() -> None:
    one, two = synthetic_samples(S8, 4), synthetic_samples(S8, 4)
    np.testing.assert_array_equal(one.arrays["in"], two.arrays["in"])
    assert one.arrays["in"].min() == -128
    assert one.arrays["in"].max() == 127


def test_large_inputs_get_fewer_made_up_samples() -> None:
    graph = Graph("g", ("x",), ("x",), (), {"x": Value("x", (1, 2048, 4096), "f32")})
    assert synthetic_samples(graph, 32).arrays["x"].shape == (2, 2048, 4096)


@pytest.mark.parametrize(("dtype", "expected"), [("bool", np.bool_), ("f32", np.float32)])
def test_truth_values_are_taken(tmp_path: Path, dtype: DType, expected: type) -> None:
    """As truth where the input is truth, else as 0 and 1."""
    value, given = Value("x", (1, 3), dtype), np.array([[True, False, True], [False, False, True]])
    graph = Graph("m", ("x",), (), (), {"x": value}, {})
    np.savez(tmp_path / "in.npz", x=given)
    array = load_samples(tmp_path / "in.npz", graph).arrays["x"]
    assert array.dtype == expected
    np.testing.assert_array_equal(array, given)
