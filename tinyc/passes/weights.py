# SPDX-License-Identifier: Apache-2.0
"""Numbers per channel as they broadcast against a layer's weights, and the windows that these multiply."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array, Node
from tinyc.ops import op_of
from tinyc.ops.op import WeightRules


def has_weights(node: Node) -> bool:
    """Whether the node is a layer whose weights may be changed before it is compiled."""
    return op_of(node).weights is not None


def weights_of(node: Node) -> WeightRules:
    """What its operator says of the layer's weights."""
    weights = op_of(node).weights
    assert weights is not None
    return weights


# Of samples [N, *shape] the windows at some places of those of all samples, None for every one; taps last and grouped
# as the rows of the weights: [G, windows, K].
Windows = Callable[[Array, npt.NDArray[np.int64] | None], Array]


def windows_of(node: Node, w: Array) -> Windows:
    """The windows of a layer with these weights."""
    rules, attrs = weights_of(node), node.attrs
    return lambda x, at: rules.windows(attrs, w, x, at)


def out_axis(node: Node) -> int:
    """Which axis of the layer's weights is the output channel."""
    return op_of(node).out_axis


def per_output(node: Node, w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per output channel, as it broadcasts against the layer's weights."""
    shape = [1] * w.ndim
    shape[out_axis(node)] = -1
    return channels.astype(np.float64).reshape(shape)


def per_input(node: Node, w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per input channel, as it broadcasts against the layer's weights."""
    return weights_of(node).per_input(w, channels)


def sum_inputs(node: Node, w: Array) -> npt.NDArray[np.float64]:
    """The sum over all taps of each output channel: [O]."""
    axes = tuple(k for k in range(w.ndim) if k != out_axis(node))
    return np.asarray(w.astype(np.float64).sum(axis=axes))
