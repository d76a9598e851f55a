# SPDX-License-Identifier: Apache-2.0
"""`tinyc.torch`: a prepared module computes what is compiled, learns, and says what it cannot do."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyc.torch
from tinyc.base.errors import TinycError

SEEDS = range(12)
SEQUENCES = [
    *("attention", "causal attention", "heads", "causal heads"),
    *("gelu", "group norm", "gru", "gru backwards", "layer norm", "lstm", "log softmax"),
]


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TinycError, match="training in integers needs the package torch") as raised:
        tinyc.torch.prepare(None, None)
    assert raised.value.hint == "`pip install 'tinyc[torch]'`"


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch", reason="torch is not installed")
    module.manual_seed(0)
    return module


def network(torch: Any) -> Any:
    nn = torch.nn
    body = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*body, nn.Conv2d(8, 8, 3, groups=8), nn.SiLU(), nn.Flatten(), nn.Linear(32, 4)).eval()


def some_steps(torch: Any, module: Any, inputs: Any, targets: Any, count: int = 4) -> list[float]:
    """Training by the squared error; what it was before each step."""
    groups = [{"params": module.weights.parameters(), "lr": 2e-3}, {"params": module.steps.parameters(), "lr": 2e-2}]
    optimizer = torch.optim.Adam(groups)
    losses = []
    for _ in range(count):
        results = module(inputs)
        pairs = zip(results, targets, strict=True) if isinstance(targets, tuple) else [(results, targets)]
        loss = sum(((y - other.detach()) ** 2).mean() for y, other in pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())
    return losses


@pytest.mark.frameworks
@pytest.mark.parametrize("numerics", ["onnx", "single"])
@pytest.mark.parametrize("weights", ["int8", "int4", {"*": "int4", "0": "int8"}], ids=str)
def test_the_board_gives_the_bytes_of_the_module(torch: Any, tmp_path: Path, weights: Any, numerics: Any) -> None:
    """Trained, exported and built: the emulated board is proved against the reference, and the library compiled for
    this computer gives what the module gives, on inputs that no step saw."""
    model, x = network(torch), torch.randn(32, 3, 8, 8)
    module = tinyc.torch.prepare(model, x, weights=weights, numerics=numerics)
    some_steps(torch, module, x, model(x))
    module.export(tmp_path / "net.onnx")
    unseen = 2 * torch.randn(40, 3, 8, 8)
    np.savez(tmp_path / "x.npz", input=unseen.numpy())
    options = {"numerics": numerics, "inputs": tmp_path / "x.npz", "samples": 0}
    for board in ("cortex-m4", "host"):
        built = tinyc.build(tmp_path / "net.onnx", board, out=tmp_path / board, **options)
        assert built.report.passed
    library = tinyc.load(tmp_path / "host")
    (integers,) = module.integers(unseen)
    images = unseen.numpy().transpose(0, 2, 3, 1)
    assert np.array_equal(library(images, real=False), integers)
    reals = library(images)
    np.testing.assert_allclose(reals, module(unseen).detach().numpy(), rtol=1e-6)
    assert len(np.unique(integers)) > 40


@pytest.mark.frameworks
@pytest.mark.parametrize("seed", SEEDS)
def test_random_modules_are_exported_with_their_integers(torch: Any, tmp_path: Path, seed: int) -> None:
    """`export` compares the file's integers with the module's."""
    from tests.training.random_modules import RandomImages  # noqa: PLC0415  needs torch

    model = RandomImages(seed).eval()
    x = torch.randn(16, 3, model.size, model.size)
    numerics, weights = ("onnx", "single")[seed % 2], ("int8", "int4")[seed // 2 % 2]
    module = tinyc.torch.prepare(model, x, weights=weights, numerics=numerics)
    module.export(tmp_path / "start.onnx")
    some_steps(torch, module, x, model(x))
    module.export(tmp_path / "trained.onnx")


@pytest.mark.frameworks
@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("kind", SEQUENCES)
def test_layers_over_sequences(torch: Any, tmp_path: Path, kind: str, weights: str) -> None:
    """Exported with their integers, before training and after; and training wins back weights that were spoiled."""
    from tests.training.random_modules import Sequences  # noqa: PLC0415  needs torch

    model, x, unseen = Sequences(kind).eval(), torch.randn(128, 6, 8), torch.randn(128, 6, 8)
    module = tinyc.torch.prepare(model, x, weights=weights, numerics="single" if weights == "int4" else "onnx")
    module.export(tmp_path / "start.onnx")
    for parameter in module.weights.values():
        parameter.data += 0.2 * parameter.data.std() * torch.randn_like(parameter)

    def error(inputs: Any) -> Any:
        return ((module(inputs) - model(inputs).detach()) ** 2).mean()

    before, optimizer = float(error(unseen).detach()), torch.optim.Adam(module.at_rate(5e-3))
    for _ in range(60):
        optimizer.zero_grad()
        error(x).backward()
        optimizer.step()
    assert float(error(unseen).detach()) < before / 2
    module.export(tmp_path / "trained.onnx")


@pytest.mark.frameworks
@pytest.mark.parametrize("kind", ["lstm", "gru", "heads", "causal heads"])
def test_the_board_runs_samples_one_by_one(torch: Any, tmp_path: Path, kind: str) -> None:
    """The module takes them side by side, the library alone, each from its first step on."""
    from tests.training.random_modules import Sequences  # noqa: PLC0415  needs torch

    model, x = Sequences(kind).eval(), torch.randn(64, 6, 8)
    module = tinyc.torch.prepare(model, x, weights="int4")
    some_steps(torch, module, x, model(x))
    module.export(tmp_path / "net.onnx")
    unseen = torch.randn(20, 6, 8)
    np.savez(tmp_path / "x.npz", input=unseen.numpy())
    for board in ("cortex-m4", "host"):
        options = {"out": tmp_path / board, "inputs": tmp_path / "x.npz", "samples": 0}
        assert tinyc.build(tmp_path / "net.onnx", board, **options).report.passed
    (integers,) = module.integers(unseen)
    assert np.array_equal(tinyc.load(tmp_path / "host")(unseen.numpy(), real=False).reshape(integers.shape), integers)


@pytest.mark.frameworks
def test_quantities_of_an_output_have_scales_of_their_own(torch: Any, tmp_path: Path) -> None:
    """A target of a range of 50 and one of 0.5: with one scale the second would have two steps."""
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)), torch.randn(256, 8)
    model[2].weight.data[0] *= 100
    module = tinyc.torch.prepare(model, x)
    some_steps(torch, module, x, model(x))
    apart = (module(x) - model(x)).detach().square().mean(0).sqrt() / model(x).detach().std(0)
    assert float(apart.max()) < 0.05
    module.export(tmp_path / "net.onnx")
    graph = module.integer_graph()
    first, second = graph.values[graph.outputs[0]].quant.scale
    assert first > 20 * second


@pytest.mark.frameworks
def test_rates_are_in_proportion_to_what_they_move(torch: Any) -> None:
    """A module whose inputs are 255 times larger, and whose first weights are as much smaller, learns as fast."""
    model, x = network(torch), torch.randn(64, 3, 8, 8)
    scaled = network(torch)
    scaled.load_state_dict(model.state_dict())
    scaled[0].weight.data /= 255
    losses = []
    for net, inputs in ((model, x), (scaled, 255 * x)):
        module = tinyc.torch.prepare(net, inputs, weights="int4")
        optimizer = torch.optim.Adam(module.at_rate(2e-3))
        for _ in range(20):
            optimizer.zero_grad()
            loss = ((module(inputs) - model(x).detach()) ** 2).mean()
            loss.backward()
            optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[1] < 2 * losses[0]  # with one rate for all: a thousand times


@pytest.mark.frameworks
def test_a_file_with_other_integers_is_not_let_through(torch: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from tinyc.torch import prepared  # noqa: PLC0415  needs torch

    module = tinyc.torch.prepare(network(torch), torch.randn(32, 3, 8, 8))
    monkeypatch.setattr(prepared, "_q", lambda steps, value: np.clip(prepared._integers(steps, 1, value), -100, 100))
    with pytest.raises(TinycError, match="the file gives other integers than the module"):
        module.export(tmp_path / "net.onnx")


@pytest.mark.frameworks
def test_sums_beyond_float32_are_exact(torch: Any, tmp_path: Path) -> None:
    """5,000 products of large integers, which no float32 adds up exactly."""
    model = torch.nn.Linear(5000, 3)
    torch.nn.init.uniform_(model.weight, 0.5, 1.0)
    x = torch.rand(32, 5000) + 0.5
    module = tinyc.torch.prepare(model, x)
    module.export(tmp_path / "net.onnx")
    some_steps(torch, module, x, model(x), 1)
    module.export(tmp_path / "net.onnx")


@pytest.mark.frameworks
def test_steps_are_learned_as_lsq_learns_them(torch: Any) -> None:
    """Of one dense layer: the derivative by the output's step is round(v) - v inside the range and its end outside,
    over the root of elements times levels, and over the step for the logarithm."""
    model, x = torch.nn.Linear(6, 4), torch.randn(64, 6)
    module = tinyc.torch.prepare(model, x)
    graph = module.integer_graph()
    (name,) = graph.outputs
    scale, zero = graph.values[name].quant.per_tensor
    module.steps[name].data -= 0.5  # so that some values lie outside
    scale = float(np.exp(np.float32(np.log(scale) - 0.5)))
    y = module(x)
    y.sum().backward()
    w = module.weights["weight"].detach()
    w_step = module.steps["weight"].detach().exp()[:, None]
    w_integers = (w / w_step).round()
    graph = module.integer_graph()
    x_scale, x_zero = graph.values[graph.inputs[0]].quant.per_tensor
    bias = torch.from_numpy(graph.consts[graph.nodes[0].inputs[2]].astype(np.float32))
    x_integers = torch.from_numpy(module_inputs(x.numpy(), x_scale, x_zero))
    v = (x_integers @ w_integers.T + bias) * x_scale * w_step.T / scale
    inside = (v > -128 - zero) & (v < 127 - zero)
    per_element = torch.where(inside, v.round() - v, v.clamp(-128 - zero, 127 - zero))
    assert not inside.all()
    expected = per_element.sum() / (y.shape[1] * 127) ** 0.5 / scale
    torch.testing.assert_close(module.steps[name].grad, expected, rtol=1e-3, atol=1e-2)


def module_inputs(x: Any, scale: float, zero: int) -> Any:
    return (np.clip(np.round(x / scale) + zero, -128, 127) - zero).astype(np.float32)


@pytest.mark.frameworks
@pytest.mark.parametrize("spoiled", ["weights", "steps"])
def test_training_wins_back_what_was_spoiled(torch: Any, spoiled: str) -> None:
    """By the parameters that were spoiled alone."""
    model, x, unseen = network(torch), torch.randn(256, 3, 8, 8), torch.randn(256, 3, 8, 8)
    module = tinyc.torch.prepare(model, x, weights="int4")
    parameters = dict(getattr(module, spoiled).items())
    for parameter in parameters.values():
        parameter.data += 0.7 if spoiled == "steps" else 0.2 * parameter.data.std() * torch.randn_like(parameter)

    def error(inputs: Any) -> Any:
        return ((module(inputs) - model(inputs).detach()) ** 2).mean()

    before = float(error(unseen).detach())
    optimizer = torch.optim.Adam(parameters.values(), 1e-2 if spoiled == "steps" else 5e-3)
    for _ in range(80):
        optimizer.zero_grad()
        error(x).backward()
        optimizer.step()
    assert float(error(unseen).detach()) < before / 2


@pytest.mark.frameworks
def test_widths_by_layer(torch: Any) -> None:
    module = tinyc.torch.prepare(network(torch), torch.randn(32, 3, 8, 8), weights={"*": "int4", "4": "int8"})
    graph = module.integer_graph()
    widths = [graph.values[node.inputs[1]].dtype for node in graph.nodes if len(node.inputs) == 3]
    assert widths == ["s4", "s8", "s4"]


@pytest.mark.frameworks
def test_a_module_is_kept_like_any_other(torch: Any, tmp_path: Path) -> None:
    x = torch.randn(32, 3, 8, 8)
    model = network(torch)
    module, other = (tinyc.torch.prepare(model, x) for _ in range(2))
    some_steps(torch, module, x, model(x), 1)
    assert not torch.equal(module(x), other(x))
    torch.save(module.state_dict(), tmp_path / "m.pt")
    other.load_state_dict(torch.load(tmp_path / "m.pt"))
    assert torch.equal(module(x), other(x))
    assert torch.equal(module.train()(x), module.eval()(x))


REFUSED = [
    (lambda nn: nn.Sequential(nn.Linear(6, 4), nn.AdaptiveMaxPool1d(1)), (8, 3, 6), {}, "cannot train through"),
    (lambda nn: nn.ConstantPad1d(1, 2.0), (8, 2, 6), {}, "through a pad with another number than 0"),
    (lambda nn: nn.Linear(6, 4), (8, 6), {"weights": "int2"}, "weights of 'int2'"),
    (lambda nn: nn.Linear(6, 4), (8, 6), {"weights": {"fc": "int4"}}, "no layer is called 'fc'"),
    (lambda nn: nn.Linear(6, 4), (8, 6), {"numerics": "tflm"}, "not built with numerics 'tflm'"),
    (lambda nn: nn.Linear(6, 4), (8, 6), {"numerics": "other"}, "there are no numerics 'other'"),
    (lambda nn: nn.Linear(6, 4), (6,), {}, "no float tensors"),
]


@pytest.mark.frameworks
@pytest.mark.parametrize(("layers", "shape", "options", "message"), REFUSED, ids=[case[-1] for case in REFUSED])
def test_what_is_refused(torch: Any, layers: Any, shape: Any, options: Any, message: str) -> None:
    with pytest.raises(TinycError, match=message) as raised:
        tinyc.torch.prepare(layers(torch.nn), torch.randn(shape), **options)
    assert raised.value.hint


@pytest.mark.frameworks
def test_samples_know_nothing_of_each_other(torch: Any) -> None:
    """Exported for one sample, such modules look like any other. What the modes of their parts were, they are still."""
    mixing = {
        "their mean": lambda h: h - h.mean(0, keepdim=True),
        "the one before": lambda h: h + torch.roll(h, 1, 0),
        "the first": lambda h: h + h[:1],
    }
    for name, mix in mixing.items():
        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU())
        model.forward = lambda x, model=model, mix=mix: mix(model[0](x))
        model[1].eval()
        with pytest.raises(TinycError, match="depend on the samples beside it"):
            tinyc.torch.prepare(model, torch.randn(8, 6))
        assert [part.training for part in model.modules()] == [True, True, False], name


@pytest.mark.frameworks
def test_what_a_module_refuses(torch: Any, tmp_path: Path) -> None:
    module = tinyc.torch.prepare(torch.nn.Linear(6, 4), torch.randn(32, 6))
    with pytest.raises(TinycError, match=r"has shape \[2, 5\], expected \[samples, 6\]"):
        module(torch.randn(2, 5))
    with pytest.raises(TinycError, match="takes 1 inputs, got 2"):
        module(torch.randn(2, 6), torch.randn(2, 6))
    with pytest.raises(TinycError, match="no format for"):
        module.export(tmp_path / "net.tflite")


def snippets() -> list[str]:
    page = Path(__file__).resolve().parents[2] / "docs" / "training.md"
    return [part.partition("```")[0] for part in page.read_text(encoding="utf-8").split("```python\n")[1:]]


@pytest.mark.frameworks
def test_the_page(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(snippets()[0], "training.md", "exec"), {})
    assert tinyc.build("classes.onnx", "cortex-m4").report.passed


@pytest.mark.frameworks
def test_the_page_for_keras(torch: Any, tmp_path: Path) -> None:
    """In a process of its own: the backend is chosen as keras is imported."""
    if importlib.util.find_spec("keras") is None:
        pytest.skip("keras is not installed")
    root = str(Path(tinyc.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", snippets()[1]], cwd=tmp_path, check=True, env=os.environ | {"PYTHONPATH": root}
    )
    assert tinyc.build(tmp_path / "keras.onnx", "cortex-m4", out=tmp_path / "out").report.passed
