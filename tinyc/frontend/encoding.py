# SPDX-License-Identifier: Apache-2.0
"""Pictures of red, green and blue as the bytes that a camera would give of them: to try a library on files."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.frontend.camera import Camera
from tinyc.ir.graph import Array
from tinyc.ops.picture import BAYER, BYTES, RGB565, YUV422, grey_of

_VIDEO_LUMA, _VIDEO_COLOR = 219 / 255, 224 / 255  # of the full range


def as_frames(camera: Camera, colors: Array) -> npt.NDArray[np.uint8]:
    """uint8 [n, height, width, 3] of the frame's size -> uint8 [n, lines, units of a line, bytes of a unit].

    What the format cannot hold is cut off (RGB565), averaged over a pair (the color of YUV) or left out (Bayer).
    """
    x = colors.astype(np.int32)
    name = camera.format
    if name in BYTES:
        step, *places = BYTES[name]
        frames = grey_of(x) if step == 1 else x[..., places]
    elif name in RGB565:
        v = x[..., 0] >> 3 << 11 | x[..., 1] >> 2 << 5 | x[..., 2] >> 3
        low, high = v & 255, v >> 8
        frames = np.stack([high, low] if RGB565[name] else [low, high], axis=-1)
    elif name in YUV422:
        frames = _yuv422(camera, x)
    else:
        row, column = BAYER[name]
        own = (np.arange(x.shape[1]) - row)[:, None] % 2 + (np.arange(x.shape[2]) - column) % 2
        frames = np.take_along_axis(x, np.broadcast_to(own[..., None], (*x.shape[:3], 1)), -1)
    return np.ascontiguousarray(frames.astype(np.uint8))


def _yuv422(camera: Camera, x: Array) -> Array:
    """BT.601; the last column of an odd width is there twice."""
    even = np.concatenate([x, x[:, :, -1:]], axis=2) if x.shape[2] % 2 else x
    y = even @ np.array([0.299, 0.587, 0.114])
    u, v = (even[..., 2] - y) / 1.772, (even[..., 0] - y) / 1.402
    if camera.video:
        y, u, v = 16 + _VIDEO_LUMA * y, _VIDEO_COLOR * u, _VIDEO_COLOR * v
    luma, at_u, at_v = YUV422[camera.format]
    units = np.empty((*even.shape[:2], even.shape[2] // 2, 4))
    units[..., luma], units[..., luma + 2] = y[:, :, ::2], y[:, :, 1::2]
    units[..., at_u], units[..., at_v] = (128 + (part[:, :, ::2] + part[:, :, 1::2]) / 2 for part in (u, v))
    return np.clip(np.round(units), 0, 255)
