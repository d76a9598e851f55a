# SPDX-License-Identifier: Apache-2.0
"""Incremental libraries of random networks, against the whole model on every window of a long stream."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontend.test_incremental import check_sliding
from tests.fuzz.case import WrongError
from tests.fuzz.networks import network, pieces
from tests.unit.stream_cases import in_integers
from tests.unit.test_stream_incremental import check_stream
from tinyc.base.errors import TinycError
from tinyc.ir.check import check as check_graph
from tinyc.ops import all_ops
from tinyc.plan.rows import without_time_padding

LARGEST_HOP = 8
ISAS = (
    frozenset[str](),
    frozenset({"dsp"}),
    frozenset({"dsp", "fpu"}),
    frozenset({"dsp", "fpu", "mve"}),
    frozenset({"rv32m"}),
)
HOPS = 3  # tried of one network, most of whose hops are refused for its strides


def count(seed: int) -> int:
    return len(pieces(seed))


def describe(seed: int, subset: frozenset[int]) -> str:
    hops, isa = _drawn(seed)
    return f"  hops {hops}, {', '.join(sorted(isa)) or 'plain'}"


def check(seed: int, subset: frozenset[int], folder: Path) -> str:
    """Every output of the kernels' twins in C, on an arena of noise; and of the graph behind a front end."""
    hops, isa = _drawn(seed)
    try:
        graph = without_time_padding(in_integers(network(seed, set(subset)), seed))
        check_graph(graph, "stream", all_ops())
    except TinycError:
        return "refused"
    done = []
    for hop in hops:  # each in a folder of its own: a library that is loaded must not be written again
        own = folder / f"hop{hop}"
        own.mkdir()
        done.append(_of_hop(partial(check_stream, graph, hop, own, isa)))
        _of_hop(partial(check_sliding, graph, hop))
    return "equal" if any(done) else "refused"


def _drawn(seed: int) -> tuple[list[int], frozenset[str]]:
    rng = np.random.default_rng([seed, 55])
    hops = rng.choice(np.arange(1, LARGEST_HOP + 1), HOPS, replace=False)
    return sorted(int(hop) for hop in hops), ISAS[rng.integers(len(ISAS))]


def _of_hop(stream: partial[Any]) -> bool:
    """Whether it runs; WrongError where it gives other bytes."""
    try:
        stream()
    except TinycError:
        return False
    except AssertionError as error:
        raise WrongError("window", str(error)) from error
    return True
