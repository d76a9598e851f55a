# SPDX-License-Identifier: Apache-2.0
"""`tinyc run --image` and `tinyc verify --image`: pictures and frames from files, and those that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

import tinyc
from tests.frontend.test_picture import graph_of, noise, picture_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.cli.app import app
from tinyc.frontend import load_camera
from tinyc.frontend.encoding import as_frames
from tinyc.ops.picture import FORMATS
from tinyc.options.build import Options
from tinyc.pipeline.hearing import Listening
from tinyc.pipeline.looking import Looking, look
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "camera"
LINE = "rgb565:12x10,crop=fit"


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_camera_gives_of_a_picture(name: str) -> None:
    """Smooth colors come back; a picture of one color too, in every range."""
    y, x = np.mgrid[:9, :11]
    smooth = np.stack([20 * x + 10, 200 - 18 * y, 9 * x + 10 * y], -1).astype(np.uint8)
    settings = ",range=video" if name == "yuyv" else ""
    camera = load_camera(f"{name}:11x9{settings}").of((9, 11), 3)
    near = {"grey": 0, "rgb888": 0, "bgr888": 0, "rgb565": 7, "rgb565be": 7}.get(name, 21)
    exact = smooth if name != "grey" else np.repeat(as_frames(camera, smooth[None])[0], 3, -1)
    inner = slice(1, -1) if name.startswith("bayer") else slice(None)
    off = np.abs(camera.pixels(as_frames(camera, smooth[None]))[0].astype(int) - exact)[inner, inner]
    assert off.max() <= near
    for level in (0, 77, 255):
        even = np.full((1, 9, 11, 3), level, np.uint8)
        assert np.abs(camera.pixels(as_frames(camera, even)).astype(int) - level).max() <= (near > 0) * 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, and in `pictures` one picture and two frames."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    picture_model(tmp_path / "unit.tflite", (5, 6, 3))
    (tmp_path / "pictures").mkdir()
    image.fromarray(noise((10, 12, 3))).save(tmp_path / "pictures" / "a.png")
    (tmp_path / "pictures" / "b.raw").write_bytes(noise((2, 10, 24), 5).tobytes())
    (tmp_path / "pictures" / "notes.txt").write_text("no picture")
    return tmp_path


def test_pictures_give_labels(folder: Path) -> None:
    """Those of the model on what the Python function makes of the frames."""
    labels = folder / "labels.txt"
    labels.write_text("\n".join(f"class {k}" for k in range(3 * 3 * 4)))
    ways = {"picture": LINE, "input_rows": True, "image": folder / "pictures"}
    looking = tinyc.run(folder / "unit.tflite", "host", labels=labels, **ways)
    assert isinstance(looking, Looking)
    graph, camera = graph_of(folder / "unit.tflite"), load_camera(LINE).of((5, 6), 3)
    frames = [*as_frames(camera, noise((10, 12, 3))[None]).reshape(1, 10, 24), *noise((2, 10, 24), 5)]
    inputs = [{"x": camera.quantized(frame, *graph.values["x"].quant.per_tensor)[None]} for frame in frames]
    outputs = [run_int(graph, one, Numerics.TFLM)["y"].reshape(-1) for one in inputs]
    assert [seen.label for seen in looking.seen] == [f"class {output.argmax()}" for output in outputs]
    assert [seen.picture for seen in looking.seen] == ["a.png", "b.raw, frame 0", "b.raw, frame 1"]
    assert looking.passed
    assert (looking.output_bytes, looking.mismatches) == (3 * 36, 0)


def refused(folder: Path, image: str, line: str | None = LINE) -> TinycError:
    options = Options("host", picture=line, image=folder / image)
    with pytest.raises(TinycError) as error:
        look(folder / "unit.tflite", options, Listening(), Progress())
    return error.value


def test_files_that_do_not_fit_are_errors(folder: Path) -> None:
    assert "the picture is 12x10; the camera gives 12x9" in refused(folder, "pictures/a.png", "grey:12x9").message
    short = refused(folder, "pictures/b.raw", "grey:12x9").message
    assert "has 480 bytes; a frame of 12x9 grey has 108" in short
    assert "not a readable picture" in refused(folder, "pictures/notes.txt").message
    assert "no such file" in refused(folder, "pictures/c.png").message
    assert "cannot read the frames" in refused(folder, "c.raw").message
    assert "for a library with a camera" in refused(folder, "pictures/a.png", None).message
    (folder / "pictures" / "a.png").unlink()
    (folder / "pictures" / "b.raw").unlink()
    assert "no pictures" in refused(folder, "pictures").message
    both = Options("host", picture=LINE, image=folder / "x.png", inputs=folder / "x.npz")
    with pytest.raises(TinycError, match="ways to give inputs"):
        look(folder / "unit.tflite", both, Listening(), Progress())


def test_the_example_sees_its_pictures() -> None:
    """From the lines of a camera to a label, on a Cortex-M4."""
    pytest.importorskip("PIL.Image", reason="needs Pillow")
    options = ["--picture", str(EXAMPLE / "camera.toml"), "--image", str(EXAMPLE / "pictures"), "--input-rows"]
    words = [str(EXAMPLE / "colors.onnx"), *options, "--labels", str(EXAMPLE / "colors.calib.npz")]
    ran = CliRunner().invoke(app, ["run", *words, "--board", "cortex-m4", "--effort", "fast"])
    assert ran.exit_code == 0, ran.output
    seen = dict(line.split()[:2] for line in ran.output.splitlines() if ".png" in line)
    assert seen == {f"{color}.png": color for color in ("blue", "green", "grey", "red")}
    assert "16 output bytes against the integer reference: all equal" in ran.output


NAMES = ("red-ish", "green-ish", "blue-ish")


def color_model(path: Path, outputs: Sequence[str]) -> Path:
    """A classifier with names of its own: which color there is most of. `label` is the class, `zipped` the scores."""
    kernel, learning = np.zeros((3, 3, 3, 3), np.float32), {"domain": "ai.onnx.ml"}
    kernel[:, :, 1, 1] = np.eye(3)
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["features"]),
        helper.make_node(
            "LinearClassifier", ["features"], ["label", "scores"], coefficients=np.eye(3).ravel().tolist(),
            intercepts=[0.0] * 3, classlabels_strings=NAMES, post_transform="SOFTMAX", **learning,
        ),
        helper.make_node("ZipMap", ["scores"], ["zipped"], classlabels_strings=NAMES, **learning),
        helper.make_node("ArgMax", ["features"], ["place"], axis=1, keepdims=0),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "colors",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 4, 5])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(kernel, "kernel")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture
def colored(tmp_path: Path) -> dict[str, Any]:
    """Four pictures of which one color is the strongest, and how to look at them."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    (tmp_path / "pictures").mkdir()
    for index, color in enumerate((2, 0, 1, 2)):
        pixels = noise((4, 5, 3), index) // 4
        pixels[..., color] += 150
        image.fromarray(pixels).save(tmp_path / "pictures" / f"{index}.png")
    typical = np.random.default_rng(1).uniform(0, 255, (40, 1, 3, 1, 1)) * np.ones((4, 5))
    np.savez(tmp_path / "calib.npz", x=typical.astype(np.float32))
    return {"picture": "rgb888:5x4", "image": tmp_path / "pictures", "calibration": tmp_path / "calib.npz"}


