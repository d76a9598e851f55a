# SPDX-License-Identifier: Apache-2.0
"""Prints what it would save to end a sum as soon as its clamped output can no longer change.

    python bench/saturation.py [--model kws ...] [--samples 4]

A sum has ended where what is there and the most that the taps left can add stay at or below what gives the least
output, or at or above what gives the greatest: with inputs of any value that the layer before can give, so no output
changes. On the activations of real inputs, for each layer of the five int8 MLPerf Tiny models, in the best of four
orders of the taps. A kernel ends when all sums that it holds in registers have ended.

What a test costs is counted low: a test that fails is taken to fail at the first of the sums, and reading inputs in
another order is free. So the gain that is printed is a bound of what a kernel would win, in the share of instructions
of the emulated Cortex-M3 and M0+.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from peers import MODELS
from tables import INPUTS, ROOT, as_table

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.windows import ConvParams, Int64s, Window
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.profiling import profile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import BoundNode, prepare_int

BOARDS = ("cortex-m3", "cortex-m0plus")
BLOCKS = (2, 4, 8, 16, 32, 64)  # taps from test to test that are tried
_OUT_AXIS = {"conv2d": 0, "fully_connected": 0, "depthwise_conv2d": 2}
_PARTS = 4096  # sums of a tap that are looked at together
_NO_REQUANTIZATION = 6  # instructions that an output whose sum has ended does not take


class Loop(NamedTuple):
    """The inner loop of a kernel: how many pixels and channels it sums at once, and instructions for each tap of all of
    them, of a test that fails, and of one in which all have ended."""

    pixels: int
    channels: int
    tap: float
    fails: float
    ends: float


# By kernel and board, from tc_scalar.h, tc_scalar_pairs.h and tc_depthwise_conv2d_s8_taps.h.
LOOPS: Mapping[str, tuple[Loop, Loop]] = {
    "tc_conv2d_s8_scalar": (Loop(3, 4, 14, 4, 56), Loop(3, 2, 13, 6, 36)),
    "tc_fully_connected_s8_pairs": (Loop(1, 2, 3.2, 3, 6), Loop(1, 2, 5.5, 4, 8)),
    "tc_depthwise_conv2d": (Loop(1, 1, 5.6, 3, 3), Loop(1, 1, 8, 4, 4)),
    "tc_fully_connected_s8": (Loop(1, 1, 5, 3, 3), Loop(1, 1, 7, 4, 4)),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """windows: the input of each sum [P, O or 1, K]. taps, bias: [O, K] and [O]. least, greatest: of the inputs.
    low, high: sums up to which the output is the least, and from which it is the greatest, [O]."""

    windows: Int64s
    taps: Int64s
    bias: Int64s
    least: int
    greatest: int
    low: Int64s
    high: Int64s


def main() -> int:
    parser = argparse.ArgumentParser(description="Print what ending sums early would save")
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--samples", type=int, default=4)
    args = parser.parse_args()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    rows = [row for model in args.model or MODELS for row in measure(folder, model, args.samples)]
    head = ("model", "core", "at a limit", "taps, one sum", "taps, as summed", "test for nothing", "with tests")
    print(as_table(head, rows))
    return 0


def measure(folder: Path, model: str, samples: int) -> Iterator[Sequence[str]]:
    """A row for each core: outputs at their least or greatest value; taps that are not needed, where a sum is alone and
    where the kernel's sums end together; instructions saved, of all of the inference's."""
    path, inputs = folder / f"{model}_int8.tflite", folder / f"{INPUTS[model]}.npz"
    integers = make_integers(path, load_board(BOARDS[0]), Options(board=BOARDS[0]), Progress())
    bound = prepare_int(integers.graph, integers.numerics)
    runs = [bound(sample, keep="all") for sample in _samples(inputs, samples, integers.graph)]
    layers = dict(layers_of(bound.steps, runs))
    for board, name in enumerate(BOARDS):
        profile = profile_model(path, Options(board=name, inputs=inputs, samples=1), Progress(), False, 0)
        whole = sum(layer.cost.instructions for layer in profile.layers)
        gains = []
        for step in profile.layers:
            loop = next((loops[board] for kernel, loops in LOOPS.items() if step.kernel.startswith(kernel)), None)
            if loop is not None and step.step in layers:
                gains.append(gain(layers[step.step], loop, samples))
        yield (model, name, *_cells(gains, whole))


def _cells(gains: Sequence[Gain], whole: int) -> Iterator[str]:
    sums, taps = sum(g.sums for g in gains), sum(g.taps for g in gains)
    for value, of in (
        (sum(g.ended for g in gains), sums),
        (sum(g.alone for g in gains), taps),
        (sum(g.together for g in gains), taps),
        (sum(g.free for g in gains), whole),
        (sum(g.saved for g in gains), whole),
    ):
        yield f"{value / of:.1%}" if of else "-"


def _samples(inputs: Path, samples: int, graph: Graph) -> list[dict[str, Array]]:
    name = graph.inputs[0]
    with np.load(inputs) as arrays:
        return [{name: x.reshape(graph.values[name].shape)} for x in arrays["x"][:samples]]


# ---- the sums of a layer ----


def layers_of(steps: Sequence[BoundNode], runs: Sequence[Mapping[str, Array]]) -> Iterator[tuple[int, Layer]]:
    """The layers with weights, by their place among the steps; runs: all values of each sample."""
    limits: dict[str, tuple[int, int]] = {}
    for at, step in enumerate(steps):
        node, p = step.node, step.head
        limits[node.outputs[0]] = (-128, 127)
        if not isinstance(p, ConvParams):
            continue
        limits[node.outputs[0]] = (p.y_min, p.y_max)
        x = np.concatenate([run[node.inputs[0]] for run in runs])
        taps = np.moveaxis(p.w, _OUT_AXIS[node.op], 0).reshape(len(p.bias), -1).astype(np.int64)
        least, greatest = limits.get(node.inputs[0], (-128, 127))
        yield at, Layer(_windows(node.op, p, x), taps, p.bias.astype(np.int64), least, greatest, *_clamped(p))


def _windows(op: str, p: ConvParams, x: Array) -> Int64s:
    if op == "fully_connected":
        return x.reshape(-1, 1, p.w.shape[1]).astype(np.int64)
    depthwise = op == "depthwise_conv2d"
    view = Window.of(p.attrs, *p.w.shape[:2] if depthwise else p.w.shape[1:3]).view(x, p.x_zero).astype(np.int64)
    if not depthwise:
        return view.reshape(-1, 1, p.w[0].size)
    repeated = np.repeat(view, p.w.shape[2] // x.shape[3], axis=-1)
    return repeated.reshape(-1, p.w.shape[0] * p.w.shape[1], p.w.shape[2]).transpose(0, 2, 1)


def _clamped(p: ConvParams) -> tuple[Int64s, Int64s]:
    """The greatest sums that give the least output, and the least that give the greatest: by halving, for sums and
    outputs grow together."""
    channels = len(p.bias)
    return _last(lambda acc: p.finish(acc) == p.y_min, channels), _last(
        lambda acc: p.finish(acc) < p.y_max, channels
    ) + 1


def _last(holds: Callable[[Int64s], Array], channels: int) -> Int64s:
    below, above = np.full(channels, -(2**28)), np.full(channels, 2**28)
    while (above - below > 1).any():
        middle = (below + above) // 2
        held = holds(middle)
        below, above = np.where(held, middle, below), np.where(held, above, middle)
    return below


# ---- where they end ----


class Gain(NamedTuple):
    """Of a layer and an inference: sums, those at a limit, taps of all, taps not needed by single sums and by the
    kernel's, instructions saved if tests cost nothing, and with tests."""

    sums: float
    ended: float
    taps: float
    alone: float
    together: float
    free: float
    saved: float


