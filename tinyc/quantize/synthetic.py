# SPDX-License-Identifier: Apache-2.0
"""Inputs for a float model without calibration data: as large as its first layer was trained for.

Behind a batch norm every channel has the mean beta and the deviation |gamma| that the model was trained with. Where
the norm is folded into weights and biases, these are not known, but normalizing layers are trained around mean 0 and
deviation 1, and that is enough to say which inputs the layer expects: up to the first layer with biases a model is
linear, so the deviation of its sums gives the scale of the inputs, and its biases their mean. Later layers get what
the model makes of these inputs. (Nagel et al., "Data-Free Quantization", 2019, take the statistics of norms for ranges
directly; Cai et al., "ZeroQ", 2020, make inputs for them.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc
from tinyc.base.extras import load_extra
from tinyc.ir.graph import Array, Graph, Node
from tinyc.kernel.site import Act
from tinyc.ops import op_of
from tinyc.ops.signals import no_reals
from tinyc.passes.weights import has_weights
from tinyc.quantize.simulate import Batch

_PROBED = 8  # samples
_LINEAR = 1e-3  # error of f(-2x) - f(0) = -2 (f(x) - f(0)), relative
_LAYERS, _BIAS = ("Conv", "ConvTranspose", "Gemm"), 2  # operators of ONNX with biases, and which input these are
_FLAT = 0.05  # deviation of a channel's sums, of the median; what is below says nothing


@dataclass(frozen=True, slots=True)
class Norm:
    """What a batch norm makes of each channel of its layer: the mean `beta` and the deviation |gamma|."""

    gamma: npt.NDArray[np.float64]
    beta: npt.NDArray[np.float64]


def first_norm(model: Path) -> Norm | None:
    """The first batch norm of an ONNX file that has it apart from the layer; None where a layer with biases is before
    that one, or the file does not hold the norm's numbers itself."""
    onnx = load_extra("onnx", "onnx", "reading an ONNX model", Loc(model.name))
    graph = onnx.load(model, load_external_data=False).graph
    held = {tensor.name: tensor for tensor in graph.initializer if tensor.data_location != tensor.EXTERNAL}
    biased: set[str] = set()  # what layers with biases make
    for node in graph.node:
        if node.op_type in _LAYERS and len(node.input) > _BIAS:
            biased.update(node.output)
        if node.op_type == "BatchNormalization":
            if not held.keys() >= set(node.input[1:3]) or biased - set(node.input[:1]):
                return None
            gamma, beta = (onnx.numpy_helper.to_array(held[name]) for name in node.input[1:3])
            return Norm(gamma.astype(np.float64), beta.astype(np.float64))
    return None


def as_trained(graph: Graph, noise: Mapping[str, Array], norm: Norm | None = None) -> dict[str, Array]:
    """Normal noise [samples, *shape] as inputs of the size that the graph's first layers expect; an input of which
    nothing can be said stays as it is. norm: of the first layer, where the file has it apart."""
    return {name: _input(graph, name, noise, norm) for name in noise}


def _input(graph: Graph, name: str, noise: Mapping[str, Array], norm: Norm | None) -> Array:
    x = noise[name]
    first = _first_layer(graph, name) if x.dtype == np.float32 else None
    if first is None:
        return x
    others = {other: np.zeros_like(each[:_PROBED]) for other, each in noise.items()}
    batch, (y,) = Batch(first), first.outputs

    def sums(probe: Array) -> npt.NDArray[np.float64]:
        outputs = batch.run({**others, name: probe})[y]
        return outputs.reshape(-1, outputs.shape[-1]).astype(np.float64)

    probe = x[:_PROBED]
    nothing, once, back = sums(np.zeros_like(probe)), sums(probe), sums(-2 * probe)
    moved = once - nothing
    if not np.abs(back - nothing + 2 * moved).max() <= _LINEAR * np.abs(moved).max():
        return x
    deviation = moved.std(axis=0)
    told = deviation > _FLAT * np.median(deviation)
    if not told.any():
        return x
    bias, of_one = np.median(nothing, axis=0), np.median(sums(np.ones_like(probe)) - nothing, axis=0)
    target = norm if norm is not None and len(norm.beta) == len(bias) else Norm(np.ones_like(bias), np.zeros_like(bias))
    scale = float(np.median((np.abs(target.gamma) / np.maximum(deviation, 1e-30))[told]))
    # The mean of all inputs for which the channels' means are nearest to what they should be, each by its deviation.
    weighted = of_one[told] / deviation[told] ** 2
    power = float((weighted * of_one[told]).sum())
    mean = float((weighted * (target.beta - bias)[told]).sum()) / power if power > 0 else 0.0
    return (mean + scale * x).astype(np.float32)


def _first_layer(graph: Graph, name: str) -> Graph | None:
    """The graph from its inputs to the sums of the first layer with biases that depends on an input; None without, and
    where integers are computed before that have no meaning for reals, as a table of a quantized file."""
    reached = {name}
    for index, node in enumerate(graph.nodes):
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            if has_weights(node) and node.inputs[0] in reached and _has_biases(graph, node):
                linear = replace(node, attrs=replace(node.attrs, act=Act()))
                nodes = (*graph.nodes[:index], linear)
                if any(op_of(before).float_ref is no_reals for before in nodes):
                    return None
                return replace(graph, nodes=nodes, outputs=node.outputs[:1], states=())
    return None


def _has_biases(graph: Graph, node: Node) -> bool:
    name = node.inputs[2] if len(node.inputs) > 2 else ""
    return name in graph.consts and bool(graph.consts[name].any())
