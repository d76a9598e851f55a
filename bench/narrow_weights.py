# SPDX-License-Identifier: Apache-2.0
"""Weights of fewer than 4 bits, and of codebooks: what accuracy they would leave, and in how many bytes.

    python bench/narrow_weights.py MODELS [--only kws,ic] [--swap]

Simulated exactly: a weight of 3 or 2 bits is an integer of fewer levels, a codebook's an int8 of which a layer has no
more than 16, 8 or 4 different ones (found by Lloyd's algorithm, weighted by what each tap's error costs, then rounded
with error compensation as integers are). Scales per output channel, activations int8, ranges `mse`, learned rounding;
every second input calibrates, the others test. Bytes: of weights alone, without scales, biases and code.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from quantizers import INPUTS, Task, load

from tinyc.base.exact import precise_product
from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.graph import Graph
from tinyc.quantize import layerwise
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.factors import inverse_factor
from tinyc.quantize.layerwise import layers
from tinyc.quantize.recipe import FittingData, SettledRecipe, carry_out, draft_of, drafts
from tinyc.quantize.rounding import Doubles, Moments, PowerOrder, Rounded, diagonals, fitted_scale

LEVELS = {3: (-4, 3), 2: (-2, 1)}
_DAMPING, _ROUNDS = 0.1, 30
_PLAN = SettledRecipe("mse", equalize=False, learned=True)


def by_codebook(
    size: int, w: Doubles, bias: Doubles, m: Moments, levels: tuple[int, int], *, fixed: Doubles | None = None
) -> Rounded:
    """`rounding.learn` with at most `size` different integers in all of the layer."""
    h = m.h + _DAMPING * np.maximum(diagonals(m.h).mean(axis=1), 1e-12)[:, None, None] * np.eye(w.shape[2])
    order = PowerOrder.by_power(h)
    scale = np.maximum(np.abs(w).max(axis=2), 1e-30) / 127
    weight = np.broadcast_to(diagonals(h)[:, None, :] * scale[:, :, None] ** 2, w.shape)
    book = _codebook(w / scale[:, :, None], weight, size)
    upper, left = inverse_factor(order.of_matrix(h)), order.of_taps(w).copy()
    quantized_left = np.empty_like(left)
    for k in range(w.shape[2]):
        quantized_left[:, :, k] = book[np.abs((left[:, :, k] / scale)[..., None] - book).argmin(axis=-1)]
        error = (left[:, :, k] - quantized_left[:, :, k] * scale) / upper[:, None, k, k]
        left[:, :, k:] -= error[:, :, None] * upper[:, None, k, k:]
    q = order.back(quantized_left)
    scale = fitted_scale(q, precise_product(q, h), scale, precise_product(w, h))
    mean = (scale[:, :, None] * q * m.x_mean[:, None, :]).sum(axis=2)
    return Rounded(q, scale, bias + (w * m.f_mean[:, None, :]).sum(axis=2) - mean)


def _codebook(values: Doubles, weight: Doubles, size: int) -> Doubles:
    """So many integers with the least weighted squared distance to the values (Lloyd), zero among them."""
    flat, heavy = values.ravel(), weight.ravel()
    book = np.quantile(flat, (np.arange(size) + 0.5) / size)
    for _ in range(_ROUNDS):
        nearest = np.abs(flat[:, None] - book).argmin(axis=1)
        mass = np.bincount(nearest, heavy, size)
        book = np.where(mass > 0, np.bincount(nearest, heavy * flat, size) / np.maximum(mass, 1e-300), book)
    book[np.abs(book).argmin()] = 0
    return np.unique(np.clip(np.rint(book), -127, 127))


def rows(task: Task) -> list[tuple[str, int, Graph]]:
    """(kind of weights, bytes, integer graph)."""
    calibration = Calibration(task.fit, "half", True, task.path)
    draft = draft_of(drafts(task.graph, calibration), _PLAN)
    data = FittingData(calibration, calibration)
    names = [node.name for node in layers(draft.graph)]
    count = sum(draft.graph.values[node.inputs[1]].elements for node in layers(draft.graph))

    def graph_of(bits: int) -> Graph:
        return carry_out(_PLAN, draft, data, dict.fromkeys(names, bits))

    graphs = []
    with patch.dict(layerwise.LEVELS, LEVELS), patch.dict(layerwise.DTYPES, {3: "s4", 2: "s4"}):
        graphs += [(f"int{bits}", -(-count * bits // 8), graph_of(bits)) for bits in (8, 4, 3, 2)]
    for bits in (4, 3, 2):
        with patch.object(layerwise, "learn", partial(by_codebook, 2**bits)):
            graphs.append((f"codebook of {2**bits}", -(-count * bits // 8) + len(names) * 2**bits, graph_of(8)))
    return graphs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--swap", action="store_true")
    parser.add_argument("--only", default=",".join(INPUTS))
    given = parser.parse_args()
    for name in given.only.split(","):
        task = load(given.models, name, given.swap)
        for kind, size, integer in rows(task):
            quant = integer.values[integer.outputs[0]].quant
            assert quant is not None  # every output is an integer
            row = task.row(kind, quant.dequantize(integer_outputs(integer, task.test)), size, 0.0)
            sys.stdout.write(f"| {name} | {kind} | {size:,} | {row.sqnr_db} | {row.agreement} | {row.top1} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
