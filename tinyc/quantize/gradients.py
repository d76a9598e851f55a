# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the operators in batched.py: how a change of a value moves what is computed from it.

`backward(node, inputs, y, dy)` gives the gradient with respect to each input (None for one that has none), from the
gradient dy with respect to the output y. Arrays are as in batched.py; gradients of constants are not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyc.ir.graph import Array, Graph, Node
from tinyc.kernel.site import Pair
from tinyc.kernel.windows import Sliding, Window
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.quantize.batched import images, is_pointwise

Gradients = Sequence[Array | None]
Backward = Callable[..., Gradients]  # (attrs, inputs, y, dy)


def active(a: Any, y: Array, dy: Array) -> Array:
    """dy where the fused activation let the sum through."""
    if a.act.lo != -np.inf:
        dy = np.where(y > np.float32(a.act.lo), dy, np.float32(0))
    if a.act.hi != np.inf:
        dy = np.where(y < np.float32(a.act.hi), dy, np.float32(0))
    return dy


def _conv2d(a: Conv2D, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    x, w = inputs[0], inputs[1]
    flat = active(a, y, dy).reshape(-1, len(w))
    per_group, group_in = len(w) // a.groups, w.shape[3]
    dx = np.zeros_like(x)
    for g in range(a.groups):
        out, into = slice(g * per_group, (g + 1) * per_group), slice(g * group_in, (g + 1) * group_in)
        part, by_tap = x[..., into], flat[:, out] @ w[out].reshape(per_group, -1)
        if is_pointwise(a, w):
            dx[..., into] = by_tap.reshape(part.shape)
        else:
            spread = by_tap.reshape(len(x), *y.shape[2:4], *w.shape[1:])
            dx[..., into] = scattered(a, Pair(*w.shape[1:3]), part, spread)
    return (dx, *[None] * (len(inputs) - 1))


def scattered(a: Sliding, kernel: Pair, x: Array, taps: Array) -> Array:
    """Gradients [samples, H', W', KH, KW, C] of the taps of every window, summed where they lie in x."""
    _, _, h, w, channels = x.shape
    window = Window.of(a, *kernel)
    out_h, out_w = taps.shape[1:3]
    padded = np.zeros((len(x), h + a.pad.top + a.pad.bottom, w + a.pad.left + a.pad.right, channels), np.float32)
    for i in range(kernel.h):
        for j in range(kernel.w):
            rows = slice(i * a.dilation.h, i * a.dilation.h + (out_h - 1) * window.stride.h + 1, window.stride.h)
            cols = slice(j * a.dilation.w, j * a.dilation.w + (out_w - 1) * window.stride.w + 1, window.stride.w)
            padded[:, rows, cols] += taps[:, :, :, i, j]
    return padded[:, a.pad.top : a.pad.top + h, a.pad.left : a.pad.left + w].reshape(x.shape)


def _depthwise(a: DepthwiseConv2D, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    x, w = inputs[0], inputs[1]
    k_h, k_w, _ = w.shape
    d = images(active(a, y, dy))
    taps = np.empty((*d.shape[:3], k_h, k_w, x.shape[-1]), np.float32)
    for i in range(k_h):
        for j in range(k_w):
            taps[:, :, :, i, j] = (d * w[i, j]).reshape(*d.shape[:3], x.shape[-1], -1).sum(axis=-1)
    return (scattered(a, Pair(k_h, k_w), x, taps), *[None] * (len(inputs) - 1))


def _fully_connected(a: FullyConnected, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    x, w = inputs[0], inputs[1]
    flat = active(a, y, dy).reshape(-1, len(w))
    return ((flat @ w).reshape(x.shape), *[None] * (len(inputs) - 1))


def _mean(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    axes = tuple(axis % (x.ndim - 1) + 1 for axis in a.axes)
    kept = dy if a.keep_dims else np.expand_dims(dy, axes)
    count = np.prod([x.shape[axis] for axis in axes])
    return (np.broadcast_to(kept / np.float32(count), x.shape),)


def _avg_pool(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    rows, columns = Window.of(a, *a.kernel).taps_inside(images(x).shape)
    counts = np.outer(rows, columns)[..., None].astype(np.float32)
    if a.count_pad:
        counts = np.full_like(counts, a.kernel.h * a.kernel.w)
    d = images(active(a, y, dy)) / counts
    taps = np.broadcast_to(d[:, :, :, None, None], (*d.shape[:3], *a.kernel, d.shape[3]))
    return (scattered(a, a.kernel, x, taps),)


def _max_pool(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    view = Window.of(a, *a.kernel).view(images(x), -np.inf)
    largest = view == view.max(axis=(3, 4), keepdims=True)
    share = images(active(a, y, dy)) / np.maximum(largest.sum(axis=(3, 4)), 1)
    return (scattered(a, a.kernel, x, (largest * share[:, :, :, None, None]).astype(np.float32)),)


def _softmax(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    inner = (dy * y).sum(axis=-1, keepdims=True)
    return (np.float32(a.beta) * y * (dy - inner),)


def _sum(sign: float) -> Backward:
    def backward(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
        d = active(a, y, dy)
        return (_reduced(d, inputs[0]), _reduced(np.float32(sign) * d, inputs[1]))

    return backward


def _mul(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    d = active(a, y, dy)
    return (_reduced(d * inputs[1], inputs[0]), _reduced(d * inputs[0], inputs[1]))


def _reduced(d: Array, x: Array) -> Array:
    """Summed over the axes along which x was repeated."""
    d = d.sum(axis=tuple(range(d.ndim - x.ndim)))
    axes = tuple(k for k in range(x.ndim) if x.shape[k] == 1 and d.shape[k] != 1)
    return d.sum(axis=axes, keepdims=True) if axes else d


def _concat(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    axis = a.axis + 1 if a.axis >= 0 else a.axis
    return np.split(dy, np.cumsum([x.shape[axis] for x in inputs])[:-1], axis=axis)


def _pad(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    inside = tuple(slice(b, b + n) for b, n in zip(a.before, inputs[0].shape[1:], strict=True))
    return (dy[(slice(None), *inside)],)


def _hard_swish(a: Any, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    slope = np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6))
    return ((dy * slope).astype(np.float32),)


RULES: Mapping[type, Backward] = MappingProxyType(
    {
        Conv2D: _conv2d,
        DepthwiseConv2D: _depthwise,
        FullyConnected: _fully_connected,
        Mean: _mean,
        AvgPool2D: _avg_pool,
        MaxPool2D: _max_pool,
        Softmax: _softmax,
        Add: _sum(1),
        Sub: _sum(-1),
        Mul: _mul,
        Concat: _concat,
        Pad: _pad,
        HardSwish: _hard_swish,
        Requantize: lambda a, inputs, y, dy: (dy,),
        Reshape: lambda a, inputs, y, dy: (dy.reshape(inputs[0].shape),),
        Transpose: lambda a, inputs, y, dy: (np.transpose(dy, (0, *(1 + np.argsort(a.perm)))),),
        Clip: lambda a, inputs, y, dy: (active(a, y, dy),),
        LeakyRelu: lambda a, inputs, y, dy: (np.where(inputs[0] > 0, dy, np.float32(a.alpha) * dy),),
        Sigmoid: lambda a, inputs, y, dy: (dy * y * (1 - y),),
        Tanh: lambda a, inputs, y, dy: (dy * (1 - np.square(y)),),
    }
)


def differentiable(graph: Graph) -> bool:
    """Whether gradients reach every layer from the outputs."""
    return all(type(node.attrs) in RULES for node in graph.nodes)


def backward(node: Node, inputs: Sequence[Array | None], y: Array, dy: Array) -> Gradients:
    """The gradient with respect to each input of the node."""
    return RULES[type(node.attrs)](node.attrs, inputs, y, dy)
