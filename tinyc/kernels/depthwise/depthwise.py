# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d on Cortex-M with DSP, one output per input channel: a function in assembly for each layer.

`planes.py` writes the function; here is which one a layer gets, its constants and its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    Fetches,
    In,
    Kernel,
    Once,
    Out,
    Scratch,
    SpecializedKernel,
    WrittenCode,
    planned,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.depthwise.plane_channels import MASKS
from tinyc.kernels.depthwise.plane_layer import PlaneLayer, row_words
from tinyc.kernels.depthwise.planes import function, layer_function
from tinyc.kernels.finish import Finish, Requantization
from tinyc.kernels.form.plan import WrittenPlan
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.stream import IN_PLANES, RAISED, WIDE, Packing, as_words, depthwise_matrix_of, in_halves
from tinyc.machine.thumb import Asm, Naked, Work

NAME = "tc_depthwise_conv2d_s8_asm"

_PITCH_LIMIT = 480  # bytes of a plane row: what the offsets of STRD reach
_LEAST_CHANNELS = 4  # loads take four
_STACKED_WORDS = 64  # of narrow weights of a channel: what the portable twin has room for
_BITS = {"s4": (4,), "s8": (8, 16), "s16": (16,)}  # of a weight in flash, by its type; the fewest that are proved
_BANDS = (1, 2, 4, 8)  # output rows per band that are tried, beside all rows
_SCRATCH_SHARE = 8  # planes may take 1/8 of the input ...
_CALL_COST = Work(20, 30)  # instructions of a step, or of a row's loop, around a call
_SMALL_CODE = 1024  # bytes of code that a small cache holds, all but the beginning
_LESS_CODE = 704  # bytes of code, where flash is short
_SCRATCH_FREE = 2048  # ... or this many bytes, where more rows save instructions


PlanePlan = WrittenPlan[PlaneLayer, Finish]
Layer = TypeVar("Layer", bound=PlaneLayer)


Choices = Callable[
    [PlaneLayer], Iterator[PlaneLayer]
]  # the functions that may run a layer, of the one with a single band


def plan(site: Site, p: ConvParams, choices: Choices) -> PlanePlan | None:
    """The function that takes the least time; None where none fits or no requantization is proved."""
    if not takes(site):
        return None
    matrix = depthwise_matrix_of(p)
    narrowest = proved(site, matrix)
    if narrowest is None:
        return None
    bits, finish = narrowest
    fitting = [layer for layer in choices(layer_of(site, p, finish.requant, bits, PlaneLayer)) if _fits(layer)]
    if not fitting:
        return None
    written = {layer: writing(_written, layer) for layer in fitting if not _is_slower(layer, fitting)}
    best = min(written, key=lambda layer: (written[layer][1].cycles, layer.scratch_bytes))
    return PlanePlan(best, finish, matrix, *writing(_moved, best))


def _is_slower(layer: PlaneLayer, others: Sequence[PlaneLayer]) -> bool:
    """Whether the bands of another one say so, or that it is the same with columns for rows, whose places are further
    apart: then nobody needs its text to know."""
    if layer.transposed and layer.stays_in_order and _with_near_columns(layer) in others:
        return True
    return any(other.is_quicker_than(layer) and replace(layer, band=other.band) == other for other in others)


def _with_near_columns(layer: PlaneLayer) -> PlaneLayer:
    """The layer upright, if that is as high and wide."""
    return replace(
        layer,
        in_step=layer.in_row,
        in_row=layer.in_step,
        out_step=layer.out_row,
        out_row=layer.out_step,
        transposed=False,
    )


def _written(layer: PlaneLayer) -> tuple[Asm, Work]:
    asm = function(layer)
    return asm, asm.work()


def _moved(layer: PlaneLayer) -> tuple[Naked, Work]:
    """Of the best of several functions alone instructions move; what a call executes then."""
    asm, _ = writing(_written, layer)
    asm.reorder()
    return Naked("@", layer.parameters, asm), asm.work()


def packing_of(site: Site) -> Packing:
    """How weights lie in registers: int8 ones with a scale of their own for each channel, int4 ones on top."""
    return RAISED if site.x(1).dtype == "s4" else WIDE


