# SPDX-License-Identifier: Apache-2.0
"""What `--picture` names: a TOML file with the settings of a camera, or a line with the same in short.

rgb565:320x240,crop=fit,resize=area
"""

from __future__ import annotations

import re
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.board.table import TomlTable
from tinyc.frontend.camera import MOST_SIDE, Camera, Crop
from tinyc.frontend.resizing import RESIZES
from tinyc.frontend.settings import read_settings
from tinyc.ops.picture import FORMATS, YUV422

_PAGE = "docs/picture.md"
_KIND = "camera's settings"
_ORDERS, _RANGES = ("rgb", "bgr"), ("full", "video")
_SHORT = re.compile(r"(?P<format>[a-z0-9-]+):(?P<width>\d{1,6})x(?P<height>\d{1,6})(?:,(?P<rest>.*))?")
_SIZE = re.compile(r"(\d{1,6})x(\d{1,6})(?:\+(\d{1,6})\+(\d{1,6}))?")
_WORDS = ("crop", "resize", "order", "range", "size")  # whose values are no numbers


def load_camera(name: str) -> Camera:
    """The camera of that TOML file, or of that line. TinycError naming file, line and key."""
    if name.endswith(".toml"):
        table = read_settings(name, _KIND, _PAGE)
        try:
            return _camera(table)
        except TinycError as error:
            raise error.located(Loc(name)).hinted(f"{_PAGE} has the keys, and what they may be") from error
    match = _SHORT.fullmatch(name)
    if match is None:
        hint = f"give a .toml file, or FORMAT:WIDTHxHEIGHT[,KEY=VALUE,...], like rgb565:320x240,crop=fit: {_PAGE}"
        raise TinycError(f"--picture '{name}' says no format and size", hint=hint)
    held: dict[str, Any] = {"format": match["format"], "width": int(match["width"]), "height": int(match["height"])}
    for part in filter(None, (match["rest"] or "").split(",")):
        key, _, value = part.partition("=")
        held[key.strip()] = value.strip() if key.strip() in _WORDS else _numbers(part, value)
    return _camera(TomlTable(held, "", "", f"--picture {name}", _KIND, _PAGE))


def _numbers(part: str, value: str) -> float | list[float]:
    """`0.5`, or `0.485/0.456/0.406`."""
    try:
        numbers = [float(word) for word in value.split("/")]
    except ValueError as error:
        raise TinycError(f"--picture: '{part}' is no KEY=NUMBER", hint=f"{_PAGE} has the keys") from error
    return numbers if len(numbers) > 1 else numbers[0]


def _camera(table: TomlTable) -> Camera:
    usual = Camera("grey", 1, 1)
    format_name = table.choice("format", FORMATS)
    crop = table.string("crop", "all")
    size = table.string("size", "model")
    if table.has("range") and format_name not in YUV422:
        raise table.error("range", f"is for YUV; the format is {format_name}")
    mean, deviation = (table.numbers(key, default, least, 1e6) for key, default, least in _SCALES)
    camera = Camera(
        format=format_name,
        width=_side(table, "width"),
        height=_side(table, "height"),
        crop=None if crop in ("all", "fit") else _crop(table, crop),
        fits=crop == "fit",
        resize=table.choice("resize", RESIZES) if table.has("resize") else usual.resize,
        blue_first=table.has("order") and table.choice("order", _ORDERS) == "bgr",
        video=table.has("range") and table.choice("range", _RANGES) == "video",
        peak=table.number("peak", usual.peak, 1e-6, 1e6),
        mean=mean,
        deviation=deviation,
        size=None if size == "model" else _two(table, size),
    )
    table.finish()
    return camera


_SCALES = (("mean", (0.0,), -1e6), ("deviation", (1.0,), 1e-6))


def _side(table: TomlTable, key: str) -> int:
    return table.integer(key, None, 1, MOST_SIDE)


def _crop(table: TomlTable, text: str) -> Crop:
    """`240x240+40+0`, or `240x240`: in the middle."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise table.error("crop", f"is '{text}'; it is all, fit, WIDTHxHEIGHT or WIDTHxHEIGHT+LEFT+TOP")
    width, height = int(match[1]), int(match[2])
    if match[3] is not None:
        return Crop(int(match[3]), int(match[4]), width, height)
    across, down = _side(table, "width") - width, _side(table, "height") - height
    if min(across, down) < 0:
        frame = f"{_side(table, 'width')}x{_side(table, 'height')}"
        raise table.error("crop", f"is {width}x{height}, which does not lie in a frame of {frame}")
    return Crop(across // 2, down // 2, width, height)


def _two(table: TomlTable, text: str) -> tuple[int, int]:
    """`96x96`, width and height, as (height, width)."""
    match = _SIZE.fullmatch(text)
    if match is None or match[3] is not None or "0" in (match[1], match[2]):
        raise table.error("size", f"is '{text}'; it is WIDTHxHEIGHT, that of the model's input")
    return int(match[2]), int(match[1])
