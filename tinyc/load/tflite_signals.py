# SPDX-License-Identifier: Apache-2.0
"""TFLite's custom signal operators, those that TensorFlow Lite Micro registers, and arithmetic on counts.

None of their tensors has a scale. What the operators keep inside the interpreter are states of the graph here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flatbuffers import flexbuffers

from tinyc.base.errors import TinycError
from tinyc.ir.graph import DType, Quant, Shape, State, Value
from tinyc.load.damage import reading
from tinyc.load.looked import Looked, not_understood
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.ops.concat import Concat
from tinyc.ops.signal_energy import SignalEnergy
from tinyc.ops.signal_fft_auto_scale import SignalFftAutoScale
from tinyc.ops.signal_filter_bank import SignalFilterBank
from tinyc.ops.signal_framer import SignalFramer
from tinyc.ops.signal_history import SignalHistory
from tinyc.ops.signal_irfft import SignalIrfft
from tinyc.ops.signal_log import SignalLog
from tinyc.ops.signal_overlap_add import SignalOverlapAdd
from tinyc.ops.signal_pcan import SignalPcan
from tinyc.ops.signal_rfft import SignalRfft
from tinyc.ops.signal_spectral_subtraction import SignalSpectralSubtraction
from tinyc.ops.signal_square_root import SignalSquareRoot
from tinyc.ops.signal_stacker import SignalStacker
from tinyc.ops.signal_window import SignalWindow
from tinyc.ops.signals import COUNT
from tinyc.ops.slice import whole

_MOST_NAMES = 64  # attributes of an operator
_NUMBERS = {0: "float32", 2: "int32", 7: "int16"}  # schema enum TensorType


def _attributes(s: TfliteStep, *names: str) -> list[int]:
    """The numbers of the operator's map, in the order of `names`. TinycError for one that is missing, or is no number,
    and for others that nobody asks for."""
    content = s.operator.custom
    numbers: dict[str, int] = {}
    with reading("the operator's attributes", s.where):
        entries = flexbuffers.GetRoot(bytearray(content)).AsMap if content else None
        if entries is not None and len(entries) > _MOST_NAMES:
            raise ValueError("names")
        for key, entry in zip(entries.Keys, entries.Values, strict=True) if entries else ():
            if not (entry.IsInt or entry.IsBool):
                raise TinycError(f"the attribute '{_printable(key)}' of the operator is no integer", s.where)
            numbers[_printable(key)] = int(entry.AsInt)
    attributes = Looked(numbers)
    missing = [name for name in names if name not in numbers]
    if missing:
        raise TinycError(
            f"the operator has no attribute '{missing[0]}'; it has {', '.join(sorted(numbers)) or 'none'}",
            s.where,
            "convert the model again with the signal library of TensorFlow Lite Micro",
        )
    values = [attributes[name] for name in names]
    for name in attributes.unseen():
        raise not_understood(f"it has an attribute '{name}'", s.operator.code, s.where)
    return values


def _printable(key: Any) -> str:
    text = str(key.AsKey if hasattr(key, "AsKey") else key)[:_MOST_NAMES]
    return "".join(c if c.isprintable() else "?" for c in text)


def _state(s: TfliteStep, suffix: str, shape: Shape, dtype: DType, initial: int = 0) -> tuple[Value, Value]:
    """(before, after) of something that the operator remembers, all `initial` after a reset."""
    stem = s.builder.name_of(s.out_tensor())
    quant: Quant | None = COUNT if dtype == "s16" else None
    before = Value(s.builder.unique(f"{stem}:{suffix}"), shape, dtype, quant, s.where)
    after = replace(before, name=s.builder.unique(f"{before.name}:next"))
    s.builder.values[before.name] = before
    width = 2 if dtype == "s16" else 4
    s.builder.states.append(State(before.name, after.name, initial.to_bytes(width, "little") * before.elements))
    return before, after


def _number_kind(s: TfliteStep, kind: int) -> None:
    """The attribute T has to be that of the tensors; float32 is not computed."""
    name = _NUMBERS.get(kind, f"type {kind}")
    if name == "float32":
        raise TinycError(
            f"{s.operator.code.removeprefix('CUSTOM ')} in float32 is not supported",
            s.where,
            "tinyc computes signals in integers: make the model with int16 (or int32) samples",
        )
    if s.value(0).dtype != {"int32": "s32", "int16": "s16"}.get(name):
        raise TinycError(f"the operator is declared for {name}, and its input is {s.value(0).dtype}", s.where)


@imports("CUSTOM SignalWindow")
def window(s: TfliteStep) -> None:
    (shift,) = _attributes(s, "shift")
    s.emit((s.value(0), s.value(1)), SignalWindow(shift))


@imports("CUSTOM SignalFftAutoScale")
def fft_auto_scale(s: TfliteStep) -> None:
    _attributes(s)
    s.emit((s.value(0),), SignalFftAutoScale())


@imports("CUSTOM SignalRfft")
def rfft(s: TfliteStep) -> None:
    kind, length = _attributes(s, "T", "fft_length")
    _number_kind(s, kind)
    s.emit((s.value(0),), SignalRfft(length))


@imports("CUSTOM SignalIrfft")
def irfft(s: TfliteStep) -> None:
    kind, length = _attributes(s, "T", "fft_length")
    _number_kind(s, kind)
    s.emit((s.value(0),), SignalIrfft(length))


@imports("CUSTOM SignalEnergy")
def energy(s: TfliteStep) -> None:
    end, start = _attributes(s, "end_index", "start_index")
    s.emit((s.value(0),), SignalEnergy(start, end))


@imports("CUSTOM SignalFilterBank")
def filter_bank(s: TfliteStep) -> None:
    (channels,) = _attributes(s, "num_channels")
    s.emit([s.value(k) for k in range(6)], SignalFilterBank(channels))


@imports("CUSTOM SignalFilterBankSquareRoot")
def square_root(s: TfliteStep) -> None:
    _attributes(s)
    s.emit((s.value(0), s.value(1)), SignalSquareRoot())


@imports("CUSTOM SignalFilterBankSpectralSubtraction")
def spectral_subtraction(s: TfliteStep) -> None:
    """Its second output is the estimate, which the next run begins with: the state."""
    even_rest, even, odd_rest, odd, *others = _attributes(
        s,
        "one_minus_smoothing",
        "smoothing",
        "alternate_one_minus_smoothing",
        "alternate_smoothing",
        "clamping",
        "min_signal_remaining",
        "num_channels",
        "smoothing_bits",
        "spectral_subtraction_bits",
    )
    clamping, least, channels, smoothing_bits, bits = others
    x = s.value(0)
    if x.elements != channels:
        raise TinycError(f"the operator is declared for {channels} channels, and its input has {x.elements}", s.where)
    attrs = SignalSpectralSubtraction((even, odd), (even_rest, odd_rest), least, smoothing_bits, bits, bool(clamping))
    y, noise = s.declared(0), s.declared(1)
    stem = s.builder.unique(f"{noise.name}:before")
    before = replace(noise, name=stem)
    s.builder.values[before.name] = before
    s.builder.states.append(State(before.name, noise.name, bytes(before.size_bytes)))
    s.emit((x, before), attrs, y, noise)


@imports("CUSTOM SignalPCAN")
def pcan(s: TfliteStep) -> None:
    (snr_shift,) = _attributes(s, "snr_shift")
    s.emit((s.value(0), s.value(1), s.value(2)), SignalPcan(snr_shift))


@imports("CUSTOM SignalFilterBankLog")
def filter_bank_log(s: TfliteStep) -> None:
    correction, scale = _attributes(s, "input_correction_bits", "output_scale")
    s.emit((s.value(0),), SignalLog(scale, correction))


@imports("CUSTOM SignalFramer")
def framer(s: TfliteStep) -> None:
    size, step, prefill = _attributes(s, "frame_size", "frame_step", "prefill")
    x, attrs = s.value(0), SignalFramer(size, step, bool(prefill))
    if not 0 < step < size or not x.shape:
        raise TinycError(
            f"frames of {size} samples every {step}: a step is shorter than a frame, and at least 1", s.where
        )
    lines = x.elements // x.shape[-1]
    before, after = _state(s, "held", (lines, attrs.held), "s16")
    missing, left = _state(s, "missing", (), "s32", attrs.missing)
    outputs = (s.declared(0), s.declared(1), after, left)
    s.insert((x, before, missing), attrs, *outputs)
    _define(s, outputs)


@imports("CUSTOM SignalStacker")
def stacker(s: TfliteStep) -> None:
    channels, left, right, step = _attributes(
        s, "num_channels", "stacker_left_context", "stacker_right_context", "stacker_step"
    )
    x = s.value(0)
    if x.elements != channels:
        raise TinycError(f"the operator is declared for {channels} channels, and its input has {x.elements}", s.where)
    if min(left, right) < 0 or left + right < 1:
        raise TinycError(f"a stacker of {left} frames before and {right} after each cannot be compiled", s.where)
    before, after = _state(s, "held", ((left + right) * channels,), "s16")
    due, next_due = _state(s, "due", (), "s32")
    outputs = (s.declared(0), s.declared(1), after, next_due)
    s.insert((x, before, due), SignalStacker(left, right, step), *outputs)
    _define(s, outputs)


@imports("CUSTOM SignalOverlapAdd")
def overlap_add(s: TfliteStep) -> None:
    kind, step = _attributes(s, "T", "frame_step")
    _number_kind(s, kind)
    x = s.value(0)
    if len(x.shape) < 2:
        raise TinycError(f"overlap-add of a tensor {list(x.shape)}: it takes frames by samples", s.where)
    before, after = _state(s, "held", (*x.shape[:-2], x.shape[-1]), "s16")
    outputs = (s.declared(), after)
    s.insert((x, before), SignalOverlapAdd(step), *outputs)
    _define(s, outputs)


@imports("CUSTOM SignalDelay")
def delay(s: TfliteStep) -> None:
    """The first samples of those that were held back and of the new ones, one after the other."""
    (length,) = _attributes(s, "delay_length")
    x = s.value(0)
    if length < 1 or not x.shape or x.dtype != "s16":
        raise TinycError(
            f"a delay of {length} samples of a tensor {x.dtype} {list(x.shape)} cannot be compiled", s.where
        )
    before, after = _state(s, "held", (*x.shape[:-1], length), "s16")
    joined = s.between("joined", (*x.shape[:-1], length + x.shape[-1]), x)
    s.insert((before, x), Concat(len(x.shape) - 1), joined)
    s.insert((x, before), SignalHistory(), after)
    s.emit((joined,), whole(joined.shape, len(x.shape) - 1, 0, x.shape[-1]), s.declared())


def _define(s: TfliteStep, outputs: Sequence[Value]) -> None:
    """Say that the operator's outputs are the first of these; behind them are states of the next run."""
    for index, value in enumerate(outputs[: s.output_count]):
        s.define(index, value)
