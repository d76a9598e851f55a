# SPDX-License-Identifier: Apache-2.0
"""ONNX STFT."""

from __future__ import annotations

from tinyc.base.errors import TinycError
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.stft import Stft


@imports("STFT")
def stft(s: OnnxStep) -> None:
    """Of one line of samples, with a constant window."""
    x = s.value(0)
    (step,) = s.numbers(1)
    if s.node.int_("onesided", 1) != 1:
        raise TinycError("an STFT with all bins is not supported", s.where, "samples are real: export onesided=True")
    if not s.has(2):
        raise TinycError("an STFT without a window is not supported", s.where, "give it a window, of ones if need be")
    window = s.weights(2)
    if s.has(3) and s.numbers(3) != (window.size,):
        raise TinycError(f"an STFT of frames of {s.numbers(3)[0]} samples, with a window of {window.size}", s.where)
    s.emit([x, s.const(window, 2)], Stft(step))