def foreign_labels(path: Path, pictures: Path) -> list[str]:
    """ONNX Runtime's `label` or `place` of each picture."""
    image = pytest.importorskip("PIL.Image")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = next(output.name for output in session.get_outputs() if output.name in ("label", "place"))
    labels_there = []
    for picture in sorted(pictures.iterdir()):
        x = np.asarray(image.open(picture), np.float32).transpose(2, 0, 1)[None]
        labels_there.append(str(np.ravel(session.run([name], {"x": x})[0])[0]))
    return labels_there


@pytest.mark.parametrize("outputs", [["label", "zipped"], ["zipped", "label"], ["place"]])
def test_without_a_file_the_names_are_those_of_the_model(
    outputs: list[str], colored: dict[str, Any], tmp_path: Path
) -> None:
    """And numbers, if it has none. Where the first output is the class itself, there is no score to print."""
    path = color_model(tmp_path / "colors.onnx", outputs)
    looking = tinyc.run(path, "host", **colored)
    assert isinstance(looking, Looking)
    foreign = foreign_labels(path, colored["image"])
    assert len(set(foreign)) == 3
    assert [seen.label for seen in looking.seen] == foreign
    assert [seen.score is None for seen in looking.seen] == [outputs[0] != "zipped"] * 4
    assert looking.passed


@pytest.mark.parametrize("outputs", [["zipped", "label"], ["label"], ["place"]])
def test_a_file_of_names_comes_before_those_of_the_model(
    outputs: list[str], colored: dict[str, Any], tmp_path: Path
) -> None:
    """A class that the file does not reach is a number; scores need a name each."""
    path = color_model(tmp_path / "colors.onnx", outputs)
    looking = tinyc.run(path, "host", labels=["rot", "gruen", "blau"], **colored)
    assert isinstance(looking, Looking)
    assert [seen.label for seen in looking.seen] == ["blau", "rot", "gruen", "blau"]
    if outputs[0] == "zipped":
        with pytest.raises(TinycError, match="there are 2 labels; the model's output 'zipped' has 3 elements"):
            tinyc.run(path, "host", labels=["rot", "gruen"], **colored)
    else:
        fewer = tinyc.run(path, "host", labels=["rot", "gruen"], **colored)
        assert isinstance(fewer, Looking)
        assert [seen.label for seen in fewer.seen] == ["2", "rot", "gruen", "2"]


def test_numbers_where_nobody_has_names(folder: Path) -> None:
    """Of the output's elements, each with its score, as a person reads it."""
    words = ["--picture", LINE, "--input-rows", "--image", str(folder / "pictures"), "--board", "host"]
    ran = CliRunner().invoke(app, ["run", str(folder / "unit.tflite"), *words])
    assert ran.exit_code == 0, ran.output
    graph, camera = graph_of(folder / "unit.tflite"), load_camera(LINE).of((5, 6), 3)
    frame = as_frames(camera, noise((10, 12, 3))[None])[0].reshape(10, 24)
    x, y = graph.values["x"], graph.values["y"]
    assert x.quant is not None
    assert y.quant is not None
    output = run_int(graph, {"x": camera.quantized(frame, *x.quant.per_tensor)[None]}, Numerics.TFLM)["y"].reshape(-1)
    scale, zero = y.quant.per_tensor
    cells = ["a.png", str(output.argmax()), f"{scale * (int(output.max()) - zero):.2f}"]
    assert ran.stdout.splitlines()[0].split() == cells


def test_a_class_is_printed_without_a_score(colored: dict[str, Any], tmp_path: Path) -> None:
    path = color_model(tmp_path / "colors.onnx", ["label", "zipped"])
    words = [f"--{name}={value}" for name, value in colored.items()]
    ran = CliRunner().invoke(app, ["run", str(path), *words, "--board", "host"])
    assert ran.exit_code == 0, ran.output
    assert [line.split() for line in ran.stdout.splitlines() if ".png" in line] == [
        ["0.png", "blue-ish"],
        ["1.png", "red-ish"],
        ["2.png", "green-ish"],
        ["3.png", "blue-ish"],
    ]
