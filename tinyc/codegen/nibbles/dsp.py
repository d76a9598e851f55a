"""Weighted layers with int4 weights on Cortex-M with DSP: the functions of int8 layers.

Weights of conv2d and fully_connected lie as weighted/fours.py says; those of depthwise_conv2d are unpacked once
per channel of a band.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tinyc.codegen.depthwise import depthwise
from tinyc.codegen.nibbles.portable import is_s8_w4
from tinyc.codegen.rows import conv as rows_conv
from tinyc.codegen.rows import depthwise as rows_depthwise
from tinyc.codegen.stream import fours
from tinyc.codegen.weighted import conv, fully_connected, layer
from tinyc.kernels import Condition, Kernel
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams

_DENSE_NAME = "tc_fully_connected_s8_w4_asm"


def takes_conv2d(site: Site) -> bool:
    """one group, at most 4092 output channels, and a requantization that is proved for int4 weights"""
    return site.is_const(1) and conv.takes(site, fours)


def takes_conv2d_fpu(site: Site) -> bool:
    """one group, at most 4092 output channels and 256 taps of more than one pixel, and a requantization that is
    proved for int4 weights"""
    return conv.is_held(site) and takes_conv2d(site)


def takes_dense(site: Site) -> bool:
    """at most 4092 outputs, and a requantization that is proved for int4 weights"""
    return site.is_const(1) and fully_connected.takes(site, fours)


def _conv2d(name: str, condition: Condition, fpu: bool) -> Kernel:
    def work(site: Site, p: ConvParams) -> layer.Plan:
        return conv.plan(site, p, fours, fpu=fpu)

    return Kernel(
        name,
        lambda site, p: layer.call(work(site, p)),
        isa=frozenset({"dsp", "fpu"} if fpu else {"dsp"}),
        when=(is_s8_w4, condition),
        scratch=lambda site, p: work(site, p).scratch_bytes,
        specialize=lambda site, p: layer.special(work(site, p), name),
        cost=lambda site, p: layer.cost(work(site, p)),
        row_forms=partial(rows_conv.row_forms, fit=fours, family=name, fpu=fpu),
    )


def _dense(site: Site, p: ConvParams) -> layer.Plan:
    return fully_connected.plan(site, p, fours)


CONV2D = (
    _conv2d("tc_conv2d_s8_w4_fpu_asm", takes_conv2d_fpu, fpu=True),
    _conv2d("tc_conv2d_s8_w4_asm", takes_conv2d, fpu=False),
)
DENSE = (
    Kernel(
        _DENSE_NAME,
        lambda site, p: layer.call(_dense(site, p)),
        isa=frozenset({"dsp"}),
        when=(is_s8_w4, takes_dense),
        scratch=lambda site, p: _dense(site, p).scratch_bytes,
        specialize=lambda site, p: layer.special(_dense(site, p), _DENSE_NAME),
        cost=lambda site, p: layer.cost(_dense(site, p)),
    ),
)
DEPTHWISE = tuple(
    replace(
        kernel,
        name=kernel.name.replace("_s8_", "_s8_w4_"),
        when=(is_s8_w4, *kernel.when[1:]),
        row_forms=rows_depthwise.planes_form,
    )
    for kernel in depthwise.KERNELS
)
