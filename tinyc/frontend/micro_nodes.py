# SPDX-License-Identifier: Apache-2.0
"""The micro front end as operators."""

from __future__ import annotations

import numpy as np

from tinyc.frontend.draft import Draft
from tinyc.frontend.front import FrameByFrame
from tinyc.frontend.micro import Micro, to_model
from tinyc.ir.graph import State, Value
from tinyc.ops.integer_map import IntegerMap, mapped
from tinyc.ops.signal_energy import SignalEnergy
from tinyc.ops.signal_fft_auto_scale import SignalFftAutoScale
from tinyc.ops.signal_filter_bank import SignalFilterBank
from tinyc.ops.signal_log import SignalLog
from tinyc.ops.signal_pcan import SignalPcan
from tinyc.ops.signal_rfft import SignalRfft
from tinyc.ops.signal_square_root import SignalSquareRoot
from tinyc.ops.signal_window import SignalWindow


class MicroNodes(FrameByFrame):
    """Frame by frame: what is noise lasts from one to the next."""

    def __init__(self, made: Draft, front: Micro) -> None:
        self._made, self._front = made, front
        self._first = self._noise = made.value("noise", (front.channels,), "u32")

    def frame(self, x: Value, before: Value | None, number: int) -> tuple[Value, Value]:
        """What is computed of the samples directly, and the int8 features, of frame `number` of the new samples x and
        those before."""
        made, f = self._made, self._front
        begin, end = f.bins
        held = (before,) if before is not None else ()
        cut = SignalWindow(12, number * f.step, wraps=True)
        windowed = made.node(cut, (x, made.table("window", f.window_table()), *held), name="cut")
        scaled, shift = made.node_with(SignalFftAutoScale(micro=True), (windowed,), name="scaled")
        spectrum = made.node(SignalRfft(f.length), (scaled,), name="spectrum")
        energy = made.node(SignalEnergy(begin, end), (spectrum,), name="energy")
        sums = made.node(SignalFilterBank(f.channels), (energy, *self._bank()), name="sums")
        root = made.node(SignalSquareRoot(), (sums, shift), name="root")
        clean, self._noise = made.node_with(f.subtraction, (root, self._noise), name="clean")
        if f.pcan is not None:
            gains = made.table("gains", f.gains())
            clean = made.node(SignalPcan(f.snr_shift), (clean, self._noise, gains), name="gained")
        log = made.node(SignalLog(1 << f.log_shift, f.correction_bits), (clean,), name="log")
        return windowed, made.node(IntegerMap(to_model(f, made.quant), "s8"), (log,), name="feature")

    def finish(self) -> None:
        """After the last frame."""
        self._made.states.append(State(self._first.name, self._noise.name, bytes(self._first.size_bytes)))

    def silence(self) -> bytes:
        """The features of silence, or a part of them that all are like."""
        zero = np.zeros(1, np.int16)
        return mapped(IntegerMap(to_model(self._front, self._made.quant), "s8"), zero).tobytes()

    def _bank(self) -> tuple[Value, ...]:
        bank = self._front.bank()
        widths = [len(weights) for weights in bank.weights]
        tables = {
            "weights": [w for weights in bank.weights for w in weights],
            "unweights": [u for unweights in bank.unweights for u in unweights],
            "first_bins": bank.firsts,
            "first_weights": np.cumsum([0, *widths[:-1]]),
            "widths": widths,
        }
        return tuple(self._made.table(name, np.array(numbers, np.int16)) for name, numbers in tables.items())
