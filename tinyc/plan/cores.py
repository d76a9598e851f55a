# SPDX-License-Identifier: Apache-2.0
"""Layers that several cores run together: the rows of the output are shared out, in one call of a row form each.

A core makes rows of its own in scratch bytes of its own, and may read any row of the input. So the output never slides
along the input, and takes its place only where a row is made of the same row alone. Cores wait for each other between
layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tinyc.choose.compiled_code import ROW_CODE
from tinyc.choose.select import Choice, compiled_cost, layers_of
from tinyc.kernel.kernel import Call, CoreSplit, Cost, In, Offer, Once, RowForm
from tinyc.plan.row_forms import height_of, moving_inputs, row_forms


def on_cores(choices: Mapping[str, Sequence[Choice]], cores: int) -> dict[str, list[Choice]]:
    """The candidates, and of each layer whose rows can be shared out the ways to do that."""
    shared = {node: [new for choice in own for new in _split(choice, cores)] for node, own in choices.items()}
    layers = layers_of((choice.cost for choice in own) for own in shared.values())
    return {
        node: [*own, *(replace(choice, cost=choice.cost.shared(layers)) for choice in shared[node])]
        for node, own in choices.items()
    }


def _split(choice: Choice, cores: int) -> Iterator[Choice]:
    height = height_of(choice.site.y().shape)
    for form in row_forms(choice, height // cores if height % cores == 0 else 1):
        if _is_shareable(choice, form):
            split = CoreSplit(form, cores)
            offer = Offer(
                scratch_bytes=split.scratch_step * cores,
                cost=form.cost,
                call=Once(partial(_call_of, form)),
                special=form.special,
                split=split,
            )
            yield replace(choice, offer=offer, cost=_cost(choice, split), free=None)


def _call_of(form: RowForm) -> Call:
    return form.call


def _is_shareable(choice: Choice, form: RowForm) -> bool:
    """Whether its calls may run at the same time: none adds to what another one has made, and their rows are those of
    whole tensors."""
    site, rows = choice.site, form.call.rows
    if rows is None or form.accumulator_bytes or rows.calls == 1 or len(site.node.outputs) != 1:
        return False
    used = {arg.index for arg in form.call.args if isinstance(arg, In)}
    sizes = [site.x(i).size_bytes for i in used]
    return (
        used == set(moving_inputs(site))
        and all(size % rows.in_h == 0 for size in sizes)
        and rows.in_h * rows.in_row_bytes in sizes
        and rows.out_h * rows.out_row_bytes == site.y().size_bytes
    )


def _cost(choice: Choice, split: CoreSplit) -> Cost:
    """Of the layer on all cores: instructions of all of them, cycles until it is done. All wait for the same flash."""
    call = split.form.call
    own, rows = compiled_cost(choice, split.form.cost, call, split.form), call.rows
    assert rows is not None  # of every row form
    return replace(
        own,
        cycles=split.time_of(own.cycles - own.waits) + own.waits,
        flash_bytes=own.flash_bytes + ROW_CODE * rows.window_rows,
        scratch_bytes=split.scratch_step * split.cores,
    )
