# SPDX-License-Identifier: Apache-2.0
"""picture: the pixels of a camera's frame that are wanted, as int8 red, green and blue, or grey.

x uint8 [1,H,U,B], lines of U units of B bytes as the camera gives them -> y int8 [1,R,W,C], where y + 128 is the pixel.

RGB565: the upper bits of a component fill its lower ones. YUV 4:2:2: BT.601, in 1 / 2^16. Bayer: what a pixel lacks is
the mean of its neighbours that have it, and beyond the border the picture is its mirror image. Grey of colours: (19595
R + 38470 G + 7471 B + 2^15) / 2^16, as Pillow has it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import pairwise

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Condition,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    RowIndex,
    Rows,
    Struct,
    offered,
)
from tinyc.kernel.site import Site, Type
from tinyc.kernel.windows import check_image, row_bytes
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, no_reals

LUMA = (19595, 38470, 7471)
BYTES = {"grey": (1, 0, 0, 0), "rgb888": (3, 0, 1, 2), "bgr888": (3, 2, 1, 0)}  # of a pixel; where red, green, blue lie
RGB565 = {"rgb565": 0, "rgb565be": 1}  # whether the upper byte of a pixel comes first
YUV422 = {"yuyv": (0, 1, 3), "yvyu": (0, 3, 1), "uyvy": (1, 0, 2), "vyuy": (1, 2, 0)}  # where the first Y, U and V lie
BAYER = {"bayer-rggb": (0, 0), "bayer-grbg": (0, 1), "bayer-gbrg": (1, 0), "bayer-bggr": (1, 1)}  # a red pixel's place
FORMATS = (*BYTES, *RGB565, *YUV422, *BAYER)
FULL = (0, 65536, 91881, 22553, 46802, 116130)  # black's Y; factors of Y, of V in R, of U and V in G, of U in B
VIDEO = (16, 76309, 104597, 25675, 53279, 132201)
_MOST = 32767  # rows or columns


@dataclass(frozen=True, slots=True)
class Picture:
    """format: one of FORMATS. rows, columns: those of the frame that are wanted, in this order. channels: 3, or 1 for
    grey. swapped: blue comes first. video: Y goes from 16 to 235, and not from 0 to 255."""

    format: str
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    channels: int = 3
    swapped: bool = False
    video: bool = False


def unit_of(format_name: str) -> tuple[int, int]:
    """(pixels, bytes) of what a line of the camera consists of."""
    if format_name in YUV422:
        return 2, 4
    return 1, BYTES[format_name][0] if format_name in BYTES else 2 if format_name in RGB565 else 1


def infer(a: Picture, x: Value) -> Sequence[Type]:
    check_image(x, "picture")
    need(x, "the frame", "u8")
    if a.format not in FORMATS:
        raise TinycError(f"'{a.format}' is no format of pixels; there are {', '.join(FORMATS)}")
    _, in_h, units, in_c = x.shape
    pixels, size = unit_of(a.format)
    if in_c != size or a.channels not in (1, 3):
        raise TinycError(f"picture: {a.format} has units of {size} bytes, not {in_c}; it makes 1 or 3 channels")
    for picked, n in ((a.rows, in_h), (a.columns, units * pixels)):
        if not picked or min(picked) < 0 or max(picked) >= n or n > _MOST:
            raise TinycError(f"picture picks rows or columns outside a frame of {in_h}x{units * pixels}")
    if a.format in BAYER and min(in_h, units) < 2:
        raise TinycError(f"a Bayer frame has two rows and columns at least, not {in_h}x{units}")
    return [Type((1, len(a.rows), len(a.columns), a.channels), "s8")]


def prepare(site: Site) -> Picture:
    a: Picture = site.attrs
    return Picture(a.format, a.rows, a.columns, a.channels, a.swapped, a.video)


def int_ref(p: Picture, x: Array) -> tuple[Array, ...]:
    return (decoded(p, x),)


def decoded(p: Picture, x: Array) -> Array:
    """uint8 [N,H,U,B] -> int8 [N,R,W,C], of many frames at once."""
    if p.format in BYTES:
        colors = _of_bytes(p, x)
    elif p.format in RGB565:
        colors = _of_rgb565(p, x)
    elif p.format in YUV422:
        colors = _of_yuv422(p, x)
    else:
        colors = _of_bayer(p, x)
    if p.channels == 1 and colors.shape[-1] == 3:
        colors = grey_of(colors)
    elif p.channels == 3 and colors.shape[-1] == 1:
        colors = np.repeat(colors, 3, axis=-1)
    elif p.swapped and p.channels == 3:
        colors = colors[..., ::-1]
    return np.ascontiguousarray((colors ^ 128).astype(np.uint8).view(np.int8))


def grey_of(colors: Array) -> Array:
    """[.., 3] from 0 to 255 -> [.., 1]."""
    return np.asarray(colors.astype(np.int32) @ np.array(LUMA, np.int32)[:, None] + (1 << 15)) >> 16


def _picked(p: Picture, x: Array) -> Array:
    rows, columns = np.array(p.rows), np.array(p.columns)
    return np.asarray(x[:, rows[:, None], columns])


def _of_bytes(p: Picture, x: Array) -> Array:
    step, *places = BYTES[p.format]
    return _picked(p, x) if step == 1 else _picked(p, x)[..., places]


def _of_rgb565(p: Picture, x: Array) -> Array:
    high = RGB565[p.format]
    pair = _picked(p, x).astype(np.int32)
    v = pair[..., 1 - high] << 8 | pair[..., high]
    r, g, b = v >> 11, v >> 5 & 63, v & 31
    return np.stack([r << 3 | r >> 2, g << 2 | g >> 4, b << 3 | b >> 2], axis=-1)


def _of_yuv422(p: Picture, x: Array) -> Array:
    luma, *chroma = YUV422[p.format]
    black, y_factor, r_v, g_u, g_v, b_u = VIDEO if p.video else FULL
    columns = np.array(p.columns)
    units = x[:, np.array(p.rows)[:, None], columns // 2].astype(np.int32)
    light = (np.where(columns % 2, units[..., luma + 2], units[..., luma]) - black) * y_factor + (1 << 15)
    u, v = (units[..., place] - 128 for place in chroma)
    sums = [light] if p.channels == 1 else [light + r_v * v, light - g_u * u - g_v * v, light + b_u * u]
    return np.clip(np.stack(sums, axis=-1) >> 16, 0, 255)


def _of_bayer(p: Picture, x: Array) -> Array:
    red_row, red_column = BAYER[p.format]
    rows, columns = np.array(p.rows), np.array(p.columns)
    padded = np.pad(x[..., 0].astype(np.int32), ((0, 0), (1, 1), (1, 1)), mode="reflect")

    def beside(down: int, right: int) -> Array:
        return np.asarray(padded[:, (rows + 1 + down)[:, None], columns + 1 + right])

    own = beside(0, 0)
    across, along = beside(0, -1) + beside(0, 1), beside(-1, 0) + beside(1, 0)
    corners = beside(-1, -1) + beside(-1, 1) + beside(1, -1) + beside(1, 1)
    cross, corner, flat, steep = (across + along + 2) >> 2, (corners + 2) >> 2, (across + 1) >> 1, (along + 1) >> 1
    in_red_row, in_red_column = ((rows - red_row) % 2 == 0)[:, None], (columns - red_column) % 2 == 0
    red = np.where(in_red_row, np.where(in_red_column, own, flat), np.where(in_red_column, steep, corner))
    blue = np.where(in_red_row, np.where(in_red_column, corner, steep), np.where(in_red_column, flat, own))
    green = np.where(in_red_row == in_red_column, cross, own)
    return np.stack([red, green, blue], axis=-1)


# ---- kernels ----


def family(format_name: str) -> str:
    """The kernel's: `bytes`, `rgb565`, `yuv422` or `bayer`."""
    kinds: Mapping[str, Container[str]] = {"bytes": BYTES, "rgb565": RGB565, "yuv422": YUV422, "bayer": BAYER}
    return next(name for name, formats in kinds.items() if format_name in formats)


