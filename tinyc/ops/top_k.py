# SPDX-License-Identifier: Apache-2.0
"""top_k: int32 indices of the k largest (or smallest) elements along one axis, best first; of equals the first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type
from tinyc.ops.argmax import is_f32, is_s8, is_s32
from tinyc.ops.movement import normal_axis
from tinyc.ops.op import Observed, Op, Trait, Unquantized


@dataclass(frozen=True, slots=True)
class TopK:
    """The axis gets size k."""

    axis: int
    k: int
    largest: bool = True


def infer(a: TopK, x: Value) -> Sequence[Type]:
    axis = normal_axis(a.axis, len(x.shape), "top_k")
    if not 1 <= a.k <= x.shape[axis]:
        raise TinycError(
            f"the best {a.k} of {x.shape[axis]} elements along axis {axis} of {list(x.shape)} are not possible"
        )
    return [Type((*x.shape[:axis], a.k, *x.shape[axis + 1 :]), "s32")]


def float_ref(a: TopK, x: Array) -> tuple[Array, ...]:
    axis = normal_axis(a.axis, x.ndim, "top_k")
    lines = np.moveaxis(x, axis, -1)
    if x.dtype.kind == "f" and np.isnan(x).any():
        places = np.array([_inserted(a, line) for line in lines.reshape(-1, lines.shape[-1])])
    else:
        rank = lines if x.dtype.kind == "f" else lines.astype(np.int64)
        places = np.argsort(-rank if a.largest else rank, axis=-1, kind="stable")[..., : a.k]
    return (np.moveaxis(places.reshape(*lines.shape[:-1], a.k), -1, axis).astype(np.int32),)


def _inserted(a: TopK, line: Array) -> npt.NDArray[np.int64]:
    """Of elements some of which are not numbers: each goes before those that it beats, up to the first that it does
    not. What is not a number neither beats nor is beaten."""
    held: list[int] = []
    for n, v in enumerate(line):
        at = len(held)
        while at and (v > line[held[at - 1]] if a.largest else v < line[held[at - 1]]):
            at -= 1
        held.insert(at, n)
        del held[a.k :]
    return np.array(held)


def prepare(site: Site) -> TopK:
    a = site.attrs
    return TopK(normal_axis(a.axis, len(site.x(0).shape), "top_k"), a.k, a.largest)


def lower(site: Site, p: TopK) -> Call:
    """tc_top_k_f32, tc_top_k_s32 and tc_top_k_s8: the whole tensor."""
    shape = site.x(0).shape
    outer, inner = math.prod(shape[: p.axis]), math.prod(shape[p.axis + 1 :])
    fields: dict[str, int] = {"outer": outer, "n": shape[p.axis], "inner": inner, "k": p.k, "largest": int(p.largest)}
    return Call((Params(), In(0), Out()), Struct(f"tc_top_k_{site.x(0).dtype}_t", fields))


def of_axis(site: Site, p: TopK) -> Units:
    """Elements that are looked at, those that are the best, and what is moved to make room for them."""
    return {"taken": site.x(0).elements, "element": site.y().elements, "move": p.k * site.y().elements}


OP = Op(
    name="top_k",
    attrs=TopK,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(Unquantized(own=True),),
    kernels=tuple(
        counted_kernel(f"tc_top_k_{dtype}", lower, of_axis, when=(condition,))
        for dtype, condition in (("f32", is_f32), ("s32", is_s32), ("s8", is_s8))
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
