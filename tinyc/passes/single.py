# SPDX-License-Identifier: Apache-2.0
"""A depthwise convolution of one input channel becomes what it is: a convolution, which has faster kernels."""

from __future__ import annotations

from dataclasses import replace

from tinyc.ir.graph import Graph, Node
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule


@rule(DepthwiseConv2D)
def widen_single(view: View, node: Node) -> Rewrite | None:
    """depthwise_conv2d x[N,H,W,1], w[KH,KW,O] -> conv2d with w[O,KH,KW,1]: the same sums, so the same integers."""
    x, w = view.value(node.inputs[0]), view.value(node.inputs[1])
    if x.shape[3] != 1 or not view.is_const(w.name):
        return None
    quant = w.quant and replace(w.quant, axis=None if w.quant.axis is None else 0)
    draft = RewriteDraft(view, node)
    taps = draft.const(view.const(w.name).transpose(2, 0, 1)[..., None], replace(w, quant=quant), "conv")
    a = node.attrs
    attrs = Conv2D(stride=a.stride, pad=a.pad, dilation=a.dilation, act=a.act)
    return draft.finish((x.name, taps, *node.inputs[2:]), attrs)


@begins_with(DepthwiseConv2D)
def single_channels(graph: Graph) -> Graph:
    """The graph with depthwise convolutions of one channel as convolutions."""
    return rewrite(graph, (widen_single,))
