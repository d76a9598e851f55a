# SPDX-License-Identifier: Apache-2.0
"""What `--frontend` names: `micro`, or a TOML file with the settings of a front end."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.board.table import TomlTable
from tinyc.frontend.declared import DCT_NORMS, LOGS, Dct, Declared, Scaling
from tinyc.frontend.front import FrontEnd
from tinyc.frontend.mel import NORMS, SCALES, SLOPES, WINDOWS, Mel
from tinyc.frontend.micro import Micro
from tinyc.frontend.motion import MotionFront
from tinyc.frontend.raw import RawFront
from tinyc.ops.motion import FEATURES, MOST_AXES, MOST_PEAKS, MOST_WINDOW

_KIND, _PAGE = "front end's file", "docs/frontend.md"
_MOST_LETTERS, _MOST_DOTS = 1 << 16, 8
_MOST_RATE = 192_000


def load_frontend(name: str) -> FrontEnd:
    """The front end of that name, or of that TOML file. TinycError naming file, line and key."""
    if name == "micro":
        return Micro()
    if not name.endswith(".toml"):
        raise TinycError(f"no front end is called '{name}'", hint=f"give `micro`, or a .toml file: {_PAGE}")
    return _read(name)


def _read(name: str) -> FrontEnd:
    table = read_settings(name, _KIND, _PAGE)
    try:
        return KINDS[table.choice("kind", tuple(KINDS))](table)
    except TinycError as error:
        raise error.located(Loc(name)).hinted(f"{_PAGE} has the keys, and what they may be") from error


def read_settings(name: str, kind: str, page: str) -> TomlTable:
    """The table of a TOML file. kind: what file it is, page: of docs/, for messages. TinycError naming the file."""
    path = Path(name)
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TinycError(f"cannot read the {kind}: {reason}", Loc(str(path)), page) from error
    if len(text) > _MOST_LETTERS or any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise TinycError(f"this is no {kind}: it is too long, or has too many dots in a line", Loc(str(path)), page)
    try:
        held = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TinycError(f"the {kind} is not valid TOML: {error}", Loc(str(path)), page) from error
    return TomlTable(held, "", text, str(path), kind, page)


def _micro(table: TomlTable) -> Micro:
    usual = Micro()
    rate = table.integer("rate", usual.rate, 1000, _MOST_RATE)
    window_ms = table.number("window_ms", 1000 * usual.window / usual.rate, 1, 1000)
    step_ms = table.number("step_ms", 1000 * usual.step / usual.rate, 1, 1000)
    micro = Micro(
        rate=rate,
        window=_samples(table, "window_ms", window_ms, rate),
        step=_samples(table, "step_ms", step_ms, rate),
        channels=table.integer("channels", usual.channels, 1, 256),
        low_hz=table.number("low_hz", usual.low_hz, 1, rate / 2),
        high_hz=table.number("high_hz", min(usual.high_hz, rate / 2), 1, rate / 2),
        hop=table.integer("hop", usual.hop, 1, 4096),
        **_parts(table, usual),
    )
    table.finish()
    return micro


def _parts(table: TomlTable, usual: Micro) -> dict[str, Any]:
    """The settings of [noise], [pcan] and [log]."""
    assert usual.pcan is not None
    noise, pcan, log = (_part(table, key) for key in ("noise", "pcan", "log"))
    strength, offset, bits = usual.pcan
    gain = (
        pcan.number("strength", strength, 0, 1),
        pcan.number("offset", offset, 0, 1e6),
        pcan.integer("gain_bits", bits, 1, 30),
    )
    parts = {
        "smoothing_bits": noise.integer("smoothing_bits", usual.smoothing_bits, 1, 16),
        "even": noise.number("even", usual.even, 0, 1),
        "odd": noise.number("odd", usual.odd, 0, 1),
        "least": noise.number("least", usual.least, 0, 1),
        "pcan": gain if pcan.boolean("on", True) else None,
        "log_shift": log.integer("shift", usual.log_shift, 0, 10),
    }
    for part in (noise, pcan, log):
        part.finish()
    return parts


def _logmel(table: TomlTable) -> Declared:
    return _declared(table, {})


def _mfcc(table: TomlTable) -> Declared:
    return _declared(table, {"dct": _dct(_part(table, "dct"))})


def _declared(table: TomlTable, further: Mapping[str, Any]) -> Declared:
    usual = Declared()
    rate = table.integer("rate", usual.rate, 1000, _MOST_RATE)
    window = _samples(table, "window_ms", table.number("window_ms", 30, 1, 1000), rate)
    front = Declared(
        rate=rate,
        window=window,
        step=_samples(table, "step_ms", table.number("step_ms", 10, 1, 1000), rate),
        length=table.integer("length", 1 << (max(window, 32) - 1).bit_length(), 32, 8192),
        taper=_choice(table, "window", usual.taper, WINDOWS),
        periodic=table.boolean("periodic", usual.periodic),
        emphasis=table.number("preemphasis", 0, 0, 1),
        hop=table.integer("hop", usual.hop, 1, 4096),
        **_spectrum(_part(table, "spectrum")),
        mel=_mel(_part(table, "mel"), rate),
        **_logarithm(_part(table, "log")),
        scaling=_scaling(_part(table, "scaling")),
        **further,
    )
    front.added()
    table.finish()
    return front


def _motion(table: TomlTable) -> MotionFront:
    usual = MotionFront()
    named = table.strings("features", usual.features_of)
    for name in named:
        if name not in FEATURES:
            raise table.error("features", f"has '{name}'; there are {', '.join(FEATURES)}")
    front = MotionFront(
        axes=table.integer("axes", usual.axes, 1, MOST_AXES),
        hz=table.number("rate", usual.hz, 1e-3, _MOST_RATE),
        samples=table.integer("window", usual.samples, 2, MOST_WINDOW),
        every=table.integer("step", usual.every, 1, MOST_WINDOW),
        unit=table.numbers("unit", usual.unit, 1e-9, 1e6),
        features_of=named,
        peaks=table.integer("peaks", usual.peaks, 0, MOST_PEAKS),
        scaling=_scaling(_part(table, "scaling")),
        hop=table.integer("hop", usual.hop, 1, 4096),
    )
    table.finish()
    return front


def _raw(table: TomlTable) -> RawFront:
    usual = RawFront()
    front = RawFront(
        axes=table.integer("axes", usual.axes, 1, MOST_AXES),
        hz=table.number("rate", usual.hz, 1e-3, _MOST_RATE),
        unit=table.numbers("unit", usual.unit, 1e-9, 1e6),
        scaling=_scaling(_part(table, "scaling")),
        hop=table.integer("hop", usual.hop, 1, 4096),
    )
    table.finish()
    return front


def _part(table: TomlTable, key: str) -> TomlTable:
    return table.table(key) or TomlTable({}, key, "", table.file, _KIND, _PAGE)


def _spectrum(part: TomlTable) -> dict[str, Any]:
    spectrum = {
        "peak": part.number("peak", 1, 1e-6, 1e6),
        "power": _power(part),
        "factor": part.number("factor", 1, 1e-12, 1e12),
    }
    part.finish()
    return spectrum


def _power(part: TomlTable) -> int:
    power = part.number("power", 2, -math.inf, math.inf)
    if power not in (1, 2):
        raise part.error("power", f"is 1 (magnitudes) or 2 (powers), not {power:g}")
    return int(power)


def _mel(part: TomlTable, rate: int) -> Mel:
    usual = Mel()
    mel = Mel(
        bands=part.integer("bands", usual.bands, 1, 256),
        low_hz=part.number("low_hz", usual.low_hz, 0, rate / 2),
        high_hz=part.number("high_hz", min(usual.high_hz, rate / 2), 1, rate / 2),
        scale=_choice(part, "scale", usual.scale, SCALES),
        slope=_choice(part, "slope", usual.slope, SLOPES),
        norm=_choice(part, "norm", usual.norm, NORMS),
    )
    part.finish()
    return mel


def _logarithm(part: TomlTable) -> dict[str, Any]:
    logarithm = {
        "log": _choice(part, "kind", "ln", (*LOGS, "dB")),
        "floor": part.number("floor", 0, 0, 1e12),
        "add": part.number("add", 0, 0, 1e12),
    }
    part.finish()
    return logarithm


def _dct(part: TomlTable) -> Dct:
    usual = Dct()
    dct = Dct(
        part.integer("coefficients", usual.coefficients, 1, 256),
        _choice(part, "norm", usual.norm, DCT_NORMS),
        part.number("lifter", usual.lifter, 0, 1e6),
    )
    part.finish()
    return dct


def _scaling(part: TomlTable) -> Scaling:
    scaling = Scaling(
        part.numbers("mean", (0.0,), -1e6, 1e6),
        part.numbers("deviation", (1.0,), 1e-6, 1e6),
        part.number("least", -math.inf, -1e6, 1e6) if part.has("least") else -math.inf,
        part.number("most", math.inf, -1e6, 1e6) if part.has("most") else math.inf,
        _choice(part, "rounds", "nearest", ("nearest", "cut")) == "cut",
    )
    part.finish()
    return scaling


def _choice(table: TomlTable, key: str, default: str, choices: tuple[str, ...]) -> str:
    return table.choice(key, choices) if table.has(key) else default


def _samples(table: TomlTable, key: str, milliseconds: float, rate: int) -> int:
    samples = milliseconds * rate / 1000
    if abs(samples - round(samples)) > 1e-6 * samples:
        raise table.error(key, f"is {milliseconds:g} ms, which are {samples:g} samples of {rate} Hz, no whole number")
    return round(samples)


# By what `kind` of a file says: what reads it. Each asks for every key that it knows, and refuses others (`finish`).
KINDS: Mapping[str, Callable[[TomlTable], FrontEnd]] = MappingProxyType(
    {
        "micro": _micro,
        "logmel": _logmel,
        "mfcc": _mfcc,
        "motion": _motion,
        "samples": _raw,
    }
)