def has_whole_bytes(site: Site) -> bool:
    """grey, or a byte for each color"""
    return family(site.attrs.format) == "bytes"


def has_16_bits(site: Site) -> bool:
    """RGB565"""
    return family(site.attrs.format) == "rgb565"


def shares_color(site: Site) -> bool:
    """YUV 4:2:2"""
    return family(site.attrs.format) == "yuv422"


def is_mosaic(site: Site) -> bool:
    """a Bayer mosaic"""
    return family(site.attrs.format) == "bayer"


def lower(site: Site, p: Picture) -> Call:
    """The whole frame."""
    return _call(site, p, (Params(), In(0), Out()))


def _call(site: Site, p: Picture, args: tuple[Arg, ...], geometry: Rows | None = None) -> Call:
    """columns: null where they follow each other from the first on."""
    follow = p.columns == tuple(range(p.columns[0], p.columns[0] + len(p.columns)))
    fields: dict[str, int | float | str | Const] = {
        "rows": Const(np.array(p.rows, np.int16), "[out_h]", "rows"),
        "columns": 0 if follow else Const(np.array(p.columns, np.int16), "[out_w]", "columns"),
        "first": p.columns[0],
        "line": row_bytes(site.x(0)),
        "out_h": len(p.rows),
        "out_w": len(p.columns),
        "channels": p.channels,
        **_fields(site, p),
    }
    return Call(args, Struct(f"tc_picture_{family(p.format)}_t", fields), geometry)


