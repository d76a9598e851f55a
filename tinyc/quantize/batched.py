# SPDX-License-Identifier: Apache-2.0
"""Operators over many samples at once: what the quantizer runs thousands of times.

An activation of shape S is held as an array [samples, *S] of float32; constants have no sample axis. Convolutions
become one matrix product (im2col). Operators without a rule here run sample by sample in their own float reference, so
every graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyc.ir.graph import Array, Graph, Node
from tinyc.kernel.windows import Window
from tinyc.ops import is_a, op_of, op_with
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.op import Trait
from tinyc.ops.pad import Pad
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose

Forward = Callable[..., Array]  # (attrs, *inputs) -> the output; absent optional inputs are None

# A sample axis in front of the others changes nothing for them.
_ALONE = (Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.LAST_AXIS)


def images(x: Array) -> Array:
    """[samples, 1, H, W, C] -> [samples, H, W, C], without a copy."""
    return x.reshape(len(x), *x.shape[2:])


def patches(a: Conv2D, x: Array, w: Array) -> Array:
    """The taps of every window of an ungrouped convolution: [samples * H' * W', KH * KW * I]."""
    if is_pointwise(a, w):
        return images(x).reshape(-1, w.shape[3])
    view = Window.of(a, *w.shape[1:3]).view(images(x), 0.0)
    return view.reshape(-1, int(np.prod(view.shape[3:])))


def is_pointwise(a: Conv2D, w: Array) -> bool:
    """Whether every window is one pixel, and every pixel a window."""
    return w.shape[1:3] == (1, 1) and tuple(a.stride) == (1, 1) and not any(a.pad)


def conv2d(a: Conv2D, x: Array, w: Array, b: Array | None = None) -> Array:
    out = Window.of(a, *w.shape[1:3]).output(images(x).shape)
    per_group, group_in = len(w) // a.groups, w.shape[3]
    parts = [
        patches(a, x[..., g * group_in : (g + 1) * group_in], w)
        @ w[g * per_group : (g + 1) * per_group].reshape(per_group, -1).T
        for g in range(a.groups)
    ]
    y = parts[0] if a.groups == 1 else np.concatenate(parts, axis=1)
    return finished(a, y, b).reshape(len(x), 1, out.h, out.w, len(w))


def depthwise_conv2d(a: DepthwiseConv2D, x: Array, w: Array, b: Array | None = None) -> Array:
    k_h, k_w, out_c = w.shape
    view = repeated(Window.of(a, k_h, k_w).view(images(x), 0.0), out_c)
    y = np.zeros((*view.shape[:3], out_c), np.float32)
    for i in range(k_h):
        for j in range(k_w):
            y += view[:, :, :, i, j] * w[i, j]
    return finished(a, y, b)[:, None]


def repeated(x: Array, out_c: int) -> Array:
    """Input channels as depthwise output channels read them."""
    return x if x.shape[-1] == out_c else np.repeat(x, out_c // x.shape[-1], axis=-1)


def fully_connected(a: FullyConnected, x: Array, w: Array, b: Array | None = None) -> Array:
    y = finished(a, x.reshape(-1, w.shape[1]) @ w.T, b)
    return y.reshape(*x.shape[:-1], len(w)) if a.keep_dims else y.reshape(len(x), -1, len(w))


def finished(a: Any, y: Array, b: Array | None) -> Array:
    """Sums with bias and activation, in place."""
    if b is not None:
        y += b
    if a.act.lo != -np.inf:
        np.maximum(y, np.float32(a.act.lo), out=y)
    if a.act.hi != np.inf:
        np.minimum(y, np.float32(a.act.hi), out=y)
    return y


def _mean(a: Any, x: Array) -> Array:
    axes = tuple(axis % (x.ndim - 1) + 1 for axis in a.axes)
    return np.asarray(x.mean(axis=axes, keepdims=a.keep_dims, dtype=np.float32))


RULES: Mapping[type, Forward] = MappingProxyType(
    {
        Conv2D: conv2d,
        DepthwiseConv2D: depthwise_conv2d,
        FullyConnected: fully_connected,
        Mean: _mean,
        Reshape: lambda a, x: x.reshape(len(x), *a.shape),
        Transpose: lambda a, x: np.ascontiguousarray(np.transpose(x, (0, *(p + 1 for p in a.perm)))),
        Concat: lambda a, *xs: np.concatenate(xs, axis=a.axis + 1 if a.axis >= 0 else a.axis),
        Pad: lambda a, x: np.pad(
            x, ((0, 0), *zip(a.before, a.after, strict=True)), constant_values=np.float32(a.value)
        ),
        AvgPool2D: lambda a, x: op_with(a).float_ref(a, images(x))[0][:, None],
        MaxPool2D: lambda a, x: op_with(a).float_ref(a, images(x))[0][:, None],
    }
)


def compute(graph: Graph, node: Node, inputs: list[Array | None]) -> tuple[Array, ...]:
    """The node's outputs, [samples, *shape] each, of inputs in the order of the node."""
    is_const = [name in graph.consts for name in node.inputs]
    if all(is_const):
        raise ValueError(f"{node.name} computes a constant; constants are folded before")
    rule = RULES.get(type(node.attrs))
    if rule is not None and not any(c and isinstance(node.attrs, Concat) for c in is_const):
        return (rule(node.attrs, *inputs),)
    if is_a(node, *_ALONE) and _broadcasts(graph, node):
        return op_of(node).float_ref(node.attrs, *inputs)
    return _one_by_one(node, inputs, is_const)


def _broadcasts(graph: Graph, node: Node) -> bool:
    """Whether broadcasting from the last axis pairs the same elements with a sample axis in front."""
    ranks = [len(graph.values[name].shape) for name in node.inputs]
    activations = [r for r, name in zip(ranks, node.inputs, strict=True) if name not in graph.consts]
    return len(set(activations)) == 1 and max(ranks) == activations[0]


def _one_by_one(node: Node, inputs: list[Array | None], is_const: list[bool]) -> tuple[Array, ...]:
    count = next(len(x) for x, const in zip(inputs, is_const, strict=True) if x is not None and not const)
    float_ref = op_of(node).float_ref
    rows = [
        float_ref(node.attrs, *(x if const or x is None else x[k] for x, const in zip(inputs, is_const, strict=True)))
        for k in range(count)
    ]
    return tuple(np.stack(column) for column in zip(*rows, strict=True))
