# SPDX-License-Identifier: Apache-2.0
"""Conv: of one to three dimensions, any stride, padding, dilation and groups."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.onnx.windows import ONE, RANK_OF_VOLUMES, lines, window
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D


@imports("Conv")
def conv(s: OnnxStep) -> None:
    """w [O,I/groups,KH,KW] (or [O,I/groups,K]) -> conv2d, or depthwise_conv2d if every channel is a group. Those of
    three dimensions: `volumes.py`."""
    weights = s.weights(1)  # for the shape; `weight` has the elements, which may be integers
    shape = s.value(0).shape
    rank = len(shape)
    if weights.ndim != rank or rank not in (3, 4, 5):
        raise TinycError(
            f"weights {list(weights.shape)} and an input of rank {rank}: only 1-D, 2-D and 3-D convolution is known",
            s.where,
        )
    groups, in_c = s.node.int_("group", 1), shape[1]
    given = s.node.ints("kernel_shape")
    if given is not None and given != weights.shape[2:]:
        raise TinycError(f"kernel_shape {list(given)} does not fit weights {list(weights.shape)}", s.where)
    if groups < 1 or weights.shape[1] * groups != in_c or weights.shape[0] % groups:
        raise TinycError(f"weights {list(weights.shape)} in {groups} groups do not fit {in_c} channels", s.where)
    sliding = lines(s, shape[2:], weights.shape[2:])
    bias = _bias(s, weights.shape[0]) if s.has(2) else None
    if rank == RANK_OF_VOLUMES:
        from tinyc.load.onnx import volumes  # noqa: PLC0415  for models of volumes alone

        volumes.conv(s, groups, sliding, bias)
        return
    x = s.image(0)
    at = window(*(ONE, *sliding)[-2:])
    if groups == in_c > 1:
        depthwise = s.weight(1, lambda a: _rows(a)[:, 0].transpose(1, 2, 0), 2)  # [C*M,KH,KW] -> [KH,KW,C*M]
        attrs = DepthwiseConv2D(at.stride, at.pad, at.dilation)
        s.emit_image([x, depthwise, bias], attrs, rank=rank)
    else:
        kernel = s.weight(1, lambda a: _rows(a).transpose(0, 2, 3, 1), 0)
        s.emit_image([x, kernel, bias], Conv2D(at.stride, at.pad, at.dilation, groups), rank=rank)


def _rows(w: Array) -> Array:
    """Weights [O,I,K] of a 1-D convolution as [O,I,1,K]."""
    return w[:, :, None, :] if w.ndim == 3 else w


def _bias(s: OnnxStep, out_c: int) -> Value:
    bias = s.weights(2)
    if bias.shape != (out_c,):
        raise TinycError(f"bias {list(bias.shape)} does not fit {out_c} output channels", s.where)
    return s.weight(2, np.asarray, 0)
