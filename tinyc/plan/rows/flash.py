# SPDX-License-Identifier: Apache-2.0
"""The fastest forms of a partition's layers within a number of bytes of arena and of flash.

Groups and the order of turns stay. Every layer has the forms whose scratch fits beside what is alive; one of each, of
least time within the flash, is the multiple-choice knapsack problem (`base/knapsack.py`). Prices of flash, which find
the partition, stop at the convex hull of time over flash; what they leave unspent is spent here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyc.base.knapsack import exact
from tinyc.plan.answer import Partition
from tinyc.plan.problem import Form
from tinyc.plan.rows.cuts import Measured

GRAIN = 128  # bytes; sums of flash are compared in these
_LAYERS = 100  # of more, rounding to grains costs more than this saves


def fastest_in(measured: Sequence[Measured], cut: Partition, arena: int, flash: int) -> Partition:
    """The partition with the fastest forms within `arena` live bytes and `flash` bytes; itself where none are faster.

    measured: with the partition's groups.
    """
    if len(cut.forms) > _LAYERS:
        return cut
    known: dict[tuple[int, int], list[Measured]] = {}
    for one in measured:
        known.setdefault((one.start, one.stop), []).append(one)
    classes = []
    for group in cut.groups:
        own = next(one for one in known[group.start, group.stop] if one.group is group)
        for layer, load in zip(own.layers, own.loads, strict=True):
            forms = layer.whole_forms if group.is_whole else layer.row_forms
            classes.append([form for form in forms if load.need(form) <= arena])
    for options, now in zip(classes, cut.forms, strict=True):
        options.append(now)  # of two forms in turn it is none of the layer's own
    taken = exact([[_item(form) for form in options] for options in classes], flash // GRAIN)
    if taken is None:
        return cut
    forms = tuple(options[i] for options, i in zip(classes, taken, strict=True))
    faster = replace(cut, forms=forms)
    return faster if faster.time < cut.time else cut


def _item(form: Form) -> tuple[int, float]:
    return -(-form.flash_bytes // GRAIN), form.time
