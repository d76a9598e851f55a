# SPDX-License-Identifier: Apache-2.0
"""Pictures from files, as a library with a camera before its model is given them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.base.files import plain_file, read_file
from tinyc.frontend import Camera
from tinyc.frontend.encoding import as_frames
from tinyc.ir.graph import Array, Value
from tinyc.reference.samples import Samples

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm"})  # what Pillow reads
RAW = ".raw"  # frames as the camera gave them, one after the other


def files_of(path: Path) -> list[Path]:
    """The file, or the pictures and frames of a folder in the order of their names. TinycError where there are none."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PICTURES | {RAW})
    if not files:
        kinds = ", ".join(sorted(PICTURES | {RAW}))
        raise TinycError("the folder holds no pictures", Loc(str(path)), f"files that count: {kinds}")
    return files


def pictured(path: Path, camera: Camera, value: Value) -> tuple[Samples, list[str]]:
    """What the camera gives of the pictures at `path`, as inputs `value`; and the name of each.

    A picture has the frame's size; a file that ends in .raw holds whole frames. TinycError, with what the file has and
    what is needed, where they do not fit.
    """
    frames, names = [], []
    for file in files_of(path):
        pictures = _raw(file, camera) if file.suffix.lower() == RAW else as_frames(camera, _colors(file, camera)[None])
        frames.append(pictures)
        names += [
            file.name if len(pictures) == 1 else f"{file.name}, frame {number}" for number in range(len(pictures))
        ]
    return Samples({value.name: np.concatenate(frames)}, None, str(path)), names


def _raw(file: Path, camera: Camera) -> Array:
    try:
        held = np.frombuffer(read_file(file), np.uint8)
    except OSError as error:
        raise TinycError(
            f"cannot read the frames: {error.strerror}", Loc(str(file)), "give a file of frames"
        ) from error
    needed = int(np.prod(camera.frame_shape))
    if held.size == 0 or held.size % needed:
        raise TinycError(
            f"the file has {held.size:,} bytes; a frame of {camera.width}x{camera.height} {camera.format} has "
            f"{needed:,}",
            Loc(str(file)),
            "a .raw file holds whole frames, one behind the other, without a header",
        )
    return held.reshape(-1, *camera.frame_shape)


def _colors(file: Path, camera: Camera) -> Array:
    """uint8 [height, width, 3]."""
    where = Loc(str(file))
    image_of = load_extra("PIL.Image", "pictures", "reading pictures", where)
    if not file.is_file():
        raise TinycError("cannot read the picture: there is no such file", where, "give the path of a picture")
    try:
        with image_of.open(plain_file(file)) as opened:
            colors = np.asarray(opened.convert("RGB"))
    except Exception as error:  # whatever the reader of its format raises
        raise TinycError("this is not a readable picture", where, f"give a PNG, or frames in a {RAW} file") from error
    if colors.shape[:2] != (camera.height, camera.width):
        raise TinycError(
            f"the picture is {colors.shape[1]}x{colors.shape[0]}; the camera gives {camera.width}x{camera.height}",
            where,
            "resize or cut it to the frame's size, or change the size in --picture",
        )
    return colors
