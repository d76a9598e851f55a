# SPDX-License-Identifier: Apache-2.0
"""Cameras: pixels against Pillow's and TensorFlow Lite Micro's, libraries against the Python function."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tinyc
from tests.ops.runtimes import run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.frontend import Camera, join_camera, load_camera
from tinyc.frontend.camera import Crop
from tinyc.ir.graph import Array, Graph, Quant
from tinyc.load import load_model
from tinyc.ops.picture import FORMATS
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

SIZES = [(10, 7), (53, 37), (100, 80), (1, 1), (13, 50)]  # width, height


def noise(shape: tuple[int, ...], seed: int = 1) -> Array:
    """uint8 over the whole range, and half of it at its ends."""
    rng = np.random.default_rng(seed)
    ends = rng.choice(np.array([0, 255], np.uint8), shape)
    return np.where(rng.random(shape) < 0.5, ends, rng.integers(0, 256, shape)).astype(np.uint8)


def frames(camera: Camera, count: int = 2, seed: int = 1) -> Array:
    lines, units, size = camera.frame_shape
    return noise((count, lines, units * size), seed)


@pytest.mark.parametrize("resize", ["nearest", "pillow-box", "pillow-bilinear"])
def test_pixels_are_pillows(resize: str) -> None:
    """Of the whole frame, and of a part of it."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    number = {"nearest": 0, "pillow-box": 4, "pillow-bilinear": 2}[resize]
    colors = noise((37, 53, 3))
    for width, height in SIZES:
        for crop in ("all", "31x20+5+17"):
            camera = load_camera(f"rgb888:53x37,resize={resize},crop={crop}").of((height, width), 3)
            box = (0, 0, 53, 37) if crop == "all" else (5, 17, 36, 37)
            theirs = np.asarray(image.fromarray(colors).crop(box).resize((width, height), number))
            np.testing.assert_array_equal(camera.pixels(colors.reshape(37, -1)), theirs)


def test_bilinear_is_tflites() -> None:
    """RESIZE_BILINEAR of int8 pixels with half-pixel centers, as TensorFlow Lite Micro computes it."""
    colors = noise((19, 26, 3))
    for width, height in ((10, 7), (26, 19), (40, 33), (1, 1)):
        out = (1, height, width, 3)
        tensors = [Tensor("x", (1, 19, 26, 3), "s8", (1.0,), (-128,)), Tensor("y", out, "s8", (1.0,), (-128,))]
        tensors.append(Tensor("n", (2,), "s32", data=np.array([height, width], np.int32)))
        fields = {"AlignCorners": False, "HalfPixelCenters": True}
        operator = Operator("RESIZE_BILINEAR", ("x", "n"), ("y",), "ResizeBilinearOptions", fields, 3)
        theirs = run_tflm(build_model(tensors, [operator], ["x"], ["y"]), (colors ^ 128).view(np.int8)[None])[0]
        pixels = load_camera("rgb888:26x19").of((height, width), 3).pixels(colors.reshape(19, -1))
        np.testing.assert_array_equal(pixels, theirs[0].view(np.uint8) ^ 128)


def test_area_is_the_mean_of_what_a_pixel_covers() -> None:
    """Of reals, which are rounded after the columns and after the rows."""
    colors = noise((37, 53, 3))
    for width, height in ((10, 7), (53, 37), (1, 1), (31, 36)):
        fine = np.repeat(np.repeat(colors.astype(float), height, 0), width, 1)
        exact = fine.reshape(height, 37, width, 53, 3).mean((1, 3))
        pixels = load_camera("rgb888:53x37,resize=area").of((height, width), 3).pixels(colors.reshape(37, -1))
        assert np.abs(pixels - exact).max() <= 1.01
        assert np.abs((pixels - exact).mean()) < 0.1


def test_enlarged_area_is_bilinear() -> None:
    camera = load_camera("grey:5x4,resize=area").of((9, 11), 1)
    other = replace(camera, resize="pillow-bilinear")
    np.testing.assert_array_equal(camera.pixels(frames(camera)), other.pixels(frames(camera)))


