# SPDX-License-Identifier: Apache-2.0
"""signal_filter_bank: energies of frequency bins summed up to channels; each bin lies between two of them.

e uint32 [m]; weights, unweights int16 [k]; where each interval begins in e, where in the weights, how wide it is: int16
[C + 1] each -> uint64 [C]. Interval i adds weight * e to channel i - 1 and unweight * e to channel i. Sums are modulo
2^64.
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
from tinyc.ops.signals import need, need_between, need_length, no_reals

_INPUTS = ("weights", "unweights", "first bins", "first weights", "widths")


@dataclass(frozen=True, slots=True)
class SignalFilterBank:
    channels: int


def infer(a: SignalFilterBank, e: Value, *tables: Value) -> Sequence[Type]:
    need(e, "the energies", "u32")
    need_between("the number of channels", a.channels, 1, 4096)
    if len(tables) != len(_INPUTS):
        raise TinycError(f"a filter bank with {len(tables)} tables, not {len(_INPUTS)}")
    for what, table in zip(_INPUTS, tables, strict=True):
        need(table, f"the {what}", "s16")
    need_length(tables[1], "the unweights", tables[0].elements)
    for what, table in zip(_INPUTS[2:], tables[2:], strict=True):
        need_length(table, f"the {what}", a.channels + 1)
    return [Type((a.channels,), "u64")]


@dataclass(frozen=True, slots=True)
class BankParams:
    """Interval i: the bins from firsts[i] on, as many as weights[i] has; none of the outermost weights is 0 in both."""

    firsts: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    unweights: tuple[tuple[int, ...], ...]

    @property
    def products(self) -> int:
        return sum(map(len, self.weights))


def prepare(site: Site) -> BankParams:
    """TinycError for tables that are computed, or that point beyond the energies or the weights."""
    if not all(site.is_const(k) for k in range(1, 6)):
        raise TinycError("the tables of a filter bank must be constants", site.node.where)
    try:
        return bank_of(site.x(0).elements, *(site.const(k).reshape(-1) for k in range(1, 6)))
    except TinycError as e:
        raise e.located(site.node.where) from e


def bank_of(bins: int, weights: Array, unweights: Array, firsts: Array, starts: Array, widths: Array) -> BankParams:
    """The intervals, cut to the bins that weigh something."""
    cut_firsts, cut_weights, cut_unweights = [], [], []
    for channel, (first, start, width) in enumerate(np.stack([firsts, starts, widths], axis=1).tolist()):
        if min(first, start, width) < 0 or first + width > bins or start + width > len(weights):
            raise TinycError(
                f"interval {channel} of the filter bank takes bins {first} to {first + width} of {bins}, and weights "
                f"{start} to {start + width} of {len(weights)}"
            )
        w, u = weights[start : start + width], unweights[start : start + width]
        used = np.flatnonzero(w | u)
        begin, end = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
        cut_firsts.append(first + begin)
        cut_weights.append(tuple(w[begin:end].tolist()))
        cut_unweights.append(tuple(u[begin:end].tolist()))
    return BankParams(tuple(cut_firsts), tuple(cut_weights), tuple(cut_unweights))


def summed(p: BankParams, e: Array) -> Array:
    """uint32 [.., m] -> uint64 [.., C]."""
    wide = e.astype(np.uint64)
    sums: list[Array] = []
    carry: Array = np.zeros(e.shape[:-1], np.uint64)
    with np.errstate(over="ignore"):  # numbers modulo 2^64 are meant to wrap
        for first, w, u in zip(p.firsts, p.weights, p.unweights, strict=True):
            bins = wide[..., first : first + len(w)]
            sums.append(carry + (bins * _modulo(w)).sum(axis=-1, dtype=np.uint64))
            carry = (bins * _modulo(u)).sum(axis=-1, dtype=np.uint64)
    return np.stack(sums[1:], axis=-1)


def _modulo(weights: tuple[int, ...]) -> Array:
    return np.array(weights, np.int64).view(np.uint64)


def int_ref(p: BankParams, e: Array, *tables: Array) -> tuple[Array, ...]:
    return (summed(p, e.reshape(-1)),)


def lower(site: Site, p: BankParams) -> Call:
    """Both kernels: weight and unweight of a bin side by side."""
    pairs = [pair for w, u in zip(p.weights, p.unweights, strict=True) for pair in zip(w, u, strict=True)]
    bands = [pair for first, w in zip(p.firsts, p.weights, strict=True) for pair in ((first, len(w)))]
    fields: dict[str, int | float | str | Const] = {
        "weights": Const(np.array(pairs or [(0, 0)], np.int16), "[products][2]: weight, unweight", "weights"),
        "bands": Const(np.array(bands, np.uint16), "[channels + 1][2]: first bin, how many", "bands"),
        "channels": site.attrs.channels,
    }
    return Call((Params(), In(0), Out()), Struct("tc_signal_filter_bank_t", fields))


def has_no_negative_weight(site: Site) -> bool:
    """no weight below 0"""
    return all(site.is_const(k) and site.const(k).min() >= 0 for k in (1, 2))


def macs(site: Site) -> int:
    return 2 * prepare(site).products


def of_products(site: Site, p: BankParams) -> Units:
    """Weights of all intervals, and intervals."""
    return {"product": p.products, "interval": len(p.firsts)}


def of_fours(site: Site, p: BankParams) -> Units:
    """Vectors of four weights, and intervals."""
    return {"four": sum(-(-len(w) // 4) for w in p.weights), "interval": len(p.firsts)}


def table_bytes(site: Site, p: BankParams) -> int:
    return 4 * p.products + 4 * len(p.firsts)


OP = Op(
    name="signal_filter_bank",
    attrs=SignalFilterBank,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        Kernel(
            "tc_signal_filter_bank_u32_mve",
            offered(lower, cost=CountedCost("tc_signal_filter_bank_u32_mve", of_fours, flash=table_bytes)),
            isa=frozenset({"mve"}),
            when=(has_no_negative_weight,),
        ),
        *(
            Kernel(name, offered(lower, cost=CountedCost(name, of_products, flash=table_bytes)), when=when)
            for name, when in (
                ("tc_signal_filter_bank_u32", (has_no_negative_weight,)),
                ("tc_signal_filter_bank_signed_u32", ()),
            )
        ),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
