# SPDX-License-Identifier: Apache-2.0
"""`tinyc run --image` and `tinyc verify --image`: pictures and frames from files, and those that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tinyc
from tests.frontend.test_picture import graph_of, noise, picture_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.cli.app import app
from tinyc.frontend import load_camera
from tinyc.frontend.encoding import as_frames
from tinyc.ops.picture import FORMATS
from tinyc.pipeline.hearing import Listening
from tinyc.pipeline.looking import Looking, look
from tinyc.pipeline.options import Options, Progress
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
    wanted = smooth if name != "grey" else np.repeat(as_frames(camera, smooth[None])[0], 3, -1)
    inner = slice(1, -1) if name.startswith("bayer") else slice(None)
    off = np.abs(camera.pixels(as_frames(camera, smooth[None]))[0].astype(int) - wanted)[inner, inner]
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
    found = tinyc.run(folder / "unit.tflite", "host", labels=labels, **ways)
    assert isinstance(found, Looking)
    graph, camera = graph_of(folder / "unit.tflite"), load_camera(LINE).of((5, 6), 3)
    frames = [*as_frames(camera, noise((10, 12, 3))[None]).reshape(1, 10, 24), *noise((2, 10, 24), 5)]
    inputs = [{"x": camera.quantized(frame, *graph.values["x"].quant.per_tensor)[None]} for frame in frames]
    outputs = [run_int(graph, one, Numerics.TFLM)["y"].reshape(-1) for one in inputs]
    assert [seen.label for seen in found.seen] == [f"class {output.argmax()}" for output in outputs]
    assert [seen.picture for seen in found.seen] == ["a.png", "b.raw, frame 0", "b.raw, frame 1"]
    assert found.passed
    assert (found.output_bytes, found.mismatches) == (3 * 36, 0)


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