def _fields(site: Site, p: Picture) -> dict[str, int]:
    """Those of the format. Blue first is the same with red and blue in each other's place, wherever that says it."""
    swapped = p.swapped and p.channels == 3
    if p.format in BYTES:
        step, *places = BYTES[p.format]
        return dict(zip(("step", "red", "green", "blue"), (step, *(places[::-1] if swapped else places)), strict=True))
    if p.format in RGB565:
        return {"high": RGB565[p.format], "swapped": int(swapped)}
    if p.format in BAYER:
        row, column = BAYER[p.format]
        return {"height": site.x().shape[1], "red_row": row ^ swapped, "red_column": column ^ swapped}
    luma, u, v = YUV422[p.format]
    black, factor, r_v, g_u, g_v, b_u = VIDEO if p.video else FULL
    if swapped:
        u, v, r_v, g_u, g_v, b_u = v, u, b_u, g_v, g_u, r_v
    names = ("luma", "u", "v", "black", "factor", "r_v", "g_u", "g_v", "b_u")
    return dict(zip(names, (luma, u, v, black, factor, r_v, g_u, g_v, b_u), strict=True))


def of_pixels(site: Site, p: Picture) -> Units:
    """Elements, pixels and rows."""
    pixels = len(p.rows) * len(p.columns)
    return {"element": p.channels * pixels, "pixel": pixels, "line": len(p.rows)}


def table_bytes(site: Site, p: Picture) -> int:
    """Of what says which rows and columns are taken."""
    return 2 * len(p.rows) + (0 if p.columns[-1] - p.columns[0] + 1 == len(p.columns) else 2 * len(p.columns))


def cost(site: Site, p: Picture) -> Cost:
    return _COSTS[family(p.format)](site, p)


_COSTS = {
    kind: CountedCost(f"tc_picture_{kind}", of_pixels, flash=table_bytes)
    for kind in ("bytes", "rgb565", "yuv422", "bayer")
}


def row_forms(site: Site, p: Picture) -> tuple[RowForm, ...]:
    """Each row is made of one line, of a mosaic of it and those beside it."""
    in_h, out_h, window = site.x().shape[1], len(p.rows), 1
    first = p.rows
    if p.format in BAYER:
        window = min(3, in_h)
        first = tuple(min(max(row - 1, 0), in_h - window) for row in p.rows)
    if any(after < before for before, after in pairwise(first)):
        return ()
    starts = Const(np.array(first, np.int16), "[out_h] the first line that a row is made of", "starts")
    rows = Rows(in_h, out_h, window, 1, 0, 1, row_bytes(site.x()), row_bytes(site.y()), None, starts=starts)
    index = (RowIndex(),) if p.format in BAYER else ()
    whole, name = cost(site, p), f"tc_picture_{family(p.format)}_row"
    form_cost = Cost(whole.instructions, whole.flash_bytes + starts.data.nbytes, 0)
    call = _call(site, p, (Params(), In(0), *index, Out()), rows)
    return (RowForm(call, 0, form_cost, direct=window == 1, function=name, includes=(f"{name}.h",)),)


def _kernel(kind: str, is_kind: Condition, *, anywhere: bool = False) -> Kernel:
    offer = offered(lower, cost=_COSTS[kind], row_forms=row_forms)
    return Kernel(f"tc_picture_{kind}", offer, when=(is_kind,), anywhere=anywhere)


OP = Op(
    name="picture",
    attrs=Picture,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        _kernel("bytes", has_whole_bytes, anywhere=True),  # gcc joins two equal channels of grey
        _kernel("rgb565", has_16_bits),
        _kernel("yuv422", shares_color),
        _kernel("bayer", is_mosaic),
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