def gain(layer: Layer, loop: Loop, samples: int) -> Gain:
    """In the best order of the taps, with the best number of taps from test to test; single sums in their own best."""
    best = max((_gain(layer, loop, order) for order in _ORDERS), key=lambda g: (g.saved, g.free))
    single = max(_gain(layer, loop._replace(pixels=1, channels=1), order).alone for order in _ORDERS)
    return Gain(*(value / samples for value in best._replace(alone=single)))


# By which numbers the taps of a few channels w[C, K] are ordered, x[K] being how far their inputs are from each other.
_ORDERS: tuple[Callable[[Int64s, Array], Array], ...] = (
    lambda w, x: np.arange(w.shape[1]),
    lambda w, x: -np.abs(w).sum(axis=0),
    lambda w, x: -w.sum(axis=0),
    lambda w, x: -np.abs(w).sum(axis=0) * x,
)


def _gain(layer: Layer, loop: Loop, order: Callable[[Int64s, Array], Array]) -> Gain:
    needed, count = _needed(layer, loop, order), layer.taps.shape[1]
    pixels, channels = needed.shape
    at_once = loop.pixels * loop.channels
    padded = np.pad(needed, ((0, -pixels % loop.pixels), (0, -channels % loop.channels)))
    shape = (-1, loop.pixels, padded.shape[1] // loop.channels, loop.channels)
    together = padded.reshape(shape).max(axis=(1, 3))
    early = np.maximum(count - together, 0)
    return Gain(
        needed.size,
        (needed <= count).sum(),
        needed.size * count,
        np.maximum(count - needed, 0).sum(),
        early.mean() * needed.size,
        (loop.tap * early + _NO_REQUANTIZATION * at_once * (early > 0)).sum(),
        max(0.0, *(_saved(together, count, loop, block) for block in BLOCKS)),
    )


def _saved(needed: Int64s, count: int, loop: Loop, block: int) -> float:
    """Instructions that tests after every `block` taps save, none after the last."""
    tests = (count - 1) // block
    ends = -(-needed // block)  # the test that finds it
    early = ends <= tests
    won = early * (loop.tap * (count - ends * block) + _NO_REQUANTIZATION * loop.pixels * loop.channels - loop.ends)
    return float((won - loop.fails * np.where(early, ends - 1, tests)).sum())


def _needed(layer: Layer, loop: Loop, order: Callable[[Int64s, Array], Array]) -> Int64s:
    """After how many taps each sum has ended, [P, O], more than all where it never does. Channels that are often at a
    limit are beside each other."""
    spread = layer.windows.std(axis=(0, 1))
    sums = (layer.windows * layer.taps).sum(axis=2) + layer.bias
    often = np.argsort(-((sums <= layer.low) | (sums >= layer.high)).mean(axis=0), kind="stable")
    needs = []
    for first in range(0, len(often), loop.channels):
        group = often[first : first + loop.channels]
        along = np.argsort(order(layer.taps[group], spread), kind="stable")
        needs.append(_ended(layer, group, along))
    return np.concatenate(needs, axis=1)


def _ended(layer: Layer, group: Int64s, along: Int64s) -> Int64s:
    taps, low, high = layer.taps[group][:, along], layer.low[group, None], layer.high[group, None]
    ends = taps * layer.least, taps * layer.greatest
    most, least = _left(np.maximum(*ends)), _left(np.minimum(*ends))
    x = layer.windows[:, group if layer.windows.shape[1] > 1 else [0]][:, :, along]
    needed = []
    for first in range(0, len(x), _PARTS):
        sums = layer.bias[group, None] + np.cumsum(x[first : first + _PARTS] * taps, axis=2)
        ended = (sums + most <= low) | (sums + least >= high)
        needed.append(1 + (~ended).sum(axis=2))
    return np.concatenate(needed)


def _left(most: Int64s) -> Int64s:
    """What all taps behind each add, [C, K] of each alone."""
    return most.sum(axis=1, keepdims=True) - np.cumsum(most, axis=1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
