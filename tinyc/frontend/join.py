# SPDX-License-Identifier: Apache-2.0
"""A front end before a model: one graph from samples to the model's output."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.frontend.micro import REAL_STEP, Micro
from tinyc.ir.graph import Array, DType, Graph, Node, Quant, State, Value, read_only
from tinyc.ops import node_of, op_with
from tinyc.ops.concat import Concat
from tinyc.ops.integer_map import IntegerMap, mapped
from tinyc.ops.reshape import Reshape
from tinyc.ops.signal_energy import SignalEnergy
from tinyc.ops.signal_fft_auto_scale import SignalFftAutoScale
from tinyc.ops.signal_filter_bank import SignalFilterBank
from tinyc.ops.signal_history import SignalHistory
from tinyc.ops.signal_log import SignalLog
from tinyc.ops.signal_pcan import SignalPcan
from tinyc.ops.signal_rfft import SignalRfft
from tinyc.ops.signal_square_root import SignalSquareRoot
from tinyc.ops.signal_window import SignalWindow
from tinyc.ops.signals import COUNT

SAMPLES = "samples"  # what the joined graph's input is called
_NEAR = 0.01  # a scale that differs by no more is that of the wake words
_ESPHOME = (("mul", 256), ("add", 333), ("div", 666), ("add", -128), ("min", 127), ("max", -128))
_ESPHOME_SCALE = 666 / 256 * REAL_STEP
_LARGEST_LOG = 23  # ln of 2^32, rounded up


@dataclass(frozen=True, slots=True)
class Joined:
    """The graph, whose input is the new samples of a run. held: the state that the samples before them are, "" if
    windows do not overlap. runs: how many it takes until the model's window is full."""

    graph: Graph
    samples: str
    held: str
    runs: int


def join(graph: Graph, front: Micro) -> Joined:
    """The model with the front end before its only input, which has to be int8 features [.., frames, channels].

    A model with state gets as many new frames per run as its input has; others see a window that moves on by
    `front.hop` frames. TinycError where model and front end do not fit.
    """
    target = _input_of(graph, front)
    rows = target.elements // front.channels
    frames = rows if graph.states else min(front.hop, rows)
    made = _Draft(graph, front, target)
    made.front(frames)
    features = made.window(frames, rows)
    made.node(Reshape(target.shape), (features,), (target,))
    renamed = replace(
        graph,
        inputs=(made.samples,),
        nodes=(*made.nodes, *graph.nodes),
        values={**graph.values, **made.values},
        consts={**graph.consts, **made.consts},
        states=(*made.states, *graph.states),
    )
    return Joined(renamed, made.samples, made.held, math.ceil(rows / frames))


def _input_of(graph: Graph, front: Micro) -> Value:
    if len(graph.inputs) != 1:
        raise TinycError(f"a front end is for a model with one input; this one has {len(graph.inputs)}")
    value = graph.values[graph.inputs[0]]
    what = f"input '{value.name}' {value.dtype} {list(value.shape)}"
    if value.dtype != "s8" or value.quant is None or value.quant.axis is not None:
        raise TinycError(f"{what}: the front end gives int8 features", value.loc, "quantize the model to int8")
    by_frames = value.shape[-1] in (1, front.channels, value.elements)  # flat, too, and as a picture of one channel
    if value.elements % front.channels or not by_frames:
        raise TinycError(
            f"{what} does not consist of frames of {front.channels} channels, which the front end gives",
            value.loc,
            "set `channels` in the front end's file to that of the training: docs/frontend.md",
        )
    return value


def to_model(front: Micro, quant: Quant) -> tuple[tuple[str, int], ...]:
    """Steps from a feature to the model's int8: ESPHome's where the scale is that of its wake words, else the nearest
    integer of feature * 0.0390625 / scale, and the zero point."""
    scale, zero = quant.per_tensor
    if zero == -128 and abs(scale / _ESPHOME_SCALE - 1) <= _NEAR:
        return _ESPHOME
    largest = _LARGEST_LOG << front.log_shift
    for bits in range(20, 0, -1):
        factor = round(REAL_STEP / scale * (1 << bits))
        if factor > 0 and largest * factor + (1 << bits) < 1 << 31:
            break
    else:
        raise TinycError(f"the model's scale {scale:g} does not fit features in steps of {REAL_STEP}")
    return (
        *(("mul", factor), ("add", 1 << (bits - 1)), ("shr", bits), ("add", zero)),
        *(("min", 127), ("max", -128)),
    )


