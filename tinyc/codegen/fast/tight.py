"""Exact fast convolutions (`winograd.py`) with less scratch, for arenas that peak at such a layer.

The sums over rows of four channels at a time, not of all, wait for those over columns, and a pair of tiles leaves to
the next what its outputs may write over, not sums (runtime_c/tc_tight.h): scratch is little more than the factors. The
products are the same functions. For 2x2 outputs only: with 4x4 the factors are most of the scratch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

from tinyc.codegen.fast import winograd
from tinyc.codegen.fast.bilinear import F2, Form
from tinyc.codegen.fast.text import layer_text, named, parts_of
from tinyc.codegen.fast.tiles import Tiles
from tinyc.codegen.fast.transforms import horizontal_function, vertical_function
from tinyc.codegen.finish import GROUP
from tinyc.codegen.thumb import Work
from tinyc.kernels import Call, Cost, Kernel, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, is_s8

_STEPS = 2  # of four channels
_MOST = 256  # products times fours of channels: places in a table of bytes
_MOST_PADDING = 2  # left; as many columns of the input are kept
_CALL_COST = Work(50, 80)  # instructions of the loop over columns, around its calls


def _inline(form: Form, in_c: int) -> bool:
    return in_c <= winograd.INLINE_CHANNELS[form.name]


def plan(site: Site, p: ConvParams, form: Form) -> winograd.Plan:
    """As `winograd.plan`, with the functions of the inputs of four channels."""
    work = winograd.plan(site, p, form, _inline(form, p.w.shape[3]))
    parts, vertical, horizontal = _inputs(work.tiles, tuple(work.order))
    text = layer_text(site, p, work.tiles, winograd.products_text(work.tiles), work.order, "tc_tight_run")
    text = text.replace("VERTICAL", parts[0].name).replace("HORIZONTAL", parts[1].name)
    return replace(work, parts=parts, vertical=vertical, horizontal=horizontal, text=text)


@lru_cache(maxsize=64)
def _inputs(
    tiles: Tiles, order: tuple[tuple[int, int], ...]
) -> tuple[tuple[Special, Special], tuple[Work, Work], Work]:
    """Functions for four channels of tiles.in_c; what a call of the first and each column of it, and a call of the
    second execute."""
    vertical, around, column = vertical_function("@", replace(tiles, in_c=GROUP), tiles.in_c)
    horizontal, horizontal_count = horizontal_function("@", tiles, list(order), _STEPS)
    return parts_of(tiles, vertical, horizontal, list(order), _STEPS), (around, column), horizontal_count


def specialize(site: Site, p: ConvParams, form: Form) -> Special:
    """The functions of the layer."""
    work = plan(site, p, form)
    special = named(f"{NAMES[form.name]}_i{work.tiles.in_c}_o{work.tiles.out_c}", work.text, work.parts)
    return replace(special, includes=("tc_tight.h",))


def lower(site: Site, p: ConvParams, form: Form) -> Call:
    """One call for the whole image. Right of its outputs, what a pair of tiles has read is read again by the next."""
    call = winograd.lower(site, p, form, _inline(form, p.w.shape[3]))
    assert call.flow is not None
    assert call.flow.across is not None
    across = call.flow.across
    return replace(call, flow=replace(call.flow, across=replace(across, ahead=across.columns)))


def scratch(site: Site, p: ConvParams, form: Form) -> int:
    """Factors, columns that are kept, and a pair of tiles where tiles leave the image."""
    tiles = winograd.plan(site, p, form, _inline(form, p.w.shape[3])).tiles
    kept: int = form.n * p.attrs.pad.left * tiles.in_c
    return winograd.scratch(site, p, form, tiles.inline) - 4 * tiles.strip_words + kept


def cost(site: Site, p: ConvParams, form: Form) -> Cost:
    """Instructions exact but for the loop over the tiles, estimated."""
    work = plan(site, p, form)
    whole = winograd.cost(site, p, form, work.tiles.inline)
    _, out_h, out_w, _ = site.y().shape
    pairs = -(-out_h // form.m) * -(-out_w // (2 * form.across.m))
    around, column = work.vertical
    quads = work.tiles.quads * (around + work.tiles.columns * column + work.horizontal + _CALL_COST)
    total = pairs * (quads + work.products + winograd.PAIR_COST)
    return replace(whole, instructions=total.instructions, cycles=total.cycles, scratch_bytes=scratch(site, p, form))


def _takes(site: Site, form: Form) -> bool:
    products = form.products * form.across.products
    in_c = site.x(1).shape[3]
    if in_c % GROUP or products * in_c // GROUP > _MOST or site.attrs.pad.left > _MOST_PADDING:
        return False
    return winograd.TAKES[form.name](site)


def takes_f2(site: Site) -> bool:
    """input channels in fours up to 64, at most 2 columns of padding on the left, 3x3 weights, stride 1, no dilation,
    one group, output channels in fours up to 1364, and factors of products that are proved to fit"""
    return _takes(site, F2)


NAMES = {"f2": "tc_conv2d_3x3_s8_tight2_asm"}
KERNELS = tuple(
    Kernel(
        NAMES[form.name],
        partial(lower, form=form),
        isa=frozenset({"dsp"}),
        when=(is_s8, takes),
        scratch=partial(scratch, form=form),
        specialize=partial(specialize, form=form),
        cost=partial(cost, form=form),
    )
    for form, takes in ((F2, takes_f2),)
)
