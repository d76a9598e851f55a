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

    def __init__(self, draft: Draft, front: Micro) -> None:
        self._draft, self._front = draft, front
        self._first = self._noise = draft.value("noise", (front.channels,), "u32")

    def frame(self, x: Value, before: Value | None, number: int) -> tuple[Value, Value]:
        """What is computed of the samples directly, and the int8 features, of frame `number` of the new samples x and
        those before."""
        draft, f = self._draft, self._front
        begin, end = f.bins
        held = (before,) if before is not None else ()
        cut = SignalWindow(12, number * f.step, wraps=True)
        windowed = draft.node(cut, (x, draft.table("window", f.window_table()), *held), name="cut")
        scaled, shift = draft.node_with(SignalFftAutoScale(micro=True), (windowed,), name="scaled")
        spectrum = draft.node(SignalRfft(f.length), (scaled,), name="spectrum")
        energy = draft.node(SignalEnergy(begin, end), (spectrum,), name="energy")
        sums = draft.node(SignalFilterBank(f.channels), (energy, *self._bank()), name="sums")
        root = draft.node(SignalSquareRoot(), (sums, shift), name="root")
        clean, self._noise = draft.node_with(f.subtraction, (root, self._noise), name="clean")
        if f.pcan is not None:
            gains = draft.table("gains", f.gains())
            clean = draft.node(SignalPcan(f.snr_shift), (clean, self._noise, gains), name="gained")
        log = draft.node(SignalLog(1 << f.log_shift, f.correction_bits), (clean,), name="log")
        return windowed, draft.node(IntegerMap(to_model(f, draft.quant), "s8"), (log,), name="feature")

    def finish(self) -> None:
        """After the last frame."""
        self._draft.states.append(State(self._first.name, self._noise.name, bytes(self._first.size_bytes)))

    def silence(self) -> bytes:
        """The features of silence, or a part of them that all are like."""
        zero = np.zeros(1, np.int16)
        return mapped(IntegerMap(to_model(self._front, self._draft.quant), "s8"), zero).tobytes()

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
        return tuple(self._draft.table(name, np.array(numbers, np.int16)) for name, numbers in tables.items())
