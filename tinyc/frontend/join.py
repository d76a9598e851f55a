# SPDX-License-Identifier: Apache-2.0
"""A front end before a model: one graph from samples to the model's output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.frontend.declared import Declared
from tinyc.frontend.declared_nodes import DeclaredNodes
from tinyc.frontend.draft import Draft
from tinyc.frontend.front import FrameNodes, FrontEnd
from tinyc.frontend.micro import Micro
from tinyc.frontend.micro_nodes import MicroNodes
from tinyc.frontend.motion import MotionFront, MotionNodes
from tinyc.frontend.raw import RawFront, RawNodes
from tinyc.ir.graph import Graph, Value
from tinyc.ops.concat import Concat
from tinyc.ops.reshape import Reshape
from tinyc.ops.signal_history import SignalHistory
from tinyc.ops.tree_ensemble import TreeEnsemble

_TYPES = {"s8": "int8", "s16": "int16", "f32": "float32"}
SAMPLES = "samples"  # what the joined graph's input is called
NODES: Mapping[type, Callable[[Draft, Any], FrameNodes]] = MappingProxyType(
    {
        Micro: MicroNodes,
        Declared: DeclaredNodes,
        MotionFront: MotionNodes,
        RawFront: RawNodes,
    }
)


@dataclass(frozen=True, slots=True)
class Joined:
    """The graph, whose input is the new samples of a run. held: the state that the samples before them are, "" if
    windows do not overlap. runs: how many it takes until the model's window is full. primed: of the held samples, how
    many zeros count as there after a reset. rate: samples in a second. axes: how many of them belong to one moment."""

    graph: Graph
    samples: str
    held: str
    runs: int
    primed: int
    rate: int
    axes: int = 1


def join(graph: Graph, front: FrontEnd, window: int | None = None) -> Joined:
    """The model with the front end before its only input, which has to be features [.., frames, channels].

    A model with state gets as many new frames per run as its input has; others see a window that moves on by
    `front.hop` frames. window: of a model that keeps its own (`plan.rows.sliding`), how many frames; its input is the
    new ones. TinycError where model and front end do not fit.
    """
    target = features_of(graph, front)
    draft = Draft(graph, target.quant, target.dtype)
    rows = target.elements // front.channels
    frames = rows if graph.states or window is not None else front.hop
    if frames > rows:
        raise TinycError(
            f"`hop` is {front.hop}, but input '{target.name}' sees {rows} frames: some would be in no window",
            target.loc,
            f"`hop` in the front end's file is from 1 to {rows}",
        )
    samples = draft.value(SAMPLES, (frames * front.step,), "s16")
    nodes = NODES[type(front)](draft, front)
    before, after = _held(draft, front)
    parts, last = nodes.run(samples, before, frames)
    nodes.finish()
    if before is not None and after is not None:  # behind all that reads the samples: they are free from then on
        draft.node(SignalHistory(), (samples, before, *parts[:-1], last), (after,))
    fresh = parts[0] if len(parts) == 1 else draft.node(Concat(0), tuple(parts), name="features")
    if rows > frames:
        like = ((rows * front.channels,), target.dtype)
        seen, seen_after = draft.state("seen", like, nodes.silence(), target.quant)
        fresh = draft.node(SignalHistory(), (fresh, seen), (seen_after,))
    draft.node(Reshape(target.shape), (fresh,), (target,))
    joined = replace(
        graph,
        inputs=(samples.name,),
        nodes=(*draft.nodes, *graph.nodes),
        values={**graph.values, **draft.values},
        consts={**graph.consts, **draft.consts},
        states=(*draft.states, *graph.states),
    )
    held = before.name if before else ""
    runs = math.ceil((rows if window is None else window) / frames)
    return Joined(joined, samples.name, held, runs, front.before, front.rate, front.axes)


def _held(draft: Draft, front: FrontEnd) -> tuple[Value, Value] | tuple[None, None]:
    """The state that the samples before the new ones are."""
    length = front.window - front.step + front.before
    return draft.state("held", ((length,), "s16"), b"\0\0") if length else (None, None)


def features_of(graph: Graph, front: FrontEnd) -> Value:
    """The model's input, if it is features as the front end gives them: [frames, channels] or flat, with any axes of
    one element. TinycError if not."""
    if len(graph.inputs) != 1:
        raise TinycError(
            f"a front end is for a model with one input; this one has {len(graph.inputs)}", hint="leave out --frontend"
        )
    value = graph.values[graph.inputs[0]]
    what = f"input '{value.name}' {value.dtype} {list(value.shape)}"
    one_scale = value.quant is not None and value.quant.axis is None
    if value.dtype not in front.widths or not (one_scale or value.dtype == "f32"):
        widths = " or ".join(_TYPES[width] for width in front.widths)
        hint = "quantize the model to int8: --precision integer --calibration FILE"
        if any(isinstance(node.attrs, TreeEnsemble) for node in graph.nodes):
            hint = 'decision trees take reals, which a front end of kind = "motion" gives: docs/frontend.md'
        if value.dtype == "s16":
            hint = 'a model of samples has its own front end: leave out --frontend, or give a file of kind = "samples"'
        raise TinycError(f"{what}: the front end gives {widths} features", value.loc, hint)
    sizes = [size for size in value.shape if size != 1]
    flat = len(sizes) < 2 and value.elements % front.channels == 0
    if not flat and (len(sizes) != 2 or sizes[1] != front.channels):
        raise TinycError(
            f"{what} does not consist of frames of {front.channels} channels, which the front end gives",
            value.loc,
            "it has the channels first: train and export the model with [frames, channels]"
            if len(sizes) == 2 and sizes[0] == front.channels
            else "give the front end that the model was trained with: docs/frontend.md",
        )
    return value
