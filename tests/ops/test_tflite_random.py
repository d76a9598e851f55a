# SPDX-License-Identifier: Apache-2.0
"""Every TFLite operator beside TensorFlow Lite Micro and desktop LiteRT at random scales, sizes and options; and what
no importer looks at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

from tests.load.test_tflite_states import ADD, ONCE, TENSORS, assign, read, var
from tests.load.test_tflite_states import model as model_with_variables
from tests.ops.runtimes import litert_sequence, tflm_sequence
from tests.ops.tflite_builder import Operator
from tests.ops.tflite_layers import Layer, numbers
from tests.ops.tflite_random import GENERATORS
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.export import tflite_file
from tinyc.ir.graph import Array, Graph
from tinyc.load.tflite import load_tflite
from tinyc.load.tflite_ops import IMPORTERS
from tinyc.passes import normalize
from tinyc.reference.interpreter import BoundGraph, prepare_float, prepare_int

QUICK, MANY = 6, 120
TOLERANCE, BILINEAR_TOLERANCE = 3e-5, 5e-2  # of floats; a bilinear resize goes in steps of 1/1024
VARIABLES = {"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"}  # tests/load/test_tflite_states.py
NOT_IN_TFLM = {"GELU", "POW", "RELU_N1_TO_1", "SELECT", "SIGN", "TILE"}
# Pads with what its memory holds (docs/import.md).
PADS_WITH_ANYTHING = {"SPACE_TO_BATCH_ND"}
NOT_IN_LITERT = {"UNIDIRECTIONAL_SEQUENCE_LSTM"}  # it asks for other intermediate tensors
A_STEP_IN_LITERT = {"BATCH_MATMUL"}  # one of some thousands: docs/reliability.md
TAKE_ANY_NUMBER = {"ADD_N", "CONCATENATION", "PACK"}


def drawn(name: str, seed: int) -> tuple[Layer, np.random.Generator]:
    rng = np.random.default_rng([seed, *name.encode()])
    return GENERATORS[name](rng), rng


def load(content: bytes, folder: Path) -> Graph:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return load_tflite(path)


def is_float(layer: Layer) -> bool:
    return not any(tensor.scale for tensor in layer.tensors)


def prepared(layer: Layer, folder: Path, numerics: Numerics) -> list[BoundGraph]:
    """The layer before and after the passes; [] where tinyc refuses it."""
    try:
        graph = load(layer.model(), folder)
        return [prepare_float(g) if is_float(layer) else prepare_int(g, numerics) for g in (graph, normalize(graph))]
    except TinycError:
        return []


def theirs(layer: Layer, numerics: Numerics, feeds: list[dict[str, Array]]) -> list[list[Array]]:
    """What the runtime makes of the samples, one after the other; [] where it refuses the layer."""
    run = tflm_sequence if numerics is Numerics.TFLM else litert_sequence
    try:
        return run(layer.model(), [[feed[tensor.name] for tensor in layer.inputs] for feed in feeds])
    except (RuntimeError, ValueError):
        return []


def compare(name: str, seed: int, numerics: Numerics, folder: Path) -> bool:
    """Assert that tinyc computes what the runtime does; False where either refuses the layer."""
    layer, rng = drawn(name, seed)
    feeds = [layer.feeds(rng) for _ in range(layer.runs)]
    programs = prepared(layer, folder, numerics)
    if not programs or crashes(layer, numerics):
        return False
    reference = theirs(layer, numerics, feeds)
    tolerance = BILINEAR_TOLERANCE if name == "RESIZE_BILINEAR" else TOLERANCE
    for program in programs:
        for outputs_here, outputs in zip(program.sequence(feeds), reference, strict=False):
            for key, array in zip(program.graph.outputs, outputs, strict=True):
                expected, what = array.reshape(outputs_here[key].shape), f"{name} {seed} {layer.operator.fields}"
                if is_float(layer):
                    np.testing.assert_allclose(
                        outputs_here[key], expected, rtol=TOLERANCE, atol=tolerance, err_msg=what
                    )
                elif numerics is Numerics.LITERT and name in A_STEP_IN_LITERT:
                    np.testing.assert_allclose(outputs_here[key], expected, atol=1, err_msg=what)
                else:
                    np.testing.assert_array_equal(outputs_here[key], expected, err_msg=what)
    return bool(reference)


def crashes(layer: Layer, numerics: Numerics) -> bool:
    """Desktop LiteRT ends the process on a depthwise convolution of int8 without a bias."""
    code, inputs = layer.operator.code, layer.operator.inputs
    return numerics is Numerics.LITERT and code == "DEPTHWISE_CONV_2D" and len(inputs) < 3


ELSEWHERE = {
    "test_tflite_loops.py": ("WHILE",),
    "test_tflite_places.py": ("FLOOR_DIV", "FLOOR_MOD", "GATHER_ND", "IF", "REDUCE_ALL", "REDUCE_ANY", "TOPK_V2"),
    "test_tflite_sparse.py": ("DENSIFY",),
    "test_tflite_spectra.py": ("COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"),
}


def test_every_importer_has_a_generator() -> None:
    """Those of signals are compared over sequences of frames, with states, in test_signal.py; others that need more
    than a layer around them in the files that ELSEWHERE names."""
    own = Path(__file__).with_name("test_signal.py").read_text(encoding="utf-8")
    signals = {name for name in IMPORTERS if name.startswith("CUSTOM Signal")}
    assert set(GENERATORS) | VARIABLES | signals | {name for names in ELSEWHERE.values() for name in names} == set(
        IMPORTERS
    )
    assert not {name for name in signals if name.removeprefix("CUSTOM ") not in own}
    for file, names in ELSEWHERE.items():
        text = (Path(__file__).parents[1] / "load" / file).read_text(encoding="utf-8")
        assert not {name for name in names if f'"{name}"' not in text}, file


BY_TFLM = sorted(set(GENERATORS) - NOT_IN_TFLM - PADS_WITH_ANYTHING)
BY_LITERT = sorted(set(GENERATORS) - NOT_IN_LITERT)


@pytest.mark.quick_cases(45)
@pytest.mark.parametrize("name", BY_TFLM)
def test_equals_tflm(name: str, tmp_path: Path) -> None:
    assert sum(compare(name, seed, Numerics.TFLM, tmp_path) for seed in range(QUICK))


@pytest.mark.quick_cases(45)
@pytest.mark.parametrize("name", BY_LITERT)
def test_equals_litert(name: str, tmp_path: Path) -> None:
    assert sum(compare(name, seed, Numerics.LITERT, tmp_path) for seed in range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_TFLM)
def test_equals_tflm_often(name: str, tmp_path: Path) -> None:
    for seed in range(QUICK, MANY):
        compare(name, seed, Numerics.TFLM, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_LITERT)
def test_equals_litert_often(name: str, tmp_path: Path) -> None:
    for seed in range(QUICK, MANY):
        compare(name, seed, Numerics.LITERT, tmp_path)


def accepted(name: str, folder: Path) -> Layer:
    """A layer of the operator that tinyc imports."""
    for seed in range(50):
        layer, _ = drawn(name, seed)
        try:
            load(layer.model(), folder)
        except TinycError:
            continue
        return layer
    raise AssertionError(name)


def _with_an_unknown_field(b: flatbuffers.Builder, op: Operator) -> int:
    """As `tflite_file._options`, and a field that no schema of today has."""
    values = {name: tflite_file._field(b, value) for name, value in op.fields.items()}
    b.StartObject(30)
    for name, value in values.items():
        getattr(tflite, f"{op.options}Add{name}")(b, value)
    b.PrependInt32Slot(29, 7, 0)
    return int(b.EndObject())


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_an_unknown_option_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = accepted(name, tmp_path)
    others = [operator.code for operator in (*layer.before, *layer.after)]
    operator = replace(layer.operator, options=layer.operator.options or "AbsOptions")
    monkeypatch.setattr(tflite_file, "_options", _with_an_unknown_field)
    with pytest.raises(TinycError, match="an option 'field 29'") as caught:
        load(layer.model(operator), tmp_path)
    assert caught.value.hint
    assert others or (caught.value.where and caught.value.where.op == name)


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_an_unknown_option_of_a_variable_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operators = [ONCE, var("v"), read("v", "old"), ADD, assign("v", "y")]
    load(model_with_variables(operators, TENSORS), tmp_path)
    plain = tflite_file._options
    monkeypatch.setattr(
        tflite_file, "_options", lambda b, op: (_with_an_unknown_field if op.code == name else plain)(b, op)
    )
    with pytest.raises(TinycError, match="an option 'field 29'"):
        load(model_with_variables(operators, TENSORS), tmp_path)


@pytest.mark.parametrize("name", sorted(set(GENERATORS) - TAKE_ANY_NUMBER))
def test_an_unknown_input_is_refused(name: str, tmp_path: Path) -> None:
    layer = accepted(name, tmp_path)
    extra = numbers("extra", [1, 2, 3])
    inputs = (*layer.operator.inputs, *[""] * (30 - len(layer.operator.inputs)), "extra")
    with pytest.raises(TinycError, match=r"input 30 \('extra'\)"):
        load(replace(layer, tensors=(*layer.tensors, extra)).model(replace(layer.operator, inputs=inputs)), tmp_path)


def test_options_are_named_as_in_the_schema(tmp_path: Path) -> None:
    """Options that an importer does not read are refused where they are not at their default."""
    layer = accepted("STRIDED_SLICE", tmp_path)
    fields: dict[str, Any] = {**layer.operator.fields, "Offset": False}
    load(layer.model(replace(layer.operator, fields=fields)), tmp_path)
    with pytest.raises(TinycError, match="an option 'offset'"):
        load(layer.model(replace(layer.operator, fields=fields | {"Offset": True})), tmp_path)
