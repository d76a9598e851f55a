# SPDX-License-Identifier: Apache-2.0
"""The model with the front end that the user asks for, over whole windows or incrementally."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import candidates
from tinyc.frontend import FrontEnd, Joined, features_of, join, load_frontend
from tinyc.ir.check import check
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Graph
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.plan.rows import Advancing, sliding
from tinyc.reference.interpreter import prepare_int

_ROWS_COMPARED = 3  # runs behind the first whole window


def with_front_end(graph: Graph, options: Options, numerics: Numerics) -> Joined:
    """One graph from samples to the model's output, checked. `--incremental`: only what is new is computed."""
    assert options.frontend is not None
    front = load_frontend(options.frontend)
    if options.incremental is None:
        joined = join(graph, front)
    else:
        features_of(graph, front)
        hop = _hop(front, options)
        slid = _sliding(drop_dead_channels(graph, numerics), front, hop, numerics)
        joined = join(slid.graph, front, slid.window)
    check(joined.graph, "frontend", all_ops())
    return joined


def takes_integers(options: Options) -> bool:
    """Whether what the library has before the model gives integers alone: a camera's picture, or features of int8."""
    return options.picture is not None or (
        options.frontend is not None and "f32" not in load_frontend(options.frontend).widths
    )


def _hop(front: FrontEnd, options: Options) -> int:
    """New frames of a run: of --hop, else of the front end's file."""
    if options.hop != 1 and front.hop not in (1, options.hop):
        raise TinycError(
            f"--hop {options.hop}, but `hop = {front.hop}` in the front end's file", hint="leave one of them out"
        )
    return max(options.hop, front.hop)


def _sliding(graph: Graph, front: FrontEnd, hop: int, numerics: Numerics) -> Advancing:
    """The model as one that takes `hop` frames, compared with the model on whole windows."""
    given = graph.values[graph.inputs[0]]
    slid = sliding(graph, candidates(graph, frozenset(), numerics), hop)
    if slid.row_bytes != front.channels:
        raise TinycError(
            f"input '{given.name}' {list(given.shape)} has rows of {slid.row_bytes} features, the front end gives "
            f"{front.channels}",
            given.loc,
            "set `channels` in the front end's file to that of the training: docs/frontend.md",
        )
    check(slid.graph, "incremental", all_ops())
    _compare(graph, slid, hop, numerics)
    return slid


def _compare(graph: Graph, slid: Advancing, hop: int, numerics: Numerics) -> None:
    """Raises ValueError where the outputs on some random frames are not those of the model on whole windows."""
    name, value = graph.inputs[0], graph.values[graph.inputs[0]]
    runs = -(-slid.window // hop) + _ROWS_COMPARED
    low, high = INT_RANGE[value.dtype]
    stream = np.random.default_rng(0).integers(low, high + 1, (runs * hop, slid.row_bytes))
    stream = stream.astype(NUMPY_DTYPE[value.dtype])
    fresh = slid.graph.values[name].shape
    inputs = [{name: stream[k * hop : (k + 1) * hop].reshape(fresh)} for k in range(runs)]
    joined_outputs = list(prepare_int(slid.graph, numerics).sequence(inputs))
    whole = prepare_int(graph, numerics)
    for run in range(runs - _ROWS_COMPARED, runs):
        end = (run + 1) * hop
        expected = next(iter(whole.sequence([{name: stream[end - slid.window : end].reshape(value.shape)}])))
        for output in graph.outputs:
            if not np.array_equal(joined_outputs[run][output], expected[output]):
                raise ValueError(f"run {run}: '{output}' is not that of the whole window")
