# SPDX-License-Identifier: Apache-2.0
"""What the options of libraries that take their input by rows need of a model."""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.base.errors import TinycError
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.passes.inputs import Perm
from tinyc.passes.time_rows import time_as_rows
from tinyc.plan.rows import without_time_padding


def check_stream_options(graph: Graph, perms: Mapping[str, Perm], options: Options) -> None:
    """Raises TinycError where the options of incremental libraries do not fit each other or the model."""
    if options.frontend is not None and options.input_rows:
        message = "a library with a front end takes samples, not rows"
        raise TinycError(message, hint="leave out --input-rows")
    if options.picture is not None and (options.frontend is not None or options.incremental is not None):
        message = "a library with a picture before its model takes frames of a camera"
        raise TinycError(message, hint="leave out --frontend and --incremental, or --picture")
    if options.incremental is None:
        if options.stream_unpadded or options.hop != 1:
            message = "--hop and --stream-unpadded are options of --incremental AXIS"
            raise TinycError(message, hint="give it too; docs/memory.md, Sliding windows")
        return
    if options.input_rows:
        raise TinycError("an incremental library takes rows anyway", hint="leave out --input-rows")
    first = graph.values[graph.inputs[0]]
    perm = perms.get(first.name)
    rows = perm[1] if perm else next((axis for axis, n in enumerate(first.shape) if axis and n > 1), 1)
    flat = options.frontend is not None and first.shape[-1] == first.elements  # the front end knows its frames
    if options.incremental == rows and len(first.shape) < 3 and not flat:
        message = f"input '{first.name}' {list(first.shape)} has no rows of numbers: [1, steps, numbers] is needed"
        raise TinycError(message, first.loc, "leave out --incremental, or give the input an axis of steps")
    if options.incremental != rows:
        raise TinycError(
            f"input '{first.name}' {list(first.shape)} has its rows on axis {rows}, not on axis {options.incremental}",
            first.loc,
            f"--incremental {rows}, if that is time; other axes cannot be streamed",
        )


def by_rows(graph: Graph, options: Options) -> Graph:
    """The graph as rows of time go through it, where the options ask for that."""
    if options.incremental is not None or options.input_rows:
        graph = time_as_rows(graph)
        check(graph, "rows", all_ops())
    if options.stream_unpadded:
        graph = without_time_padding(graph)
        check(graph, "stream", all_ops())
    return graph
