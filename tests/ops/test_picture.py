# SPDX-License-Identifier: Apache-2.0
"""picture, resample_columns, resample_rows, lookup_channels: every kernel, whole and row by row, at the edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import one_node, tensor
from tests.ops.row_harness import check_rows
from tests.target.picture_cases import picture, picture_cases
from tinyc.base.errors import TinycError
from tinyc.frontend.resizing import taps_of
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Value
from tinyc.ops import all_ops
from tinyc.ops.picture import BAYER, FORMATS, RGB565, YUV422, Picture, decoded, family, infer, unit_of
from tinyc.ops.resample_columns import BITS, ResampleColumns, Taps
from tinyc.ops.resample_rows import ResampleRows
from tinyc.ops.signals import COUNT

Layer = tuple[Graph, Sequence[Mapping[str, Array]]]


def layer(graph: Graph) -> Layer:
    """With noise, and with nothing but both ends of the range."""
    (name,) = graph.inputs
    x, rng = graph.values[name], np.random.default_rng(8)
    info = np.iinfo(NUMPY_DTYPE[x.dtype])
    noise = rng.integers(info.min, info.max + 1, x.shape).astype(info.dtype)
    ends = rng.choice(np.array([info.min, info.max], info.dtype), x.shape)
    return graph, [{name: array} for array in (noise, ends, np.full(x.shape, info.max, info.dtype))]


def whole(name: str, height: int, width: int, channels: int = 3) -> Graph:
    """All pixels of a frame."""
    return picture(Picture(name, tuple(range(height)), tuple(range(width)), channels, video=True), height, width)


def edges() -> dict[str, Layer]:
    """Small frames, odd widths, borders."""
    graphs = {f"case {number}": graph for number, graph in enumerate(picture_cases())}
    for name in FORMATS:
        least = 2 if name in BAYER else 1
        graphs[f"{name}, least"] = whole(name, least, least)
        graphs[f"{name}, odd"] = whole(name, 3, 5, 1)
        graphs[f"{name}, corner"] = picture(Picture(name, (3,), (4,), swapped=True), 4, 5)
    graphs["rows again"] = picture(Picture("rgb888", (0, 0, 2, 2), (1, 1, 0)), 3, 2)
    pixels = tensor("x", (1, 5, 9, 3), 1.0, -128)
    for resize in ("area", "pillow-box", "pillow-bilinear"):
        for n, m in ((5, 1), (5, 5), (5, 8)):
            taps = ResampleRows(taps_of(resize, n, m))
            graphs[f"{resize}, {n} to {m} rows"] = one_node("resample_rows", taps, [pixels], 1.0, -128)
        for n, m in ((9, 1), (9, 4), (9, 11)):
            taps_across = ResampleColumns(taps_of(resize, n, m))
            graphs[f"{resize}, {n} to {m} columns"] = one_node("resample_columns", taps_across, [pixels], 1.0, -128)
    return {name: layer(graph) for name, graph in graphs.items()}


def test_row_by_row() -> None:
    layers = edges()
    by_rows = {name: one for name, one in layers.items() if one[0].nodes[0].op != "lookup_channels"}
    assert len(check_rows(by_rows)) >= len(by_rows)


@pytest.mark.parametrize("kind", ["bytes", "rgb565", "yuv422", "bayer", "resample_columns", "resample_rows", "lookup"])
def test_kernels(kind: str) -> None:
    """A layer of each kind, made whole; tests/target runs all cases so."""
    graphs = [one for one in edges().values() if _kind(one[0]).startswith(kind)]
    graph, samples = graphs[len(graphs) // 2]
    assert len(check_kernels(graph, samples)) == (4 if kind == "lookup" else 1)


@pytest.mark.parametrize("rows", [3, 5, 8])
def test_means_of_two_rows(rows: int) -> None:
    """Loops make them, of any number of elements; each kernel gives the reference's bytes."""
    taps = ResampleRows(taps_of("pillow-bilinear", 4, rows))
    for width in (1, 5, 11, 43):
        x = tensor("x", (1, 4, width, 3), 1.0, -128)
        assert len(check_kernels(*layer(one_node("resample_rows", taps, [x], 1.0, -128)))) == 4


def _kind(graph: Graph) -> str:
    node = graph.nodes[0]
    return family(node.attrs.format) if node.op == "picture" else node.op


@pytest.mark.parametrize("name", RGB565)
def test_rgb565_is_the_nearest_of_8_bits(name: str) -> None:
    """What is cut off of a color comes back within its own step, and both ends are kept."""
    pixels = np.arange(1 << 16, dtype=np.uint16).astype("<u2" if name == "rgb565" else ">u2")
    frame = pixels.view(np.uint8).reshape(1, 256, 256, 2)
    back = decoded(Picture(name, tuple(range(256)), tuple(range(256))), frame).view(np.uint8) ^ 128
    v = np.arange(1 << 16).reshape(1, 256, 256)
    exact = np.stack([(v >> 11) * 255 / 31, (v >> 5 & 63) * 255 / 63, (v & 31) * 255 / 31], -1)
    assert np.abs(back - exact).max() <= 0.75
    np.testing.assert_array_equal(back[exact % 255 == 0], exact[exact % 255 == 0])


