# SPDX-License-Identifier: Apache-2.0
"""Image inputs as the sensor gives them: NHWC, even where the model was trained with NCHW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tinyc.ir.graph import Graph
from tinyc.ops.transpose import Transpose
from tinyc.passes.cleanup import cleanup

Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relaid:
    """A graph whose inputs lost a leading transpose. perms[input]: its axes, as axes of the model's own input."""

    graph: Graph
    perms: Mapping[str, Perm]


def inputs_as_in_file(graph: Graph, perms: Mapping[str, Perm]) -> Graph:
    """A graph whose inputs are shaped as in the model's file, to fit samples to; its nodes are not to be run."""
    values = dict(graph.values)
    for name, perm in perms.items():
        shape = [0] * len(perm)
        for axis, size in zip(perm, values[name].shape, strict=True):
            shape[axis] = size
        values[name] = replace(values[name], shape=tuple(shape))
    return replace(graph, values=values)


def take_inputs_as_computed(graph: Graph) -> Relaid:
    """Let the caller hand over what a transpose at an input would make; no step of the library moves it then.

    An input qualifies if a transpose is all that reads it. It keeps its name.
    """
    consumers, producers = graph.consumers(), {}
    perms: dict[str, Perm] = {}
    for name in graph.inputs:
        readers = consumers.get(name, ())
        if len(readers) == 1 and isinstance(readers[0].attrs, Transpose) and name not in graph.outputs:
            (made,) = readers[0].outputs
            if made not in graph.outputs:
                perms[name] = tuple(readers[0].attrs.perm)
                producers[made] = name
    if not perms:
        return Relaid(graph, {})
    values = dict(graph.values)
    for made, name in producers.items():
        values[name] = replace(values[made], name=name, loc=values[name].loc)
    nodes = tuple(
        replace(node, inputs=tuple(producers.get(i, i) for i in node.inputs))
        for node in graph.nodes
        if not (isinstance(node.attrs, Transpose) and node.outputs[0] in producers)
    )
    kept = {name: value for name, value in values.items() if name not in producers}
    return Relaid(cleanup(replace(graph, nodes=nodes, values=kept)), perms)