def picture_model(path: Path, shape: tuple[int, int, int], dtype: str = "s8", zero: int = -128) -> Path:
    """A convolution of stride 2 that sees a picture [height, width, channels]."""
    rng, (height, width, channels) = np.random.default_rng(3), shape
    tensors = [
        Tensor("x", (1, *shape), dtype, (1 / 255,), (zero,)),
        Tensor(
            "w", (4, 3, 3, channels), "s8", (0.01,), (0,), data=rng.integers(-127, 128, (4, 3, 3, channels), np.int8)
        ),
        Tensor("y", (1, -(-height // 2), -(-width // 2), 4), "s8", (0.03,), (5,)),
    ]
    fields = {"Padding": 0, "StrideW": 2, "StrideH": 2, "DilationWFactor": 1, "DilationHFactor": 1}
    inputs, nodes = "x", []
    if dtype == "u8":
        inputs = "x8"
        tensors.append(Tensor("x8", (1, *shape), "s8", (1 / 255,), (zero - 128,)))
        nodes = [Operator("QUANTIZE", ("x",), ("x8",), "QuantizeOptions", {})]
    nodes.append(
        Operator("CONV_2D", (inputs, "w", ""), ("y",), "Conv2DOptions", fields | {"FusedActivationFunction": 0})
    )
    path.write_bytes(build_model(tensors, nodes, ["x"], ["y"]))
    return path


def graph_of(path: Path) -> Graph:
    return normalize(load_model(path))


CASES = {
    "rgb888:11x9": (5, 6, 3),
    "rgb565:17x9,crop=fit,resize=area,mean=0.5,deviation=0.5": (5, 6, 3),
    "grey:12x10,resize=nearest,crop=7x9+5+1": (5, 6, 1),
    "uyvy:13x8,resize=pillow-bilinear,range=video,mean=0.485/0.456/0.406,deviation=0.229/0.224/0.225": (7, 4, 3),
    "bayer-gbrg:12x9,order=bgr": (4, 5, 3),
    "rgb565be:3x2,resize=bilinear": (7, 5, 1),
}


@pytest.mark.parametrize("line", CASES)
def test_the_graph_is_the_function_and_the_model(line: str, tmp_path: Path) -> None:
    graph = graph_of(picture_model(tmp_path / "unit.tflite", CASES[line]))
    joined, camera = join_camera(graph, load_camera(line))
    for seed in (1, 2):
        (frame,) = frames(camera, 1, seed)
        quantized = camera.quantized(frame, *graph.values["x"].quant.per_tensor)
        reference = run_int(graph, {"x": quantized[None]}, Numerics.TFLM)["y"]
        shaped = frame.reshape(1, *camera.frame_shape)
        np.testing.assert_array_equal(run_int(joined, {"frame": shaped}, Numerics.TFLM)["y"], reference)


@pytest.mark.parametrize("case", [(list(CASES)[1], True), (list(CASES)[4], True), (list(CASES)[3], False)], ids=str)
def test_libraries_take_frames(case: tuple[str, bool], tmp_path: Path) -> None:
    """By lines and whole, on this computer."""
    line, by_rows = case
    model = picture_model(tmp_path / "unit.tflite", CASES[line])
    report = verify_model(model, Options("host", picture=line, input_rows=by_rows, samples=4), Progress())
    assert report.passed
    assert report.input_rows == by_rows


def test_models_that_take_uint8(tmp_path: Path) -> None:
    """The table of pixels makes the int8 that the model begins with: nothing between them."""
    graph = graph_of(picture_model(tmp_path / "unit.tflite", (5, 6, 3), "u8", 0))
    joined, camera = join_camera(graph, load_camera("rgb888:6x5"))
    frame = noise((1, 5, 6, 3))
    reference = run_int(graph, {"x": frame}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(run_int(joined, {"frame": frame}, Numerics.TFLM)["y"], reference)
    assert [node.op for node in joined.nodes] == ["picture", "conv2d"]
    np.testing.assert_array_equal(camera.pixels(frame[0]), frame[0])


def test_frames_in_any_number() -> None:
    camera = tinyc.picture("yuyv:9x6,resize=area", (3, 4))
    many = frames(camera, 40)
    pixels = camera.quantized(many, 1 / 255, -128)
    assert pixels.shape == (40, 3, 4, 3)
    for k in (0, 15, 16, 39):
        np.testing.assert_array_equal(camera.quantized(many[k], 1 / 255, -128), pixels[k])
    np.testing.assert_array_equal(camera.features(many), (camera.pixels(many) / 255).astype(np.float32))
    np.testing.assert_array_equal(pixels, np.round(camera.features(many) * 255 - 128).astype(np.int8))
    assert camera.pixels(many.reshape(8, 5, 6, 5, 4)).shape == (8, 5, 3, 4, 3)
    assert camera.pixels(many[:0]).shape == (0, 3, 4, 3)


def test_values_of_pixels() -> None:
    """They are rounded once, and saturate."""
    camera = Camera("rgb888", 4, 4, peak=2.0, mean=(0.25, 0.5, 1.0), deviation=(0.5, 1.0, 0.125)).of((4, 4), 3)
    table = camera.tables(Quant((0.02,), (3,)))
    pixel = np.arange(256, dtype=np.uint8).view(np.int8).astype(float) + 128
    for mean, deviation, own in zip(camera.mean, camera.deviation, table, strict=True):
        exact = (pixel * 2 / 255 - mean) / deviation / 0.02 + 3
        assert np.abs(own - np.clip(exact, -128, 127)).max() <= 0.5 + 1e-9
    assert (table.min(), table.max()) == (-128, 127)
    assert Camera("grey", 4, 4).of((4, 4), 3).tables(Quant((1 / 255,), (-128,))).shape == (256,)


@pytest.mark.parametrize(
    ("model", "part"),
    [((96, 96), Crop(40, 0, 240, 240)), ((90, 160), Crop(0, 30, 320, 180)), ((1, 320), Crop(0, 119, 320, 1))],
)
def test_the_part_that_fits(model: tuple[int, int], part: Crop) -> None:
    assert load_camera("grey:320x240,crop=fit").of(model, 1).part == part


def test_settings_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "camera.toml"
    path.write_text(
        'format = "uyvy"\nwidth = 320\nheight = 240\ncrop = "200x100"\nresize = "area"\norder = "bgr"\n'
        'range = "video"\npeak = 255\nmean = [1, 2, 3]\ndeviation = 2\nsize = "64x48"\n'
    )
    expected_camera = Camera(
        "uyvy", 320, 240, Crop(60, 70, 200, 100), False, "area", True, True, 255, (1, 2, 3), (2,), (48, 64)
    )
    assert load_camera(str(path)) == expected_camera
    line = "uyvy:320x240,crop=200x100,resize=area,order=bgr,range=video,peak=255,mean=1/2/3,deviation=2,size=64x48"
    assert load_camera(line) == expected_camera
    assert tinyc.picture(line).pixels(frames(expected_camera)).shape == (2, 48, 64, 3)
    path.write_text('format = "grey"\nwidth = 320\nheight = 0\n')
    with pytest.raises(TinycError, match="'height' must be from 1") as error:
        load_camera(str(path))
    assert "camera.toml:3" in str(error.value.where)


BAD = {
    "rgb565": "says no format and size",
    "rgb999:320x240": "'format' is 'rgb999'; it must be one of: grey, rgb888",
    "grey:0x4": "'width' must be from 1 to 8192, not 0",
    "grey:9000x4": "'width' must be from 1 to 8192, not 9000",
    "grey:32x24,crop=fits": "it is all, fit, WIDTHxHEIGHT",
    "grey:32x24,crop=40x10": "40x10, which does not lie in a frame of 32x24",
    "grey:32x24,crop=10x10+23+0": r"part 10x10\+23\+0 does not lie in a frame of 32x24",
    "grey:32x24,crop=0x10": "does not lie",
    "grey:32x24,resize=cubic": "must be one of: nearest, bilinear, area",
    "grey:32x24,range=video": "is for YUV; the format is grey",
    "grey:32x24,mean=a": "'mean=a' is no KEY=NUMBER",
    "grey:32x24,deviation=0": "must be from 1e-06",
    "grey:32x24,colour=1": "'colour' is not a key",
    "grey:32x24,size=96": "it is WIDTHxHEIGHT",
    "bayer-rggb:1x4": "two rows and columns at least",
    "missing.toml": "cannot read the camera's settings",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_settings_are_errors(line: str) -> None:
    with pytest.raises(TinycError, match=BAD[line]):
        load_camera(line)


def test_what_does_not_fit_is_an_error(tmp_path: Path) -> None:
    camera = load_camera("rgb565:8x6").of((3, 4), 3)
    with pytest.raises(TinycError, match=r"6 lines of 16 bytes of rgb565; these are uint8 \[6, 8\]"):
        camera.pixels(np.zeros((6, 8), np.uint8))
    with pytest.raises(TinycError, match="these are int16"):
        camera.pixels(np.zeros((6, 16), np.int16))
    with pytest.raises(TinycError, match="nothing says how large"):
        tinyc.picture("rgb565:8x6")
    with pytest.raises(TinycError, match=r"say 5x4 \(height x width\), the model's input has 3x4"):
        tinyc.picture("rgb565:8x6,size=4x5", (3, 4))
    with pytest.raises(TinycError, match="`mean` has 2 numbers; the model's input has 3 channels"):
        tinyc.picture("rgb565:8x6,mean=1/2", (3, 4))
    for size in ((0, 4), (3.5, 4), (1,), "4x4"):
        with pytest.raises(TinycError, match="two whole numbers, height and width, from 1 to 8192"):
            tinyc.picture("rgb565:8x6", size)  # type: ignore[arg-type]
    with pytest.raises(TinycError, match="1 or 3 channels, the model's input has 4"):
        load_camera("rgb565:8x6").of((3, 4), 4)
    graph = graph_of(picture_model(tmp_path / "unit.tflite", (5, 6, 4)))
    with pytest.raises(TinycError, match=r"input 'x' s8 \[1, 5, 6, 4\] is no picture with 1 or 3 channels"):
        join_camera(graph, load_camera("rgb565:8x6"))
    options = Options("host", picture="grey:4x4", incremental=1)
    with pytest.raises(TinycError, match="takes frames of a camera"):
        verify_model(tmp_path / "unit.tflite", options, Progress())


def test_every_format_is_taken() -> None:
    for name in FORMATS:
        for size in ((1, 1), (3, 7)):
            camera = load_camera(f"{name}:5x3,resize=area").of(size, 3)
            full = np.full((1, *camera.frame_shape), 255, np.uint8)
            assert camera.pixels(full).shape == (1, *size, 3)
            if name not in ("yuyv", "uyvy", "yvyu", "vyuy"):
                assert (camera.pixels(full) == 255).all()
                assert (camera.pixels(full * 0) == 0).all()
