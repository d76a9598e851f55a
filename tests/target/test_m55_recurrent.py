# SPDX-License-Identifier: Apache-2.0
"""The loops of recurrent layers on an emulated Cortex-M55: the reference's bytes, instructions as promised."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, check_together, offer_of
from state_cases import loop

from tests.ops.test_recurrent import random_inputs
from tests.ops.test_recurrent_loop import LAYERS
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.recurrent_kept import RecurrentKept

BOARD = "cortex-m55"
# Units, numbers, steps; with the most instructions per MAC.
LARGE = {
    "lstm": ((Recurrent("lstm"), 32, 40, 4), 0.53),
    "gru": ((Recurrent("gru"), 32, 40, 4), 0.55),
    "lstm, odd": ((Recurrent("lstm", reverse=True), 61, 50, 3, False, 127, True), 0.48),
    "gru, kept": ((RecurrentKept("gru"), 50, 107, 3, True), 0.50),
    "lstm, large": ((Recurrent("lstm"), 96, 128, 2), 0.40),
    "lstm, int4": ((Recurrent("lstm"), 32, 40, 4, False, 7, False, True), 0.60),
    "gru, int4": ((Recurrent("gru"), 32, 40, 4, False, 7, False, True), 0.62),
}


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.TFLM], ids=str)
def test_equals_the_reference(numerics: Numerics) -> None:
    """Random inputs and states, and both ends of the range all the time, where cells saturate."""
    cases = []
    for layer in LAYERS.values():
        graph = loop(*layer)
        inputs = [random_inputs(graph, seed) for seed in range(2)]
        for greatest in (False, True):
            ends = {name: np.iinfo(array.dtype) for name, array in inputs[0].items()}
            inputs.append(
                {
                    name: np.full_like(array, ends[name].max if greatest else ends[name].min)
                    for name, array in inputs[0].items()
                }
            )
        bits = "_w4" if graph.values["w"].dtype == "s4" else ""
        cases.append((graph, inputs, f"tc_{layer[0].cell}_loop{bits}_mve"))
    check_together(cases, numerics, board_name=BOARD)


@pytest.mark.parametrize("name", LARGE)
def test_instructions(name: str) -> None:
    """As promised, and no more per MAC than the documentation says."""
    layer, most = LARGE[name]
    graph = loop(*layer)
    kernel = f"tc_{layer[0].cell}_loop{'_w4' if graph.values['w'].dtype == 's4' else ''}_mve"
    ran = check_on_core(graph, [random_inputs(graph, 1)], kernel, Numerics.OURS, board_name=BOARD)
    site, op = Site(graph, graph.nodes[0], Numerics.OURS), all_ops()[graph.nodes[0].op]
    executed = ran.counts[0].steps[0]
    assert executed <= most * op.macs(site)
    (own_kernel,) = (one for one in op.every_kernel if one.name == kernel)
    assert offer_of(own_kernel, site).cost.instructions == pytest.approx(executed, rel=0.1)
