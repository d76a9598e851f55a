# SPDX-License-Identifier: Apache-2.0
"""Published int8 models: loader and integer reference equal TensorFlow Lite Micro and desktop LiteRT, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.ops.runtimes import run_tflm
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_float, prepare_int

MLPERF = [  # model, inputs, reference outputs
    ("kws", "kws_inputs_dev", "kws_dev_ref_outputs"),
    ("sww", "sww_inputs_dev", "sww_dev_ref_outputs"),
    ("ad", "ad_inputs_dev", "ad_dev_ref_outputs"),
    ("ic", "ic_inputs_synthetic", "ic_synthetic_ref_outputs"),
    ("vww", "vww_inputs_synthetic", "vww_synthetic_ref_outputs"),
    ("vww", "vww_inputs_gray_pair", "vww_gray_pair_ref_outputs"),
]
ZOO = [
    "hello_world_int8",
    "micro_speech_int8",
    "mnist_resnet_int8",
    "mobilenet96_int8",
    "person_detect_int8",
]
SYNTHETIC = ["attention_norm", "elementwise_mix", "gru_unrolled", "tcn_conv1d", "unet_hswish_tconv"]
# Operators on 16-bit activations, and how many models of each there are; their numbers are even.
SEANET = {
    "add": 9,
    "conv": 11,
    "leaky_relu": 12,
    "pad": 10,
    "quantize": 1,
    "strided_slice": 17,
    "sub": 3,
    "transpose_conv": 3,
}


def read(file: Path) -> Mapping[str, Array]:
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def reals(data: Mapping[str, Array]) -> Array:
    """The float inputs: as published, or what the int8 ones stand for."""
    if "x_f32" in data:
        return data["x_f32"]
    return ((data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)


def run(graph: Graph, numerics: Numerics, x: Array) -> Array:
    return prepare_int(graph, numerics)({graph.inputs[0]: x})[graph.outputs[0]]


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize(("model", "inputs", "outputs"), MLPERF)
@pytest.mark.parametrize(("numerics", "key"), [(Numerics.TFLM, "int8_tflm"), (Numerics.LITERT, "int8_default")])
def test_mlperf_tiny(models_dir: Path, model: str, inputs: str, outputs: str, numerics: Numerics, key: str) -> None:
    folder = models_dir / "mlperf_tiny"
    graph = load_model(folder / f"{model}_int8.tflite")
    y = run(graph, numerics, read(folder / f"{inputs}.npz")["x"])
    np.testing.assert_array_equal(y, read(folder / f"{outputs}.npz")[key])


@pytest.mark.parametrize("model", ZOO)
@pytest.mark.parametrize(("numerics", "key"), [(Numerics.TFLM, "out0_tflm"), (Numerics.LITERT, "out0_litert_default")])
def test_zoo(models_dir: Path, model: str, numerics: Numerics, key: str) -> None:
    path = models_dir / "zoo" / f"{model}.tflite"
    io = read(path.with_name(f"{path.stem}_io.npz"))
    if key not in io:
        pytest.skip(f"{model}: no reference outputs {key} (LiteRT refuses the file)")
    np.testing.assert_array_equal(run(load_model(path), numerics, io["in0"]), io[key])


@pytest.mark.parametrize("model", SYNTHETIC)
def test_operator_mixes(models_dir: Path, model: str) -> None:
    folder = models_dir / "zoo" / "synthetic_ops"
    graph = normalize(load_model(folder / f"{model}_int8.tflite"))
    io = read(folder / f"{model}_io.npz")
    np.testing.assert_array_equal(run(graph, Numerics.TFLM, io["in0"]), io["out0_tflm"])


@pytest.mark.parametrize("model", ["svdf_seeded_int8", "streaming_vad_int8", "lstm_mnist_int8"])
def test_models_with_state(models_dir: Path, model: str) -> None:
    """One sequence, or for samples that are independent a reset before each."""
    path = models_dir / "zoo" / f"{model}.tflite"
    graph, io = normalize(load_model(path)), read(path.with_name(f"{model}_io.npz"))
    assert graph.states
    name = graph.inputs[0]
    steps = [{name: x.reshape(graph.values[name].shape)} for x in io["in0"]]
    sequences = [steps] if io["mode"] == "stateful" else [[step] for step in steps]
    run = prepare_int(graph, Numerics.TFLM)
    y = [step[graph.outputs[0]] for sequence in sequences for step in run.sequence(sequence)]
    np.testing.assert_array_equal(np.stack(y), io["out0_tflm"])


def test_detector_with_float_ports(models_dir: Path) -> None:
    """mcunet: residual blocks, two resized maps, three outputs, one image."""
    graph = normalize(load_model(models_dir / "zoo" / "mcunet_detection_int8.tflite"))
    io = read(models_dir / "zoo" / "mcunet_detection_int8_io.npz")
    outputs = prepare_int(graph, Numerics.TFLM)(
        {graph.inputs[0]: io["in0"][0].reshape(graph.values[graph.inputs[0]].shape)}
    )
    for k, name in enumerate(graph.outputs):
        np.testing.assert_array_equal(outputs[name].ravel(), io[f"out{k}_tflm"][0].ravel())


@pytest.mark.parametrize("operator", SEANET)
def test_16_bit_activations(models_dir: Path, operator: str) -> None:
    folder = models_dir / "zoo" / "seanet_int16"
    files = sorted(folder.glob(f"{operator}[0-9]*.tflite"))
    assert len(files) == SEANET[operator]
    for file in files:
        graph, io = normalize(load_model(file)), read(file.with_name(f"{file.stem}_io.npz"))
        feeds = {name: io[f"in{k}"].reshape(graph.values[name].shape) for k, name in enumerate(graph.inputs)}
        # Those of leaky_relu are desktop LiteRT's: TensorFlow Lite Micro itself differs by 1 here and there.
        numerics = Numerics.LITERT if operator == "leaky_relu" else Numerics.TFLM
        y = prepare_int(graph, numerics)(feeds)[graph.outputs[0]]
        np.testing.assert_array_equal(y.ravel(), io["golden"].ravel(), err_msg=file.stem)
        if operator == "leaky_relu":
            (theirs,) = run_tflm(file.read_bytes(), *feeds.values())
            y = prepare_int(graph, Numerics.TFLM)(feeds)[graph.outputs[0]]
            np.testing.assert_array_equal(y.ravel(), theirs.ravel(), err_msg=file.stem)


def test_dynamic_range_weights_are_read_as_floats(models_dir: Path) -> None:
    graph = normalize(load_model(models_dir / "mlperf_tiny" / "kws_dynrange.tflite"))
    assert all(value.dtype in ("f32", "s32") for value in graph.values.values())


@pytest.mark.parametrize(("model", "key"), [("kws_qdq_int8", "qdq_noopt"), ("kws_qoperator_int8", "qoperator_noopt")])
def test_quantized_onnx_equals_onnxruntime(models_dir: Path, model: str, key: str) -> None:
    """All 300 inputs, byte for byte: what ONNX Runtime dequantizes at the end is what the integers stand for."""
    folder = models_dir / "mlperf_tiny"
    graph = normalize(load_model(folder / f"{model}.onnx"))
    x, y = graph.values[graph.inputs[0]], graph.values[graph.outputs[0]]
    assert x.quant is not None
    assert y.quant is not None
    assert {graph.values[node.outputs[0]].dtype for node in graph.nodes} == {"s8"}
    scale, zero = x.quant.per_tensor
    real = read(folder / "kws_inputs_dev.npz")["x_f32"]
    samples = np.clip(np.rint(real / np.float32(scale)) + zero, -128, 127).astype(np.int8)
    integers = run(graph, Numerics.ONNX, samples)
    expected = read(folder / "kws_dev_quantized_variants_outputs.npz")[key]
    np.testing.assert_array_equal(y.quant.dequantize(integers), expected)


@pytest.mark.parametrize(("model", "inputs", "outputs"), MLPERF)
def test_float_models_are_close_to_litert(models_dir: Path, model: str, inputs: str, outputs: str) -> None:
    folder = models_dir / "mlperf_tiny"
    graph = load_model(folder / f"{model}_fp32.tflite")
    reals_of_graph = prepare_float(graph)({graph.inputs[0]: reals(read(folder / f"{inputs}.npz"))})[graph.outputs[0]]
    expected = read(folder / f"{outputs}.npz")["float_tflite_ref"]
    np.testing.assert_allclose(reals_of_graph, expected, rtol=0, atol=2e-4 * max(1.0, np.abs(expected).max()))


def test_the_integer_graph_means_the_float_graph(models_dir: Path) -> None:
    """The reals behind the int8 weights of `ic` are the float model's, so top-1 stays the same."""
    folder = models_dir / "mlperf_tiny"
    graph = load_model(folder / "ic_int8.tflite")
    x = reals(read(folder / "ic_inputs_synthetic.npz"))
    reals_of_graph = prepare_float(graph)({graph.inputs[0]: x})[graph.outputs[0]]
    expected = read(folder / "ic_synthetic_ref_outputs.npz")["float_tflite_ref"]
    assert np.abs(reals_of_graph - expected).max() < 0.1
    assert (reals_of_graph.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.95


def test_int4_weights_and_float_islands(models_dir: Path) -> None:
    """kws_w4a8: packed int4 weights; its depthwise layers are float32 between dequantize and quantize.

    The expected outputs are of LiteRT's reference kernels, which round once in fully connected layers
    and twice in convolutions; a step before the softmax may become five behind it.
    """
    folder = models_dir / "mlperf_tiny"
    graph = load_model(folder / "kws_w4a8.tflite")
    x, y = graph.values[graph.inputs[0]], graph.values[graph.outputs[0]]
    assert x.quant is not None
    assert y.quant is not None
    scale, zero = x.quant.per_tensor
    samples = np.rint(read(folder / "kws_inputs_dev.npz")["x_f32"] / np.float32(scale)) + zero
    reals_of_graph = y.quant.dequantize(run(graph, Numerics.TFLM, np.clip(samples, -128, 127).astype(np.int8)))
    expected = read(folder / "kws_dev_quantized_variants_outputs.npz")["w4a8_litert_ref"]
    assert np.abs(reals_of_graph - expected).max() <= 5 / 256
    np.testing.assert_array_equal(reals_of_graph.argmax(axis=1), expected.argmax(axis=1))
