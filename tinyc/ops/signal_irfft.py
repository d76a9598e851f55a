# SPDX-License-Identifier: Apache-2.0
"""signal_irfft: spectrum -> real samples, in fixed point as `fourier.py` defines it.

x [.., length + 2] int16 or int32, real and imaginary parts of length / 2 + 1 bins in turn -> [.., length].
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost
from tinyc.kernel.kernel import Call, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.fourier import Fourier, backward, check_length
from tinyc.ops.movement import element_bytes
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signal_rfft import defined_twiddles, fourier_fields, is_long, is_short, of_points, table_bytes
from tinyc.ops.signals import need, no_reals


@dataclass(frozen=True, slots=True)
class SignalIrfft:
    length: int


def infer(a: SignalIrfft, x: Value) -> Sequence[Type]:
    need(x, "the spectrum", "s16", "s32")
    check_length(a.length)
    if not x.shape or x.shape[-1] != a.length + 2:
        raise TinycError(f"a spectrum of {a.length} samples has {a.length + 2} numbers, not {list(x.shape)}")
    return [Type((*x.shape[:-1], a.length), x.dtype)]


def prepare(site: Site) -> Fourier:
    return Fourier(site.attrs.length, site.x().dtype, inverse=True)


def int_ref(p: Fourier, x: Array) -> tuple[Array, ...]:
    return (backward(p, x),)


def lower(site: Site, p: Fourier) -> Call:
    """tc_signal_irfft_s16 or _s32."""
    fields = fourier_fields(site, p, defined_twiddles(p), p.length)
    return Call((Params(), In(0), Out(), Scratch()), Struct(f"tc_fourier_{site.x(0).dtype}_t", fields))


def macs(site: Site) -> int:
    """Of the complex steps and of the split."""
    a = site.attrs
    lines = site.y().elements // site.y().shape[-1]
    return lines * (a.length // 2 * 5 * len(Fourier(a.length, "s16").radixes) + 2 * a.length)


def scratch(site: Site, p: Fourier) -> int:
    """The spectrum of the even and odd samples."""
    return 2 * p.half * element_bytes(site.x(0))


OP = Op(
    name="signal_irfft",
    attrs=SignalIrfft,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        *(
            Kernel(
                name,
                offered(lower, scratch=scratch, cost=CountedCost(name, of_points, flash=table_bytes)),
                when=(has_type,),
            )
            for name, has_type in (("tc_signal_irfft_s16", is_short), ("tc_signal_irfft_s32", is_long))
        ),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
