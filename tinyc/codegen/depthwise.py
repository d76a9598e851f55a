"""depthwise_conv2d on Cortex-M with DSP, one output per input channel: a function in assembly for each layer.

`planes.py` writes the function; here is which one a layer gets, its constants and its cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tinyc.codegen.finish import Finish, Way
from tinyc.codegen.planes import Layer, function_text, row_words
from tinyc.codegen.stream import Matrix, wide
from tinyc.kernels import Call, Const, Cost, In, Kernel, Out, Scratch, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, Window, conv_params, is_s8

NAME = "tc_depthwise_conv2d_s8_asm"

_PITCH_LIMIT = 480  # bytes of a plane row: what the offsets of STRD reach
_LEAST_CHANNELS = 4  # loads take four
_BANDS = (1, 2, 4, 8)  # output rows per band that are tried, beside all rows
_SCRATCH_SHARE = 8  # planes may take 1/8 of the input ...
_SCRATCH_FREE = 2048  # ... or this many bytes, where more rows save instructions


@dataclass(frozen=True, slots=True)
class Plan:
    """How a depthwise_conv2d is made: its function, the proof behind its constants, its weights [C, K]."""

    layer: Layer
    finish: Finish
    matrix: Matrix
    text: str
    executed: int


def plan(site: Site, p: ConvParams) -> Plan:
    """The cheapest function whose planes take little scratch. ValueError where `takes_planes` would say no."""
    matrix = _matrix(p)
    finish = wide(matrix)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    layers = tuple(_layers(site, p, finish.way))
    written = {layer: _written(layer) for layer in layers}
    best = min(layers, key=lambda layer: (written[layer][1], layer.scratch_bytes))
    return Plan(best, finish, matrix, *written[best])


@lru_cache(maxsize=512)
def _written(layer: Layer) -> tuple[str, int]:
    return function_text("@", layer)


def _matrix(p: ConvParams) -> Matrix:
    return Matrix.of(p, p.w.reshape(-1, p.w.shape[2]).T)


def _layers(site: Site, p: ConvParams, way: Way) -> Iterator[Layer]:
    """The candidates: the image as it is or with rows and columns exchanged, in bands of several heights."""
    upright = _layer(site, p, way)
    for layer in (upright, _transposed(upright)):
        if not _fits(layer):
            continue
        limit = max(_SCRATCH_FREE, layer.in_h * layer.in_w * layer.channels // _SCRATCH_SHARE)
        bands = sorted({band for band in (*_BANDS, layer.out_h) if band <= layer.out_h})
        choices = [replace(layer, band=band) for band in bands]
        yield from [choice for choice in choices if choice.scratch_bytes <= limit] or choices[:1]


def _layer(site: Site, p: ConvParams, way: Way) -> Layer:
    k_h, k_w, channels = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    _, in_h, in_w, _ = site.x(0).shape
    _, out_h, out_w, _ = site.y().shape
    return Layer(
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
        way=way,
    )


def _transposed(layer: Layer) -> Layer:
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
    )


def _fits(layer: Layer) -> bool:
    return (
        layer.stride_w in (1, 2)
        and layer.pad_top < layer.k_h
        and layer.pad_left < layer.k_w
        and layer.pitch <= _PITCH_LIMIT
        and max(layer.real_rows, layer.real_columns) < 2**15
    )


def takes_planes(site: Site) -> bool:
    """4 channels or more, one output per input channel, no dilation, column stride 1 or 2, less padding than taps,
    rows of at most 240 columns, and a requantization that is proved for int16 weights"""
    if not site.is_const(1) or site.x(1).shape[2] != site.x(0).shape[3] or site.attrs.dilation != (1, 1):
        return False
    if site.x(1).shape[2] < _LEAST_CHANNELS:
        return False
    p = conv_params(site, 2)
    finish = wide(_matrix(p))
    return finish is not None and any(True for _ in _layers(site, p, finish.way))


def specialize(site: Site, p: ConvParams) -> Special:
    """The function of the layer."""
    work = plan(site, p)
    layer = work.layer
    digest = hashlib.sha256(work.text.encode()).hexdigest()[:6]
    shape = f"k{layer.k_h}x{layer.k_w}s{layer.stride_h}_{layer.in_h}x{layer.in_w}x{layer.channels}"
    name = f"{NAME}_{shape}_{digest}"
    return Special(name, work.text.replace("@", name), ("tc_depthwise_planes.h",))


def lower(site: Site, p: ConvParams) -> Call:
    """One call for the whole image."""
    work = plan(site, p)
    words = Const(_stream(work, p.x_zero), "stream of tc_depthwise_planes.h", "stream")
    return Call((words, In(0), Out(), Scratch()))


def _stream(work: Plan, x_zero: int) -> npt.NDArray[np.int32]:
    """The words of the layer: the zero point, then channel by channel."""
    layer, finish, matrix = work.layer, work.finish, work.matrix
    scaled = (matrix.taps * finish.live[:, None]) << finish.weight_scale[:, None]
    taps = scaled[: layer.channels].reshape(layer.channels, *_upright(layer))
    if layer.in_step != layer.channels:
        taps = taps.transpose(0, 2, 1)
    taps = np.concatenate([taps, np.zeros((layer.channels, layer.k_h, 1), np.int64)], axis=2)  # tap -1
    low, high = np.array(row_words(layer.k_w, layer.stride_w)).T
    weights = (taps[:, :, low] & 0xFFFF) | ((taps[:, :, high] & 0xFFFF) << 16)
    start = finish.start_values(matrix.p.bias.astype(np.int64))[: layer.channels, None]
    constants = finish.constants()[: layer.channels]
    rows = np.concatenate([start, weights.reshape(layer.channels, -1), constants], axis=1)
    zero = (x_zero & 0xFF) * 0x01010101
    words = np.concatenate([[zero], rows.ravel()])
    return (words & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _upright(layer: Layer) -> tuple[int, int]:
    """(k_h, k_w) of the operator."""
    return (layer.k_h, layer.k_w) if layer.in_step == layer.channels else (layer.k_w, layer.k_h)


def cost(site: Site, p: ConvParams) -> Cost:
    """Exact."""
    work = plan(site, p)
    flash = 4 * (1 + work.layer.channels * work.layer.channel_words + work.text.count("\\n"))
    return Cost(work.executed, flash, work.layer.scratch_bytes)


KERNEL = Kernel(
    NAME,
    lower,
    isa=frozenset({"dsp"}),
    when=(is_s8, takes_planes),
    scratch=lambda site, p: plan(site, p).layer.scratch_bytes,
    inplace=(0,),
    specialize=specialize,
    cost=cost,
)