def proved(site: Site, matrix: Matrix) -> tuple[int, Finish] | None:
    """(bits of a weight in flash, how the layer is requantized); None where nothing is proved."""
    for bits in _BITS[site.x(1).dtype]:
        finish = IN_PLANES[bits].finish_of(matrix)
        if finish is not None:
            return bits, finish
    return None


def fast(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """As it is or with rows and columns exchanged, in bands of several heights."""
    limit = max(_SCRATCH_FREE, layer.in_h * layer.in_w * layer.channels // _SCRATCH_SHARE)
    for oriented in (layer, transposed(layer)):
        bands = sorted({band for band in (*_BANDS, oriented.out_h) if band <= oriented.out_h})
        bands = bands if _bands_in_place(oriented) else [oriented.out_h]
        layers = [replace(oriented, band=band) for band in bands]
        yield from [one for one in layers if one.scratch_bytes <= limit] or layers[:1]


def least_scratch(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """The same with the least scratch: planes of k_h rows."""
    both = [oriented for oriented in (layer, transposed(layer)) if _fits(oriented)]
    layers = [replace(oriented, band=1) if _bands_in_place(oriented) else oriented for oriented in both]
    yield from sorted(layers, key=lambda one: one.scratch_bytes)[:1]


def banded(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """Between the two: bands with at most 5/8 of the planes of the whole image."""
    layers = [one for one in fast(layer) if _fits(one)]
    limit = max((one.scratch_bytes for one in layers), default=0) * 5 // 8
    yield from [one for one in layers if one.scratch_bytes <= limit] or least_scratch(layer)


def paired(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """All rows in one band, but of two channels at a time: half the scratch for a little more unpacking."""
    layers = [replace(oriented, band=oriented.out_h, group=2) for oriented in (layer, transposed(layer))]
    yield from [one for one in layers if one.scratch_bytes <= _SCRATCH_FREE]


def short(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """A turn of the loop over output rows for each of them: less code, and a few cycles a row more."""
    for one in fast(layer):
        single = replace(one, most_unrolled=one.out_w)
        if single.turn < one.turn:
            yield single


def cut_in_rows(layer: PlaneLayer, most_code: int = _SMALL_CODE) -> Iterator[PlaneLayer]:
    """A single row without padding as several rows that overlap: their code is a loop that a small cache holds."""
    for oriented in (layer, transposed(layer)):
        if oriented.in_h == oriented.k_h == 1 and oriented.pad_left == 0 and oriented.columns <= oriented.in_w:
            layers = [_cut(oriented, rows) for rows in range(2, oriented.out_w // 2 + 1) if oriented.out_w % rows == 0]
            yield from [one for one in layers if _fits(one) and 4 * writing(_written, one)[0].lines <= most_code]


def cut_small(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """The same with less code."""
    yield from cut_in_rows(layer, _LESS_CODE)


def _cut(layer: PlaneLayer, rows: int) -> PlaneLayer:
    """The layer of one row with its outputs as so many rows."""
    out_w = layer.out_w // rows
    step = out_w * layer.stride_w
    return replace(
        layer,
        in_h=rows,
        in_w=step - layer.stride_w + layer.k_w,
        in_row=step * layer.in_step,
        out_h=rows,
        out_w=out_w,
        out_row=out_w * layer.out_step,
        stride_h=1,
        band=rows,
        most_unrolled=out_w,
    )


def _bands_in_place(layer: PlaneLayer) -> bool:
    """Whether the output of a band, from the start of the input on, overwrites only what was read already.

    Channels keep to their own bytes. A single band reads all of a channel first, whatever the shapes.
    """
    return layer.in_h == layer.out_h if layer.transposed else layer.out_w <= layer.in_w


def by_rows(layer: PlaneLayer) -> Iterator[PlaneLayer]:
    """One output row from pointers to the input rows."""
    yield of_row(layer)


def of_row(layer: Layer) -> Layer:
    """One output row of a layer."""
    return replace(layer, by_rows=True, in_h=layer.k_h, out_h=1, pad_top=0, band=1, stride_h=1, in_row=0, out_row=0)


def layer_of(site: Site, p: ConvParams, requant: Requantization, bits: int, kind: type[Layer]) -> Layer:
    """The whole image, upright, in one band."""
    k_h, k_w, channels = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    _, in_h, in_w, _ = site.x(0).shape
    _, out_h, out_w, _ = site.y().shape
    return kind(
        in_h=in_h,
        in_w=in_w,
        out_h=out_h,
        out_w=out_w,
        k_h=k_h,
        k_w=k_w,
        stride_h=window.stride.h,
        stride_w=window.stride.w,
        pad_top=window.pad.top,
        pad_left=window.pad.left,
        in_step=channels,
        in_row=in_w * channels,
        out_step=channels,
        out_row=out_w * channels,
        channels=channels,
        band=out_h,
        requant=requant,
        core=site.core,
        bits=bits,
    )


def transposed(layer: PlaneLayer) -> PlaneLayer:
    """The same layer with rows and columns exchanged."""
    return replace(
        layer,
        in_h=layer.in_w,
        in_w=layer.in_h,
        out_h=layer.out_w,
        out_w=layer.out_h,
        k_h=layer.k_w,
        k_w=layer.k_h,
        stride_h=layer.stride_w,
        stride_w=layer.stride_h,
        pad_top=layer.pad_left,
        pad_left=layer.pad_top,
        in_step=layer.in_row,
        in_row=layer.in_step,
        out_step=layer.out_row,
        out_row=layer.out_step,
        band=layer.out_w,
        transposed=not layer.transposed,
    )


def _fits(layer: PlaneLayer) -> bool:
    return (
        layer.stride_w in (1, 2)
        and layer.pad_top < layer.k_h
        and layer.pad_left < layer.k_w
        and layer.pitch <= _PITCH_LIMIT
        and max(layer.real_rows, layer.real_columns) < 2**15
        and layer.stacked_words <= _STACKED_WORDS
    )


def takes(site: Site) -> bool:
    """constant weights, 4 channels or more, one output per input channel, no dilation"""
    if not site.is_const(1) or site.x(1).shape[2] != site.x(0).shape[3] or site.attrs.dilation != (1, 1):
        return False
    return site.x(1).shape[2] >= _LEAST_CHANNELS


def special(work: PlanePlan, site: Site, p: ConvParams) -> SpecializedKernel:
    """The function of the layer."""
    layer = work.layer
    kind = ("_w4" if layer.bits == 4 else "") + ("_rows" if layer.by_rows else "")
    shape = f"k{layer.k_h}x{layer.k_w}_{layer.in_h}x{layer.in_w}x{layer.channels}"
    return layer_function(layer, work.function.text).named(f"{NAME}{kind}_{shape}", "tc_depthwise_planes.h")


def call(work: PlanePlan, site: Site, p: ConvParams) -> Call:
    """One call for the whole image, or for an output row."""
    words = Const(Once(lambda: _stream(work, p.x_zero)), "stream of tc_depthwise_planes.h", "stream")
    rows = None
    if work.layer.by_rows:
        rows = row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero)
    return Call((words, In(0), Out(), Scratch()), rows=rows)


def _stream(work: PlanePlan, x_zero: int) -> npt.NDArray[np.int32]:
    """The words of the layer: the zero point, then channel by channel."""
    layer = work.layer
    kernel = (layer.k_w, layer.k_h) if layer.transposed else (layer.k_h, layer.k_w)
    taps = scaled_taps(layer, work.finish, work.matrix).reshape(layer.channels, *kernel)
    if layer.transposed:
        taps = taps.transpose(0, 2, 1)
    taps = np.concatenate([taps, np.zeros((layer.channels, layer.k_h, 1), np.int64)], axis=2)  # tap -1
    low, high = np.array(row_words(layer.k_w, layer.stride_w)).T
    weights = in_halves(taps[:, :, low], taps[:, :, high])
    return words_of(layer, work.finish, work.matrix, weights.reshape(layer.channels, -1), x_zero)


def scaled_taps(layer: PlaneLayer, finish: Finish, matrix: Matrix) -> npt.NDArray[np.int64]:
    """Weights [C, taps] as registers have them."""
    scale = finish.weight_scale if layer.bits == 16 else np.full_like(finish.weight_scale, 16 - layer.bits)
    return np.asarray(((matrix.taps * finish.live[:, None]) << scale[:, None])[: layer.channels])


def words_of(
    layer: PlaneLayer, finish: Finish, matrix: Matrix, weights: npt.NDArray[np.int64], x_zero: int
) -> npt.NDArray[np.int32]:
    """The words of a layer from those of its weights [C, words]."""
    start = finish.start_values(matrix.p.bias.astype(np.int64))[: layer.channels, None]
    constants = finish.constants()[: layer.channels]
    parts = [start, weights, constants] if layer.bits == 16 else [narrow(weights, layer.bits), start, constants]
    rows = np.concatenate(parts, axis=1)
    zero = (x_zero & 0xFF) * 0x01010101
    return as_words(np.concatenate([[zero], rows.ravel()]))


def narrow(words: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    """[C, words] with weights in the upper bits of each half -> as many in a word as it has room for: the first word's
    on top."""
    each = 16 // bits
    padded = np.pad(words, ((0, 0), (0, -words.shape[1] % each))) & MASKS[bits]
    return np.asarray((padded.reshape(len(words), -1, each) >> (bits * np.arange(each))).sum(axis=2))


def cost(work: PlanePlan, site: Site, p: ConvParams) -> Cost:
    """Exact but for the row loop around the calls, and for padding instructions before aligned loops."""
    calls = site.y().shape[1] if work.layer.by_rows else 1
    words = 1 + work.layer.channels * work.layer.channel_words
    code = WrittenCode((NAME, work.layer), work.function.code_bytes)
    whole = calls * (work.executed + _CALL_COST)
    fetches = Fetches(4 * words * calls, _loops(work, calls, whole.instructions))
    return Cost(whole.instructions, 4 * words + code.size, work.layer.scratch_bytes, whole.cycles, fetches, code)


def _loops(work: PlanePlan, calls: int, executed: int) -> tuple[tuple[int, int], ...]:
    """(bytes, turns) of the loop over groups of channels, which is nearly all of the code, and of that within."""
    groups, inner = calls * work.layer.groups, work.function.inner_loop_bytes
    return (work.function.code_bytes, groups), (inner, max(-(-4 * executed // max(inner, 1)) - groups, 0))


_ASKS = (
    "stride 1 or 2 along rows (or columns) of at most 240 places, less padding than taps, planes that fit, and "
    "a requantization that is proved"
)
_ASKS_CUT = (
    "one row (or column) without padding that comes apart in equal pieces whose code takes at most {} bytes, stride 1 "
    "or 2, and a requantization that is proved"
)
_ASKS_SHORT = (
    "rows (or columns) of at most 13 outputs, several in a turn of the other loop, stride 1 or 2, less padding than "
    "taps, planes that fit, and a requantization that is proved"
)
_ASK: Mapping[Choices, str] = {
    cut_in_rows: _ASKS_CUT.format(_SMALL_CODE),
    cut_small: _ASKS_CUT.format(_LESS_CODE),
    short: _ASKS_SHORT,
}
_CHOICES: Mapping[str, Choices] = {
    "": fast,
    "_low_scratch": least_scratch,
    "_bands": banded,
    "_short": short,
    "_pairs": paired,
    "_cut": cut_in_rows,
    "_cut_small": cut_small,
}


def kernels(name: str, packing: Packing) -> Iterator[Kernel]:
    """A kernel for each way to choose planes. packing: of its weights."""
    for suffix, choices in _CHOICES.items():
        asks = _ASK.get(choices, _ASKS)
        yield Kernel(
            f"{name}{suffix}",
            planned(partial(plan, choices=choices), asks, call=call, cost=cost, special=special),
            isa=frozenset({"dsp"}),
            when=(packing.takes, takes),
            asks=asks,
            inplace=(0,),
            shrinks=True,
            written=True,
        )
