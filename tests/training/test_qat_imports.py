# SPDX-License-Identifier: Apache-2.0
"""Models that other tools for PyTorch trained in integers: tinyc's integers are those that the tool computed with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyc.base.numerics import Numerics
from tinyc.explain.diagnosis import integer_inputs
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int

pytestmark = pytest.mark.frameworks


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch", reason="torch is not installed")
    module.manual_seed(0)
    return module


def steps_apart(path: Path, module: Callable[[Any], Any], x: Any, numerics: Numerics) -> Any:
    """|difference| of the integers of all outputs, from those that the module's floats stand for."""
    graph = normalize(load_model(path))
    assert not [value for value in graph.values.values() if value.dtype == "f32"]
    (source,), (y,) = graph.inputs, graph.outputs
    own, images = prepare_int(graph, numerics), x.numpy()[:, None]
    integers = np.stack([own(each)[y] for each in integer_inputs(graph, {source: images})])
    scale, zero = graph.values[y].quant.per_tensor
    theirs = np.concatenate([module(x[k : k + 1]).detach().numpy() for k in range(len(x))])
    return np.abs(integers.reshape(theirs.shape).astype(int) - (np.rint(theirs / scale) + zero).astype(int))


@pytest.mark.parametrize("numerics", [Numerics.ONNX, Numerics.OURS], ids=str)
def test_fake_quantize(torch: Any, tmp_path: Path, numerics: Numerics) -> None:
    """Biases are multiples of the steps of the sums; nothing rounds but the layers."""
    functional = torch.nn.functional

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 6, 3, stride=2)])
            self.steps = [0.03, 0.02, 0.015]
            for layer, step in zip(self.layers, self.steps, strict=False):
                w_step = layer.weight.detach().abs().flatten(1).amax(1) / 127
                layer.register_buffer("w_step", w_step)
                layer.bias.data = torch.round(layer.bias.data / (w_step * step)) * (w_step * step)

        def forward(self, x: Any) -> Any:
            x = torch.fake_quantize_per_tensor_affine(x, self.steps[0], 0, -128, 127)
            for layer, step in zip(self.layers, self.steps[1:], strict=True):
                zeros = torch.zeros(len(layer.w_step), dtype=torch.int32)
                w = torch.fake_quantize_per_channel_affine(layer.weight, layer.w_step, zeros, 0, -128, 127)
                x = functional.relu(functional.conv2d(x, w, layer.bias, layer.stride))
                x = torch.fake_quantize_per_tensor_affine(x, step, -128, -128, 127)
            return x

    module, x = Network().eval(), torch.randn(50, 3, 12, 12)
    file = tmp_path / "net.onnx"
    torch.onnx.export(module, (x[:1],), str(file), input_names=["x"], opset_version=17, dynamo=False)
    apart = steps_apart(file, module, x, numerics)
    assert np.count_nonzero(apart) <= 1
    assert apart.max() <= 1


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("bias", ["Int32Bias", None])
def test_brevitas(torch: Any, tmp_path: Path, bits: int, bias: str | None) -> None:
    """Exact where biases are integers; biases in float are rounded to the steps of the sums, which those of narrow
    weights are few of."""
    qnn = pytest.importorskip("brevitas.nn", reason="Brevitas is not installed")
    import brevitas.quant as kinds  # noqa: PLC0415  not installed everywhere
    from brevitas.export import export_onnx_qcdq  # noqa: PLC0415

    weights = {"weight_quant": kinds.Int8WeightPerChannelFloat, "weight_bit_width": bits}
    weights |= {"bias_quant": getattr(kinds, bias)} if bias else {}

    def rounded(layer: Any, kind: str) -> Any:
        return layer(act_quant=getattr(kinds, kind), return_quant_tensor=bias is not None)

    module = torch.nn.Sequential(
        rounded(qnn.QuantIdentity, "Int8ActPerTensorFloat"),
        *(qnn.QuantConv2d(3, 8, 3, padding=1, **weights), rounded(qnn.QuantReLU, "Uint8ActPerTensorFloat")),
        *(qnn.QuantConv2d(8, 8, 3, groups=8, **weights), rounded(qnn.QuantReLU, "Uint8ActPerTensorFloat")),
        *(torch.nn.Flatten(), qnn.QuantLinear(8 * 36, 10, bias=True, **weights)),
        qnn.QuantIdentity(act_quant=kinds.Int8ActPerTensorFloat),
    ).train()
    for _ in range(4):
        module(torch.randn(64, 3, 8, 8))
    x = torch.randn(50, 3, 8, 8)
    export_onnx_qcdq(module.eval(), args=x[:1], export_path=str(tmp_path / "net.onnx"), opset_version=17, dynamo=False)
    apart = steps_apart(tmp_path / "net.onnx", module, x, Numerics.ONNX)
    assert apart.max() <= (0 if bias else 1)
    assert np.count_nonzero(apart) <= 0.2 * apart.size


def test_pt2e(torch: Any, tmp_path: Path) -> None:
    """The module computes in float32: sums near a half may fall on either side, as may those of biases in float."""
    pytest.importorskip("torchao", reason="torchao is not installed")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # noqa: PLC0415
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack  # noqa: PLC0415

    nn = torch.nn
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(), nn.Flatten()]
    module, x = nn.Sequential(*layers, nn.Linear(8 * 9, 10)).eval(), torch.randn(50, 3, 8, 8)
    quantizer = xnnpack.XNNPACKQuantizer()
    quantizer.set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(module, (x[:1],)).module(), quantizer)
    for k in range(len(x)):
        prepared(x[k : k + 1])
    converted, file = convert_pt2e(prepared), tmp_path / "net.onnx"
    torch.onnx.export(converted, (x[:1],), str(file), input_names=["x"], dynamo=True, external_data=False)
    apart = steps_apart(file, converted, x, Numerics.ONNX)
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= 0.04 * apart.size
