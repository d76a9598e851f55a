# SPDX-License-Identifier: Apache-2.0
"""Files that single pages of docs/ talk of, and that the others do not: small models, recordings, pictures, keys."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
from PIL import Image

from tests.cli.test_user_build import M4, MAIN, SCRIPT
from tests.frontend.pushing import state_model, window_model
from tests.frontend.sounds import voice
from tests.frontend.test_picture import picture_model
from tests.frontend.test_recordings import write_wav
from tests.load.onnx_models import build, op
from tests.load.test_onnx_states import NUMBERS, recurrent, smooth
from tests.load.test_spectra import decibels
from tests.load.test_spectra import inputs as sounds
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tests.target.test_weights_blob import keys
from tinyc import api
from tinyc.ir.graph import Quant

ROOT = Path(__file__).resolve().parents[2]


def toml_of(page: str, beginning: str) -> str:
    """The first TOML of a page that begins so."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    match = re.search(rf"^```toml\n({re.escape(beginning)}.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match, f"docs/{page}.md has no TOML that begins with {beginning!r}"
    return match[1]


def _labels(count: int) -> None:
    Path("labels.txt").write_text("".join(f"label{k}\n" for k in range(count)))


def _examples() -> None:
    shutil.copytree(ROOT / "examples", "examples", dirs_exist_ok=True)


def _extend() -> None:
    Path("small-m4.toml").write_text(toml_of("extend", "# small-m4.toml"))


def _float32() -> None:
    """Names of layers, as the page has them."""
    model = onnx.load("model.onnx")
    for node in model.graph.node:
        node.name = {"Gemm": "classifier/gemm", "Softmax": "softmax"}.get(node.op_type, node.name)
    onnx.save(model, "model.onnx")


def _wake_word() -> None:
    """Nine frames through a convolution over time, as MLPerf Tiny's streaming wake word has them."""
    rng = np.random.default_rng(7)
    shapes = {"k": (3, 3, 1, 40), "w": (3, 3)}
    weights = [
        Tensor(name, shape, "s8", (0.01,), (0,), data=rng.integers(-127, 128, shape, np.int8))
        for name, shape in shapes.items()
    ]
    shapes = {"x": (1, 9, 1, 40), "c": (1, 7, 1, 3), "p": (1, 1, 1, 3), "y": (1, 3)}
    values = [Tensor(name, shape, "s8", (1 / 255,), (-128,)) for name, shape in shapes.items()]
    conv = {"Padding": 1, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    pool = {"Padding": 1, "StrideW": 1, "StrideH": 1, "FilterWidth": 1, "FilterHeight": 7}
    linear = {"WeightsFormat": 0, "KeepNumDims": False}
    none = {"FusedActivationFunction": 0}
    operators = [
        Operator("CONV_2D", ("x", "k", ""), ("c",), "Conv2DOptions", conv | none),
        Operator("AVERAGE_POOL_2D", ("c",), ("p",), "Pool2DOptions", pool | none),
        Operator("FULLY_CONNECTED", ("p", "w", ""), ("y",), "FullyConnectedOptions", linear | none),
    ]
    Path("sww.tflite").write_bytes(build_model([*values, *weights], operators, ["x"], ["y"]))


def _frontend() -> None:
    _examples()
    Path("okay.toml").write_text(toml_of("frontend", 'kind = "micro"'))
    state_model(Path("okay.tflite"), 1)
    _wake_word()
    window_model(Path("spotting.tflite"), 3, Quant((0.5,), (30,)), 10)
    window_model(Path("gestures.tflite"), 1, Quant((0.1,), (0,)), 30)
    _gestures()
    write_wav(Path("voice.wav"), voice(1.0))
    _labels(3)
    decibels(Path("logmel_model.onnx"))
    np.savez("samples.npz", x=sounds())


def _gestures() -> None:
    """A network over windows of samples as they are, [128, 3], and such windows."""
    rng = np.random.default_rng(7)
    w = rng.normal(size=(384, 3)).astype(np.float32)
    nodes = [op("Flatten", "x", "f"), op("MatMul", "f w", "y")]
    onnx.save(build(nodes, {"x": (1, 128, 3)}, ["y"], {"w": w}), "gestures.onnx")
    np.savez("windows.npz", x=rng.normal(size=(40, 128, 3)).astype(np.float32))


def _mlperf() -> None:
    shutil.copy(ROOT / "examples" / "frontend" / "sww.toml", "sww.toml")
    _wake_word()


def _picture() -> None:
    _examples()
    picture_model(Path("vww_int8.tflite"), (2, 2, 3))
    noise = np.random.default_rng(4).integers(0, 256, (240, 320, 3), np.uint8)
    Image.fromarray(noise).save("picture.png")
    Path("pictures").mkdir()
    Image.fromarray(noise[:120, :160]).save("pictures/small.png")
    _labels(4)


def _training() -> None:
    shutil.copy("kws.onnx", "classes.onnx")  # tests/training builds what the page exports


def _report() -> None:
    api.build("kws.onnx", "cortex-m4", calibration="calib.npz", out="build/kws", samples=1)


def _state() -> None:
    model = recurrent("GRU")
    for names in (model.graph.input, model.graph.output, *(n.input for n in model.graph.node)):
        for at, name in enumerate(names):
            if isinstance(name, str):
                names[at] = {"h": "state"}.get(name, name)
            else:
                name.name = {"h": "state", "hn": "stateN"}.get(name.name, name.name)
    for node in model.graph.node:
        for at, name in enumerate(node.output):
            node.output[at] = {"hn": "stateN"}.get(name, name)
    onnx.save(model, "vad.onnx")
    Path("calls").mkdir(exist_ok=True)
    for number, steps in enumerate((9, 14)):
        np.save(f"calls/{number}.npy", smooth(steps, 1, 1, NUMBERS))


def _own_builds(name: str = "kws_int8") -> None:
    """Libraries of kws_int8.tflite under a name as an archive and in a program, by a reader's compiler and flags."""
    flags = [*M4, "-Os", "-ffunction-sections", f"-Ibuild/{name}"]
    for board, archive in (("cortex-m4", "build/libkws.a"), ("nucleo-l4r5zi", "my/libkws.a")):
        api.build("kws_int8.tflite", board, out=f"build/{name}", name=name, samples=1)
        Path(archive).parent.mkdir(exist_ok=True)
        subprocess.run(["arm-none-eabi-gcc", *flags, "-c", f"build/{name}/{name}.c", "-o", f"{name}.o"], check=True)
        subprocess.run(["arm-none-eabi-ar", "rcs", archive, f"{name}.o"], check=True)
    Path("main.c").write_text(MAIN.replace("kws", name))
    Path("user.ld").write_text(SCRIPT)
    link = ["-nostdlib", "-Wl,--gc-sections", "-Wl,-T,user.ld", "main.c", "my/libkws.a", "-lgcc", "-o", "app.elf"]
    subprocess.run(["arm-none-eabi-gcc", *flags, *link], check=True)


def _update() -> None:
    """The same network, trained further."""
    model = onnx.load("kws.onnx")
    rng = np.random.default_rng(8)
    for tensor in model.graph.initializer:
        weights = onnx.numpy_helper.to_array(tensor)
        further = (weights * (1 + 0.2 * rng.standard_normal(weights.shape))).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(further, tensor.name))
    onnx.save(model, "retrained.onnx")
    keys(Path(), "key")


def _quantize() -> None:
    """The page's own metric, and labels for it."""
    text = (ROOT / "docs" / "quantize.md").read_text(encoding="utf-8")
    match = re.search(r"^```python\n(# score\.py\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match, "docs/quantize.md has no score.py"
    Path("score.py").write_text(match[1])
    with np.load("calib.npz") as held:
        arrays = dict(held)
    np.savez("calib.npz", **arrays, y=np.arange(len(arrays["x"])) % 2)


def _ci() -> None:
    """Test inputs with labels: the answers that the float model is surest of."""
    with np.load("calib.npz") as held:
        x = held["x"]
    model = onnx.reference.ReferenceEvaluator("kws.onnx")
    scores = np.stack([model.run(None, {"x": sample[None]})[0][0] for sample in x])
    surest = np.argsort(scores.max(1))[-8:]
    np.savez("test.npz", x=x[surest], y=scores[surest].argmax(1))


def _classical() -> None:
    """A forest stands for one that isolates."""
    shutil.copy("forest.onnx", "isolation.onnx")


BY_PAGE: Mapping[str, Callable[[], None]] = MappingProxyType(
    {
        "ci": _ci,
        "classical": _classical,
        "examples": _examples,
        "extend": _extend,
        "float32": _float32,
        "frontend": _frontend,
        "inspect": lambda: _own_builds("kws"),
        "mlperf": _mlperf,
        "picture": _picture,
        "quantize": _quantize,
        "report": _report,
        "training": _training,
        "start": _own_builds,
        "state": _state,
        "update": _update,
        "verify": lambda: _own_builds("kws"),
    }
)
"""Page -> writes its files into the working directory."""
