# SPDX-License-Identifier: Apache-2.0
"""What makes a model's input of a camera's frame, as one-node graphs, for kernel_cases.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.ops.one_node import one_node, tensor
from tinyc.frontend.resizing import taps_of
from tinyc.ir.graph import Graph, Value
from tinyc.ops.lookup_channels import LookupChannels
from tinyc.ops.picture import BAYER, BYTES, RGB565, YUV422, Picture, unit_of
from tinyc.ops.resample_columns import ResampleColumns
from tinyc.ops.resample_rows import ResampleRows
from tinyc.ops.signals import COUNT


def picture(attrs: Picture, height: int, width: int) -> Graph:
    """Of a frame of that size."""
    pixels, size = unit_of(attrs.format)
    frame = Value("x", (1, height, -(-width // pixels), size), "u8", COUNT)
    return one_node("picture", attrs, [frame], 1.0, -128)


def picture_cases() -> Iterator[Graph]:
    """Every format, colors and grey, all columns and some of them."""
    some, parts = (1, 2, 4, 6), ((0, 1, 2, 3, 4), (2, 3, 4, 5, 6))
    for number, name in enumerate((*BYTES, *RGB565, *YUV422, *BAYER)):
        yield picture(Picture(name, *parts, 3, swapped=number % 2 == 1, video=number % 3 == 0), 5, 7)
        yield picture(Picture(name, (0, 2, 4), some, 1 + 2 * (number % 2), video=True), 5, 7)
    x = tensor("x", (1, 9, 7, 3), 1.0, -128)
    one = tensor("x", (1, 7, 9, 1), 1.0, -128)
    yield one_node("resample_columns", ResampleColumns(taps_of("area", 7, 3)), [x], 1.0, -128)
    yield one_node("resample_columns", ResampleColumns(taps_of("pillow-bilinear", 9, 13)), [one], 1.0, -128)
    yield one_node("resample_rows", ResampleRows(taps_of("area", 9, 4)), [x], 1.0, -128)
    yield one_node("resample_rows", ResampleRows(taps_of("pillow-bilinear", 7, 3)), [one], 1.0, -128)
    yield one_node("resample_rows", ResampleRows(taps_of("pillow-bilinear", 7, 9)), [one], 1.0, -128)
    table = np.random.default_rng(3).integers(-128, 128, (3, 256)).astype(np.int8)
    yield one_node("lookup_channels", LookupChannels(), [x, tensor("t", (3, 256), 0.1, 7)], 0.1, 7, {"t": table})
