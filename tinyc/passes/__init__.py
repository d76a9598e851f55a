# SPDX-License-Identifier: Apache-2.0
"""Normal form: one layout, folded constants, fused activations; exact reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.ops import all_ops
from tinyc.passes.cleanup import cleanup
from tinyc.passes.counts import join_counts
from tinyc.passes.fold import fold_constants, fold_pads, global_means
from tinyc.passes.fuse import fuse_activations
from tinyc.passes.layout import to_nhwc
from tinyc.passes.qdq import join_quantization
from tinyc.passes.recurrent_float import keep_float_lstm
from tinyc.passes.recurrent_loops import roll_recurrent
from tinyc.passes.single import single_channels
from tinyc.passes.sizes import join_lines, join_sizes, spell_out_transforms
from tinyc.passes.spectra import join_bands, join_transforms, spell_out_others, spell_out_spectra
from tinyc.passes.together import neighbouring_axes

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    cleanup,  # first: later passes need not look through identities
    join_quantization,  # before anything that treats float operators: those between dequantize and quantize are none
    keep_float_lstm,
    roll_recurrent,  # early: thousands of nodes become one, and no step has been folded differently from the others
    join_bands,  # before the layout is chosen: it knows the order of frames and bins as exporters write it
    join_sizes,  # after the logarithms, which hold more than sizes of 8 or 16 bits
    spell_out_spectra,
    spell_out_transforms,
    global_means,  # before the layout is chosen: a mean works in any
    to_nhwc,  # before folding, which knows channels only as the last axis
    fold_constants,  # before activations are fused, since they would stand between a layer and its batch norm
    fuse_activations,  # before padding: max pooling may take zero padding if it knows that its input is not negative
    fold_pads,
    neighbouring_axes,  # after the layout, which makes neighbours of what NCHW has apart
    join_counts,
    single_channels,  # after the layout: in NHWC the kernels of both say what is a channel
    cleanup,  # last: folding leaves equal constants and spent nodes behind
)

# In float32 a transform is an operator, and what is computed of its bins are others.
_IN_FLOATS: Mapping[Pass, Pass] = MappingProxyType(
    {
        keep_float_lstm: cleanup,
        join_bands: join_transforms,
        join_sizes: join_lines,
        spell_out_spectra: spell_out_others,
    }
)


def normalize(graph: Graph, in_floats: bool = False) -> Graph:
    """The same model with one layout and fewer nodes; float graphs equal up to rounding, integer graphs exactly.

    Runs on float graphs before quantization and on integer graphs as they are loaded. A graph that
    has been normalized comes back unchanged. in_floats: the graph is computed in float32.
    """
    checked: Graph | None = None
    for own_pass in PASSES:
        run = _IN_FLOATS.get(own_pass, own_pass) if in_floats else own_pass
        graph = run(graph)
        if graph is not checked:
            check(graph, run.__name__, all_ops())
            checked = graph
    return graph
