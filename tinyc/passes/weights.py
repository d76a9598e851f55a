# SPDX-License-Identifier: Apache-2.0
"""The layers that have weights, and which axis of the weights is which channel."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array, Node

# conv2d w[O,KH,KW,I/groups], depthwise_conv2d w[KH,KW,C*M], fully_connected w[O,I]
OUT_AXIS: Mapping[str, int] = MappingProxyType({"conv2d": 0, "depthwise_conv2d": 2, "fully_connected": 0})
WEIGHTED = tuple(OUT_AXIS)


def per_output(node: Node, w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per output channel, as it broadcasts against the layer's weights."""
    shape = [1] * w.ndim
    shape[OUT_AXIS[node.op]] = -1
    return channels.astype(np.float64).reshape(shape)


def per_input(node: Node, w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per input channel, as it broadcasts against the layer's weights."""
    channels = channels.astype(np.float64)
    if node.op == "depthwise_conv2d":  # output channel c*M+m reads input channel c
        return np.repeat(channels, w.shape[2] // len(channels))
    if node.op == "fully_connected":  # a flattened image repeats its channels
        return np.tile(channels, w.shape[1] // len(channels))
    out_c, _, _, group_in = w.shape
    groups = len(channels) // group_in
    return np.repeat(channels.reshape(groups, 1, 1, group_in), out_c // groups, axis=0)


def sum_inputs(node: Node, w: Array) -> npt.NDArray[np.float64]:
    """The sum over all taps of each output channel: [O]."""
    axes = tuple(k for k in range(w.ndim) if k != OUT_AXIS[node.op])
    return np.asarray(w.astype(np.float64).sum(axis=axes))
