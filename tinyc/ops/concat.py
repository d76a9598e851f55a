# SPDX-License-Identifier: Apache-2.0
"""concat: tensors one after the other along one axis. All inputs and the output share one quantization."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import Call, Const, Cost, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import element_bytes, need_one_quant, normal_axis, tensor_argument
from tinyc.ops.op import Observed, Op, SameAs, Trait


@dataclass(frozen=True, slots=True)
class Concat:
    axis: int


def infer(a: Concat, *xs: Value) -> Sequence[Type]:
    if not xs:
        raise TinycError("concat needs at least one input")
    shape = list(xs[0].shape)
    axis = normal_axis(a.axis, len(shape), "concat")
    for x in xs[1:]:
        others = [*x.shape[:axis], shape[axis], *x.shape[axis + 1 :]]
        if len(x.shape) != len(shape) or others != shape:
            raise TinycError(f"concat along axis {axis}: {list(x.shape)} does not fit {list(xs[0].shape)}")
    shape[axis] = sum(x.shape[axis] for x in xs)
    return [Type(tuple(shape), xs[0].dtype)]


def float_ref(a: Concat, *xs: Array) -> tuple[Array, ...]:
    return (np.concatenate(xs, axis=a.axis),)


def prepare(site: Site) -> Concat:
    need_one_quant(site)
    return Concat(normal_axis(site.attrs.axis, len(site.y().shape), "concat"))


def lower_concat(site: Site, p: Concat) -> Call:
    """tc_concat: for each index before the axis, a run of bytes from every input."""
    run_bytes = _run_bytes(site, p)
    fields: dict[str, int | float | str | Const] = {
        "outer": math.prod(site.y().shape[: p.axis]),
        "count": len(run_bytes),
        "run_bytes": Const(np.array(run_bytes, np.int32), "[count]", "runs"),
    }
    inputs = (tensor_argument(site, i) for i in range(len(run_bytes)))
    return Call((Params(), Out(), *inputs), Struct("tc_concat_t", fields))


def _run_bytes(site: Site, p: Concat) -> list[int]:
    """Of each input."""
    inputs = map(site.x, range(len(site.node.inputs)))
    return [math.prod(x.shape[p.axis :]) * element_bytes(x) for x in inputs]


def runs(site: Site, p: Concat) -> Mapping[int, int]:
    """A run of each input for each index before the axis."""
    outer = math.prod(site.y().shape[: p.axis])
    return {size: outer * count for size, count in Counter(_run_bytes(site, p)).items()}


def cost(site: Site, p: Concat) -> Cost:
    """A run of each input for each index before the axis."""
    y = site.y()
    runs = math.prod(y.shape[: p.axis]) * len(site.node.inputs)
    return counted("tc_concat", site, {"run": runs, "byte": y.size_bytes})


def stacks(site: Site) -> bool:
    """`Op.stacks`: whether the axis is the outermost one that counts."""
    shape = site.y().shape
    return all(n == 1 for n in shape[: site.attrs.axis % len(shape)])


def within_rows(site: Site) -> bool:
    """`Op.rowwise`: the columns or the channels of an image are joined, none of them constant."""
    rank = len(site.y().shape)
    return rank == 4 and site.attrs.axis % rank >= 2 and elementwise(site)


def forward(a: Concat, *xs: Array) -> Array:
    samples = max(xs, key=np.ndim)
    return np.concatenate(
        [x if x.ndim == samples.ndim else np.broadcast_to(x, (len(samples), *x.shape)) for x in xs], _last(a, samples)
    )


def backward(a: Concat, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    axis = _last(a, y)
    return np.split(dy, np.cumsum([x.shape[axis] for x in inputs])[:-1], axis=axis)


def _last(a: Concat, y: Array) -> int:
    """The axis, counted from the last one, as of one sample and of many."""
    return a.axis - (y.ndim - 1) if a.axis >= 0 else a.axis


_TEXT = """static void @_runs(const tc_concat_t *p, void *y, const void *const *x)
{
    tc_concat_by(p, y, x, copy);
}
#define @(p, y, ...) @_runs(p, y, (const void *const[]){__VA_ARGS__})"""

OP = Op(
    name="concat",
    attrs=Concat,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(), SameAs(0)),  # the last rule holds for all further inputs
    quant_out=(SameAs(0),),
    kernels=with_loops(Kernel("tc_concat", offered(lower_concat, cost=cost)), runs, text=_TEXT),
    stacks=stacks,
    rowwise=within_rows,
    traits=frozenset({Trait.MOVES, Trait.INT16, Trait.ANY_TYPE}),
    batched=Batched(forward, backward),
)
