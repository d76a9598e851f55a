# SPDX-License-Identifier: Apache-2.0
"""signal_window: samples times a window, y = clamp16((x * w) >> shift), line by line.

x [.., n] int16, w [n] int16. With the optional third input, the samples before x [h], what is windowed is not x
itself but the n samples from `begin` on of those before and x, one after the other; y is [n] then. A front end
that steps by less than its window reads the samples where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import MOST_BITS, need, need_between, no_reals


@dataclass(frozen=True, slots=True)
class SignalWindow:
    """wraps: modulo 2^16 instead of the clamp, as the micro front end does. begin: with samples before x."""

    shift: int
    begin: int = 0
    wraps: bool = False


def infer(a: SignalWindow, x: Value, w: Value, before: Value | None = None) -> Sequence[Type]:
    need(x, "the input", "s16")
    need(w, "the window", "s16")
    need_between("shift", a.shift, 0, MOST_BITS)
    if not x.shape or len(w.shape) != 1:
        raise TinycError(f"a window {list(w.shape)} on samples {list(x.shape)}: both have to be lines")
    if before is None:
        if x.shape[-1] != w.shape[0]:
            raise TinycError(f"the window has {w.shape[0]} elements, the lines of the input {x.shape[-1]}")
        return [Type(x.shape, "s16")]
    need(before, "the samples before the input", "s16")
    need_between("begin", a.begin, 0, before.elements + x.elements - w.elements)
    return [Type((w.elements,), "s16")]


@dataclass(frozen=True, slots=True)
class WindowParams:
    shift: int
    begin: int
    wraps: bool


def prepare(site: Site) -> WindowParams:
    a = site.attrs
    return WindowParams(a.shift, a.begin, a.wraps)


def windowed(x: Array, w: Array, shift: int, wraps: bool) -> Array:
    """int16 [.., n] times int16 [n]."""
    products = np.multiply(x, w, dtype=np.int32) >> shift
    return (products if wraps else np.clip(products, -32768, 32767)).astype(np.int16)


def int_ref(p: WindowParams, x: Array, w: Array, before: Array | None = None) -> tuple[Array, ...]:
    if before is not None:
        x = np.concatenate([before.reshape(-1), x.reshape(-1)])[p.begin : p.begin + len(w)]
    return (windowed(x, w, p.shift, p.wraps),)


def has_constant_window(site: Site) -> bool:
    """the window is a constant"""
    return site.is_const(1)


def has_pairs(site: Site) -> bool:
    """even lengths, and samples before the input whose number is even"""
    before = site.x(2).elements if site.has(2) else 0
    return site.x(1).elements % 2 == 0 and before % 2 == 0 and site.attrs.begin % 2 == 0


def lower(site: Site, p: WindowParams) -> Call:
    """tc_signal_window_s16, of which each line is taken from two places."""
    n, held = site.x(1).elements, site.x(2).elements if site.has(2) else 0
    first = max(min(held - p.begin, n), 0)
    fields: dict[str, int | float | str | Const] = {
        "window": Const(site.const(1), "[n]", "window"),
        "n": n,
        "first": first,
        "begin": p.begin if first else 0,
        "skip": max(p.begin - held, 0),
        "lines": site.y().elements // n,
        "shift": p.shift,
        "wraps": int(p.wraps or _stays_inside(site.const(1), p.shift)),
    }
    return Call((Params(), In(0), In(2) if site.has(2) else 0, Out()), Struct("tc_signal_window_s16_t", fields))


def _stays_inside(window: Array, shift: int) -> bool:
    """Whether no product leaves int16, so that limiting it changes nothing."""
    return bool(window.min() >= 0 and window.max() <= 1 << shift)


def macs(site: Site) -> int:
    return site.y().elements


def of_lines(site: Site, p: WindowParams) -> Units:
    """Samples, those whose products are limited, and lines."""
    n, wraps = site.y().elements, p.wraps or _stays_inside(site.const(1), p.shift)
    return {"element": n, "limited": 0 if wraps else n, "line": n // site.x(1).elements}


OP = Op(
    name="signal_window",
    attrs=SignalWindow,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(name, offered(lower, cost=CountedCost(name, of_lines)), isa=isa, when=when, inplace=(0,))
        for name, isa, when in (
            ("tc_signal_window_s16_mve", frozenset({"mve"}), (has_constant_window, has_pairs)),
            ("tc_signal_window_s16_dsp", frozenset({"dsp"}), (has_constant_window, has_pairs)),
            ("tc_signal_window_s16", frozenset[str](), (has_constant_window,)),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