@pytest.mark.parametrize("video", [False, True])
@pytest.mark.parametrize("name", YUV422)
def test_yuv_is_bt601(name: str, video: bool) -> None:
    """The formula in reals, rounded, over colors that cover the cube."""
    rng = np.random.default_rng(2)
    y, u, v = rng.integers(0, 256, (2, 64, 100)), rng.integers(0, 256, (64, 50)), rng.integers(0, 256, (64, 50))
    luma, at_u, at_v = YUV422[name]
    frame = np.zeros((1, 64, 50, 4), np.uint8)
    frame[0, ..., luma], frame[0, ..., luma + 2] = y[0, :, ::2], y[0, :, 1::2]
    frame[0, ..., at_u], frame[0, ..., at_v] = u, v
    pixels = decoded(Picture(name, tuple(range(64)), tuple(range(100)), video=video), frame).view(np.uint8) ^ 128
    light = (y[0] - 16) * 255 / 219 if video else y[0].astype(float)
    cb, cr = (np.repeat(c - 128, 2, 1) * (255 / 224 if video else 1) for c in (u, v))
    k_r, k_b = 0.299, 0.114
    r, b = light + 2 * (1 - k_r) * cr, light + 2 * (1 - k_b) * cb
    g = light - (2 * k_b * (1 - k_b) * cb + 2 * k_r * (1 - k_r) * cr) / (1 - k_r - k_b)
    exact = np.clip(np.stack([r, g, b], -1), 0, 255)
    assert np.abs(pixels[0] - exact).max() < 0.51


@pytest.mark.parametrize("name", BAYER)
def test_a_mosaic_of_one_color_is_that_color(name: str) -> None:
    """Of an even picture all is known; a pixel's own color stays."""
    picked = Picture(name, tuple(range(6)), tuple(range(5)))
    row, column = BAYER[name]
    lines, columns = np.arange(6)[:, None] % 2 == row, np.arange(5) % 2 == column
    frame = np.where(lines & columns, 200, np.where(lines | columns, 90, 7)).astype(np.uint8)
    assert (lines ^ columns).any()
    pixels = decoded(picked, frame.reshape(1, 6, 5, 1)).view(np.uint8) ^ 128
    np.testing.assert_array_equal(pixels, np.broadcast_to(np.array([200, 90, 7]), pixels.shape))


def test_grey_is_pillows() -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    colors = np.random.default_rng(1).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    theirs = np.asarray(image.fromarray(colors).convert("L"))
    pixels = decoded(Picture("rgb888", tuple(range(40)), tuple(range(50)), 1), colors[None])[0, ..., 0]
    np.testing.assert_array_equal(pixels.view(np.uint8) ^ 128, theirs)


BAD = [
    (Picture("rgb999", (0,), (0,)), (4, 4, 3), "no format of pixels"),
    (Picture("rgb888", (0,), (0,)), (4, 4, 2), "units of 3 bytes"),
    (Picture("rgb888", (4,), (0,)), (4, 4, 3), "outside a frame of 4x4"),
    (Picture("yuyv", (0,), (8,)), (4, 4, 4), "outside a frame of 4x8"),
    (Picture("bayer-rggb", (0,), (0,)), (1, 4, 1), "two rows and columns"),
    (Picture("grey", (), (0,)), (4, 4, 1), "outside a frame"),
    (Picture("grey", (0,), (0,), 2), (4, 4, 1), "1 or 3 channels"),
]


@pytest.mark.parametrize(("attrs", "shape", "message"), BAD)
def test_frames_that_do_not_fit_are_errors(attrs: Picture, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TinycError, match=message):
        infer(attrs, Value("x", (1, *shape), "u8", COUNT))
    assert unit_of("yuyv") == (2, 4)


@pytest.mark.parametrize(
    "taps", [Taps((3,), ((1 << BITS, 0),)), Taps((0,), ((1 << 21,),)), Taps((0,), ((1 << 23, -1),))]
)
def test_taps_that_are_no_means_are_errors(taps: Taps) -> None:
    for attrs in (ResampleColumns(taps), ResampleRows(taps)):
        with pytest.raises(TinycError, match=r"outside|no means"):
            one_node(_name(attrs), attrs, [tensor("x", (1, 4, 4, 3), 1.0, -128)])


def _name(attrs: object) -> str:
    return next(name for name, op in all_ops().items() if isinstance(attrs, op.attrs))
