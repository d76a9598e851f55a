# SPDX-License-Identifier: Apache-2.0
"""A camera before a model: one graph from the bytes of a frame to the model's output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.frontend.camera import Camera
from tinyc.frontend.draft import Draft
from tinyc.ir.graph import Graph, Node, Quant, Value
from tinyc.ops import is_a
from tinyc.ops.lookup import Lookup
from tinyc.ops.lookup_channels import LookupChannels
from tinyc.ops.op import Trait
from tinyc.ops.resample_columns import ResampleColumns
from tinyc.ops.resample_rows import ResampleRows
from tinyc.ops.resize_bilinear import ResizeBilinear

FRAME = "frame"  # what the joined graph's input is called
PIXELS = Quant((1.0,), (-128,))  # of int8 tensors of pixels 0..255
_SAME = np.arange(256, dtype=np.uint8).view(np.int8)


def join_camera(graph: Graph, camera: Camera) -> tuple[Graph, Camera]:
    """The model with the camera before its only input, int8 (or uint8) [1,height,width,1 or 3]; and the camera as it is
    for this model. The new input is uint8 [1, lines, units of a line, bytes of a unit]. TinycError where they do not
    fit."""
    graph, target = _input_of(graph)
    camera = camera.of((target.shape[1], target.shape[2]), target.shape[3])
    assert target.quant is not None
    tables = camera.tables(target.quant)
    plain = tables.ndim == 1 and np.array_equal(tables, _SAME)
    draft = Draft(graph, target.quant if plain else PIXELS)
    frame = x = draft.value(FRAME, (1, *camera.frame_shape), "u8")
    for step in _steps(camera)[:-1]:
        x = draft.node(step, (x,), name="pixels")
    x = draft.node(_steps(camera)[-1], (x,), (target,) if plain else (), name="picture")
    if not plain:
        lut = draft.table("values", tables)
        draft.node(Lookup() if tables.ndim == 1 else LookupChannels(), (x, lut), (target,))
    joined = replace(
        graph,
        inputs=(frame.name,),
        nodes=(*draft.nodes, *graph.nodes),
        values={**graph.values, **draft.values},
        consts={**graph.consts, **draft.consts},
    )
    return joined, camera


def _steps(camera: Camera) -> list[object]:
    """Attributes of the operators that make the picture."""
    picture, resize = camera.steps
    if isinstance(resize, ResizeBilinear):
        return [picture, resize]
    across, down = resize
    steps: list[object] = [picture]
    steps += [ResampleColumns(across)] if across is not None else []
    steps += [ResampleRows(down)] if down is not None else []
    return steps


def _input_of(graph: Graph) -> tuple[Graph, Value]:
    """The int8 picture that the model begins with. A model that takes uint8 begins behind what makes int8 of it."""
    if len(graph.inputs) != 1:
        raise TinycError(
            f"a picture is for a model with one input; this one has {len(graph.inputs)}", hint="leave out --picture"
        )
    value = graph.values[graph.inputs[0]]
    while (reader := _renaming(graph, value)) is not None:
        graph, value = _without(graph, reader), graph.values[reader.outputs[0]]
    what = f"input '{value.name}' {value.dtype} {list(value.shape)}"
    if value.dtype != "s8" or value.quant is None or value.quant.axis is not None:
        raise TinycError(f"{what}: a picture becomes int8", value.loc, "quantize the model to int8")
    if len(value.shape) != 4 or value.shape[0] != 1 or value.shape[3] not in (1, 3):
        raise TinycError(f"{what} is no picture with 1 or 3 channels", value.loc, "leave out --picture")
    if graph.states:
        raise TinycError("a model with state takes no pictures", hint="leave out --picture")
    return graph, value


def _renaming(graph: Graph, value: Value) -> Node | None:
    """The only node that reads a value, if all that it does is to make int8 with the same meaning of it."""
    readers = graph.consumers().get(value.name, ())
    if len(readers) != 1 or not is_a(readers[0], Trait.RESCALES) or value.name in graph.outputs:
        return None
    renamed = graph.values[readers[0].outputs[0]]
    if renamed.dtype != "s8" or value.dtype not in ("s8", "u8") or renamed.quant is None or value.quant is None:
        return None
    scale, zero = value.quant.per_tensor
    moved = Quant((scale,), (zero - (128 if value.dtype == "u8" else 0),))
    return readers[0] if moved == renamed.quant else None


def _without(graph: Graph, node: Node) -> Graph:
    return replace(graph, nodes=tuple(other for other in graph.nodes if other is not node))
