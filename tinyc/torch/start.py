# SPDX-License-Identifier: Apache-2.0
"""From a module that was trained in float to the integers that its training goes on from."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.names import some_of
from tinyc.export import as_in_files
from tinyc.ir.graph import Array, Graph, Node, Quant, Value, free_name, read_only
from tinyc.kernel.site import Act
from tinyc.load import load_model
from tinyc.load.in_memory import for_inference, model_file
from tinyc.ops import node_of
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.mean import Mean
from tinyc.passes import normalize
from tinyc.quantize.calibration import Calibration, check_inputs
from tinyc.quantize.layerwise import narrowable
from tinyc.quantize.observe import check_model
from tinyc.quantize.output_units import with_units
from tinyc.quantize.recipe import FittingData, SettledRecipe, carry_out, drafts
from tinyc.torch.differentiable import check_differentiable

_BITS = {"int8": 8, "int4": 4}
_PLAN = SettledRecipe("mse", equalize=False, learned=True)
_NONE = Act()
_SIDE_BY_SIDE = 2  # samples
_CLOSE = 1e-3  # of outputs in float: sums in another order


@dataclass(frozen=True, slots=True)
class TrainingStart:
    """The integer graph, the float graph that it was made from, bits of each layer's weights by node, and the inputs,
    [samples, *shape] each."""

    integers: Graph
    floats: Graph
    bits: Mapping[str, int]
    inputs: Mapping[str, Array]


def start_of(model: Any, example_inputs: Any, weights: str | Mapping[str, str]) -> TrainingStart:
    """As `tinyc.torch.prepare` has it."""
    given = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    for each in given:
        if not isinstance(each, torch.Tensor) or each.ndim < 2 or not each.dtype.is_floating_point:
            raise TinycError(
                "example_inputs are no float tensors [samples, ...]", hint="give a tensor for each input, in a tuple"
            )
    with model_file(model, tuple(each[:1] for each in given)) as path:
        graph = normalize(load_model(path))
        _check_samples(model, given)
        if graph.states:
            message = "tinyc.torch cannot train models that remember from run to run"
            raise TinycError(message, hint="train over whole sequences: states that begin at 0 and are no outputs")
        check_differentiable(graph)
        arrays = [np.asarray(each.detach().cpu().numpy(), np.float32) for each in given]
        shapes = [graph.values[name].shape for name in graph.inputs]
        inputs = {
            name: array.reshape(len(array), *shape)
            for name, array, shape in zip(graph.inputs, arrays, shapes, strict=True)
        }
        data = Calibration(inputs, "example_inputs", proven=True, model=path)
        check_inputs(graph, data)
        check_model(graph, data)
        graph = with_units(graph, data)
        draft = drafts(graph, data, equalized=False)[False]
        bits = bits_of(draft.graph, weights)
        integers = carry_out(_PLAN, draft, FittingData(data, data), bits)
    return TrainingStart(_with_sums_for_averages(as_in_files(integers)), draft.graph, bits, inputs)


def _check_samples(model: Any, given: Sequence[torch.Tensor]) -> None:
    """TinycError where a sample's outputs depend on the samples beside it: then the first axis is one of time, say."""
    if min(map(len, given)) < _SIDE_BY_SIDE or not isinstance(model, torch.nn.Module):
        return
    with for_inference(model), torch.no_grad():
        together = _outputs(model(*(each[:_SIDE_BY_SIDE] for each in given)))
        alone = [_outputs(model(*(each[k : k + 1] for each in given))) for k in range(_SIDE_BY_SIDE)]
    for whole, parts in zip(together, zip(*alone, strict=True), strict=True):
        apart = torch.cat(parts)
        if whole.shape != apart.shape or not torch.allclose(whole, apart, _CLOSE, _CLOSE * float(whole.abs().max())):
            raise TinycError(
                "the module's outputs for a sample depend on the samples beside it",
                hint="the first axis of inputs and outputs has to be that of samples: an LSTM takes batch_first=True",
            )


def _outputs(returned: Any) -> tuple[torch.Tensor, ...]:
    return tuple(returned) if isinstance(returned, list | tuple) else (returned,)


def name_of(node: Node) -> str:
    """What the user calls a layer: the name of the module that its weights are of, else what the file calls it."""
    name, _, _ = node.inputs[1].partition(":")
    return name.removesuffix(".weight") if name.endswith(".weight") else node.layer


def bits_of(graph: Graph, weights: str | Mapping[str, str]) -> dict[str, int]:
    """Bits of the weights of each layer, by node. TinycError for a width that there is not, or a pattern that fits no
    layer."""
    patterns = {"*": weights} if isinstance(weights, str) else {"*": "int8", **weights}
    names = {node.name: name_of(node) for node in narrowable(graph)}
    bits = {}
    for pattern, width in patterns.items():
        if width not in _BITS:
            raise TinycError(f"weights of '{width}'", hint=f"there are: {', '.join(_BITS)}")
        fitting = [node for node, name in names.items() if fnmatch.fnmatchcase(name, pattern)]
        if not fitting and pattern != "*":
            raise TinycError(f"no layer is called '{pattern}'", hint=f"there are: {some_of(names.values())}")
        bits.update(dict.fromkeys(fitting, _BITS[width]))
    return bits


def _with_sums_for_averages(graph: Graph) -> Graph:
    """The graph with average pooling as it comes out of a QDQ file: as means, or sums of products with ones, which
    round once."""
    nodes, values, consts = [], dict(graph.values), dict(graph.consts)
    for node in graph.nodes:
        a, x = node.attrs, values[node.inputs[0]] if node.inputs and node.inputs[0] else None
        if x is None or not isinstance(a, AvgPool2D) or a.act != _NONE or (any(a.pad) and not a.count_pad):
            nodes.append(node)
        elif tuple(a.kernel) == x.shape[1:3] and values[node.outputs[0]].shape[1:3] == (1, 1) and not any(a.pad):
            nodes.append(node_of(Mean((1, 2), keep_dims=True), node.inputs, node.outputs, node.origin, node.name))
        else:
            ones = free_name(f"{node.outputs[0]}:ones", values)
            share = Quant((float(np.float32(1) / np.float32(a.kernel.h * a.kernel.w)),), (0,))
            values[ones] = Value(ones, (*a.kernel, x.shape[3]), "s8", share)
            consts[ones] = read_only(np.ones(values[ones].shape, np.int8))
            sums = DepthwiseConv2D(a.stride, a.pad, a.dilation)
            nodes.append(node_of(sums, (*node.inputs, ones), node.outputs, node.origin, node.name))
    return replace(graph, nodes=tuple(nodes), values=values, consts=consts)