class _Draft:
    """The nodes before the model while they are made."""

    def __init__(self, graph: Graph, front: Micro, target: Value) -> None:
        self.front_end, self.target = front, target
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}
        self.consts: dict[str, Array] = {}
        self.states: list[State] = []
        self._taken = {*graph.values, *(node.name for node in graph.nodes)}
        assert target.quant is not None
        self.quant: Quant = target.quant
        self.features: list[Value] = []
        self.samples = self._free(SAMPLES)
        self.held = ""

    def _free(self, name: str) -> str:
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}#{number}"
        self._taken.add(found)
        return found

    def value(self, name: str, shape: tuple[int, ...], dtype: DType, quant: Quant | None = None) -> Value:
        value = Value(self._free(name), shape, dtype, quant or (COUNT if dtype == "s16" else None))
        self.values[value.name] = value
        return value

    def table(self, name: str, array: Array) -> Value:
        """An int16 constant, made once."""
        if name not in self.consts:
            self._taken.discard(name)
            self.consts[self.value(name, array.shape, "s16").name] = read_only(array)
        return self.values[name]

    def state(self, name: str, like: tuple[tuple[int, ...], DType], initial: bytes) -> tuple[Value, Value]:
        """(before, after)."""
        shape, dtype = like
        quant = self.quant if dtype == "s8" else None
        before = self.value(name, shape, dtype, quant)
        after = self.value(f"{name}:next", shape, dtype, quant)
        self.states.append(State(before.name, after.name, initial * (before.size_bytes // len(initial))))
        return before, after

    def node(self, attrs: object, inputs: tuple[Value, ...], outputs: tuple[Value, ...] = (), name: str = "") -> Value:
        """A node, and its outputs unless they are given; the first of them."""
        if not outputs:
            kinds = op_with(attrs).infer(attrs, *inputs)
            quants = [self.quant if kind.dtype == "s8" else None for kind in kinds]
            outputs = tuple(self.value(name, k.shape, k.dtype, q) for k, q in zip(kinds, quants, strict=True))
        names = [value.name for value in outputs]
        self.nodes.append(node_of(attrs, [value.name for value in inputs], names))
        return outputs[0]

    def front(self, frames: int) -> None:
        """The features of `frames` frames, and what is kept of the samples."""
        f = self.front_end
        x = self.values[self.samples] = Value(self.samples, (frames * f.step,), "s16", COUNT)
        overlap = f.window - f.step
        before: Value | None = None
        if overlap:
            before, after = self.state("held", ((overlap,), "s16"), b"\0\0")
            self.held = before.name
        noise = self.value("noise", (f.channels,), "u32")
        first = noise
        for frame in range(frames):
            feature, noise = self._frame(x, before, noise, frame)
            self.features.append(feature)
        self.states.append(State(first.name, noise.name, bytes(first.size_bytes)))
        if before is not None:
            self.node(SignalHistory(), (x, before), (after,))

    def _frame(self, x: Value, before: Value | None, noise: Value, frame: int) -> tuple[Value, Value]:
        f = self.front_end
        begin, end = f.bins
        cut = SignalWindow(12, frame * f.step, wraps=True)
        windowed = self.node(
            cut, (x, self.table("window", f.window_table()), *([before] if before else [])), name="cut"
        )
        scaled = self.node(SignalFftAutoScale(micro=True), (windowed,), name="scaled")
        shift = self.values[self.nodes[-1].outputs[1]]
        spectrum = self.node(SignalRfft(f.length), (scaled,), name="spectrum")
        energy = self.node(SignalEnergy(begin, end), (spectrum,), name="energy")
        sums = self.node(SignalFilterBank(f.channels), (energy, *self._bank()), name="sums")
        root = self.node(SignalSquareRoot(), (sums, shift), name="root")
        clean = self.node(f.subtraction, (root, noise), name="clean")
        after = self.values[self.nodes[-1].outputs[1]]
        if f.pcan is not None:
            gains = self.table("gains", f.gains())
            clean = self.node(SignalPcan(f.snr_shift), (clean, after, gains), name="gained")
        log = self.node(SignalLog(1 << f.log_shift, f.correction_bits), (clean,), name="log")
        return self.node(IntegerMap(to_model(f, self.quant), "s8"), (log,), name="feature"), after

    def _bank(self) -> tuple[Value, ...]:
        bank = self.front_end.bank()
        widths = [len(weights) for weights in bank.weights]
        tables = {
            "weights": [w for weights in bank.weights for w in weights],
            "unweights": [u for unweights in bank.unweights for u in unweights],
            "first_bins": bank.firsts,
            "first_weights": np.cumsum([0, *widths[:-1]]),
            "widths": widths,
        }
        return tuple(self.table(name, np.array(numbers, np.int16)) for name, numbers in tables.items())

    def window(self, frames: int, rows: int) -> Value:
        """All features that the model sees, one after the other."""
        channels = self.front_end.channels
        fresh = self.features[0] if frames == 1 else self.node(Concat(0), tuple(self.features), name="features")
        if rows == frames:
            return fresh
        zero = np.zeros(1, np.int16)
        silent = mapped(IntegerMap(to_model(self.front_end, self.quant), "s8"), zero)
        before, after = self.state("seen", ((rows * channels,), "s8"), silent.tobytes())
        return self.node(SignalHistory(), (fresh, before), (after,))
