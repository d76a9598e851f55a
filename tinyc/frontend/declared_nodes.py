# SPDX-License-Identifier: Apache-2.0
"""A declared front end as operators."""

from __future__ import annotations

import numpy as np

from tinyc.frontend.declared import Declared
from tinyc.frontend.draft import Draft
from tinyc.frontend.front import FrameByFrame
from tinyc.ir.graph import Value
from tinyc.ops.signal_square_root import SignalSquareRoot
from tinyc.ops.spectrum import Spectrum
from tinyc.ops.spectrum_bands import SpectrumBands
from tinyc.ops.spectrum_log import SpectrumLog
from tinyc.ops.spectrum_power import SpectrumPower


class DeclaredNodes(FrameByFrame):
    """Frame by frame; nothing but samples lasts."""

    def __init__(self, draft: Draft, front: Declared) -> None:
        self._draft, self._front = draft, front
        self._projection = front.projection(draft.quant)

    def frame(self, x: Value, before: Value | None, number: int) -> tuple[Value, Value]:
        """What is computed of the samples directly, and the int8 features, of frame `number` of the new samples x and
        those before."""
        draft, f = self._draft, self._front
        held = (before,) if before is not None else ()
        attrs = Spectrum(f.length, number * f.step + f.before, f.emphasis_steps)
        bins, shift = draft.node_with(attrs, (x, draft.table("window", f.window_table()), *held), name="spectrum")
        power = draft.node(SpectrumPower(*f.bins), (bins,), name="power")
        if f.power == 1:
            power = draft.node(
                SignalSquareRoot(), (power, draft.table("unscaled", np.zeros((), np.int32))), name="root"
            )
        bands = draft.node(SpectrumBands(), (power, draft.table("bands", f.weights())), name="band")
        added = f.added()
        least = [draft.table("least", f.least_logs()), *([draft.table("added", added)] if added is not None else [])]
        log = draft.node(SpectrumLog(f.power), (bands, shift, *least), name="log")
        project, factor, offset = self._projection
        tables = (draft.table("factor", factor), draft.table("offset", offset))
        return bins, draft.node(project, (log, *tables), name="feature")

    def finish(self) -> None:
        """After the last frame: nothing more."""

    def silence(self) -> bytes:
        """The features of silence."""
        scale, zero = self._draft.quant.per_tensor
        return self._front.quantized(np.zeros(self._front.window, np.int16), scale, zero).tobytes()
