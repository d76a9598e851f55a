# SPDX-License-Identifier: Apache-2.0
"""attention: softmax(beta * q k^T) v for every head, row by row: the scores of two rows are all that is kept of them.

passes/attention.py makes it of batch_matmul, softmax and batch_matmul between int8 tensors. Its integers are those of
the three: scores and shares are int8 of the scales that they had, so joining them changes no byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.exact import dot
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import float_factor
from tinyc.ir.graph import Array, DType, Graph, Node, Quant, Shape, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, Cost, Kernel, Offer, Offering, Once, Out, Params, Refused, Scratch, Struct
from tinyc.kernel.site import Site, Type
from tinyc.kernels import matmul
from tinyc.kernels.mve import matmul as vectors
from tinyc.ops import batch_matmul, softmax
from tinyc.ops.batch_matmul import BatchMatmul, MatmulParams
from tinyc.ops.movement import tensor_argument
from tinyc.ops.op import Observed, Op, Trait, Unquantized
from tinyc.ops.softmax import FixedSoftmax, FloatSoftmax, Softmax

Fields = dict[str, int | float | str | Const]
_Q, _K, _V, _TABLE, _MASK = range(5)
_PER_HIDDEN = 2  # instructions for each score where a mask hides some
_PER_VECTOR_SHARE = 4  # of one by Helium
_PER_WIDE_SHARE = 7.3  # of one whose shares are not made bytes first, less what widening them would take
_PER_FLOAT_SHARE = 24  # of one in float32
_PER_LOOKED_UP = 4  # instructions for each score where a table stands between


@dataclass(frozen=True, slots=True)
class HeadWalk:
    """Where element i of row t of head h lies in a tensor: first + h * head + t * row + i * next, in elements."""

    first: int
    head: int
    row: int
    next: int

    def indices(self, heads: int, rows: int, count: int) -> Array:
        """Of all elements, [heads, rows, count]."""
        h, t, i = np.ogrid[:heads, :rows, :count]
        return np.asarray(self.first + h * self.head + t * self.row + i * self.next)

    @classmethod
    def over(cls, indices: Array) -> HeadWalk | None:
        """The walk that gives these indices [heads, rows, count]; None where none does."""
        heads, rows, count = indices.shape
        first = int(indices[0, 0, 0])
        head = int(indices[1, 0, 0]) - first if heads > 1 else 0
        row = int(indices[0, 1, 0]) - first if rows > 1 else 0
        walk = cls(first, head, row, int(indices[0, 0, 1]) - first if count > 1 else 1)
        return walk if np.array_equal(walk.indices(heads, rows, count), indices) else None


@dataclass(frozen=True, slots=True)
class Attention:
    """heads of `rows` queries and `keys` keys of `depth` numbers, and values of `width`; where they lie in the inputs,
    and in the output of `shape`. scores, logits, shares: (scale, zero point) of q k^T, of what the softmax takes
    (another one where a table [256] stands between), and of its outputs. hidden: what the softmax takes in place of the
    scores that a mask [heads or 1, rows or 1, keys] hides where it is 0; it is -1 elsewhere."""

    heads: int
    rows: int
    keys: int
    depth: int
    width: int
    q: HeadWalk
    k: HeadWalk
    v: HeadWalk
    y: HeadWalk
    shape: Shape
    beta: float
    scores: tuple[float, int]
    logits: tuple[float, int]
    shares: tuple[float, int]
    hidden: int = 0


def infer(
    a: Attention, q: Value, k: Value, v: Value, table: Value | None = None, mask: Value | None = None
) -> Sequence[Type]:
    sizes = ((q, a.q, a.rows, a.depth), (k, a.k, a.keys, a.depth), (v, a.v, a.keys, a.width))
    for value, walk, rows, count in sizes:
        if int(walk.indices(a.heads, rows, count).max()) >= value.elements:
            raise TinycError(f"attention reads beyond '{value.name}' of {list(value.shape)}")
    return [Type(a.shape, q.dtype)]


def _parts(a: Attention, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """[heads, rows, depth], [heads, keys, depth], [heads, keys, width]."""
    return (
        q.reshape(-1)[a.q.indices(a.heads, a.rows, a.depth)],
        k.reshape(-1)[a.k.indices(a.heads, a.keys, a.depth)],
        v.reshape(-1)[a.v.indices(a.heads, a.keys, a.width)],
    )


def _laid(a: Attention, context: Array) -> Array:
    """[heads, rows, width] as the output."""
    y = np.zeros(context.size, context.dtype)
    y[a.y.indices(a.heads, a.rows, a.width)] = context
    return y.reshape(a.shape)


def float_ref(
    a: Attention, q: Array, k: Array, v: Array, table: Array | None = None, mask: Array | None = None
) -> tuple[Array, ...]:
    """Without table and mask, which only integers have."""
    left, right, values = _parts(a, q, k, v)
    (shares,) = softmax.float_ref(Softmax(a.beta), dot(left, right.swapaxes(1, 2)))
    return (_laid(a, dot(shares, values)),)


@dataclass(frozen=True, slots=True)
class AttentionParams:
    """The integers of the parts."""

    attrs: Attention
    product: MatmulParams
    softmax: FixedSoftmax | FloatSoftmax
    context: MatmulParams
    table: Array | None
    mask: Array | None

    @property
    def scaling(self) -> tuple[matmul.ProductScaling, matmul.ProductScaling]:
        """From sums to scores, and to outputs."""
        scalings = []
        for p, depth in ((self.product, self.attrs.depth), (self.context, self.attrs.keys)):
            scalings.append(matmul.ProductScaling(depth, p.x_zero, p.y_zero, p.mult, p.shift, p.rounding, p.out_zero))
        return scalings[0], scalings[1]


def _value(name: str, shape: Shape, quant: Quant | None, dtype: DType = "s8") -> Value:
    return Value(name, shape, dtype, quant)


def _part(site: Site, attrs: object, op: str, inputs: tuple[Value, ...], output: Value) -> Site:
    """A node of the unfused graph by itself."""
    node = Node(output.name, op, tuple(v.name for v in inputs), (output.name,), attrs, site.node.origin)
    values = {value.name: value for value in (*inputs, output)}
    names = tuple(value.name for value in inputs)
    return Site(Graph("part", names, (output.name,), (node,), values, {}), node, site.numerics)


def prepare(site: Site) -> AttentionParams:
    """TinycError as the parts raise it."""
    a: Attention = site.attrs
    if not is_s8(site):
        raise TinycError("attention in one step takes int8", site.node.where)
    square = (a.heads, a.rows, a.keys)
    q = _value("q", (a.heads, a.rows, a.depth), site.x(_Q).quant)
    k = _value("k", (a.heads, a.keys, a.depth), site.x(_K).quant)
    v = _value("v", (a.heads, a.keys, a.width), site.x(_V).quant)
    y = _value("y", (a.heads, a.rows, a.width), site.y().quant)
    scores, logits, shares = (
        _value(name, square, Quant((scale,), (zero,)))
        for name, (scale, zero) in (("scores", a.scores), ("logits", a.logits), ("shares", a.shares))
    )
    softmax_params = softmax.prepare(_part(site, Softmax(a.beta), "softmax", (logits,), shares))
    assert isinstance(softmax_params, FixedSoftmax | FloatSoftmax)
    return AttentionParams(
        a,
        batch_matmul.prepare_s8(_part(site, BatchMatmul(adj_y=True), "batch_matmul", (q, k), scores)),
        softmax_params,
        batch_matmul.prepare_s8(_part(site, BatchMatmul(), "batch_matmul", (shares, v), y)),
        site.const(_TABLE) if site.has(_TABLE) else None,
        site.const(_MASK) if site.has(_MASK) else None,
    )


def int_ref(
    p: AttentionParams, q: Array, k: Array, v: Array, table: Array | None = None, mask: Array | None = None
) -> tuple[Array, ...]:
    left, right, values = _parts(p.attrs, q, k, v)
    (scores,) = batch_matmul.int_ref(p.product, left, right)
    if p.table is not None:
        scores = p.table[scores.view(np.uint8)]
    if p.mask is not None:
        scores = np.where(p.mask, scores, np.int8(p.attrs.hidden))
    (shares,) = softmax.int_ref(p.softmax, scores)
    (context,) = batch_matmul.int_ref(p.context, shares, values)
    return (_laid(p.attrs, context),)


def macs(site: Site) -> int:
    """Products of queries and keys, and of shares and values."""
    a: Attention = site.attrs
    return a.heads * a.rows * a.keys * (a.depth + a.width)


def is_s8(site: Site) -> bool:
    """int8 inputs and output"""
    return {site.x(index).dtype for index in (_Q, _K, _V)} | {site.y().dtype} == {"s8"}


def _common(p: AttentionParams) -> Fields:
    """The fields of the tc_attention_t called `at`, and those of the softmax."""
    a = p.attrs
    fields: Fields = {name: getattr(a, name) for name in ("heads", "rows", "keys", "depth", "width")}
    for name, walk in (("q", a.q), ("k", a.k), ("v", a.v), ("y", a.y)):
        fields |= {f"{name}_{step}": getattr(walk, step) for step in ("first", "head", "row", "next")}
    zeros = {"q_zero": p.product.x_zero, "k_zero": p.product.y_zero}
    fields |= zeros | {"share_zero": p.context.x_zero, "v_zero": p.context.y_zero}
    entries = {f"at.{name}": value for name, value in fields.items()}
    if p.table is not None:
        entries["at.table"] = Const(p.table, "[256] by the score's unsigned byte", "lut")
    if p.mask is not None:
        heads, rows, _ = p.mask.shape
        entries["at.mask"] = Const(p.mask, "[heads or 1][rows or 1][keys]: 0 hides a score", "mask")
        entries |= {"at.mask_head": rows * a.keys if heads > 1 else 0, "at.mask_row": a.keys if rows > 1 else 0}
        entries["at.hidden"] = a.hidden
    entries |= {"softmax.outer": 1, "softmax.depth": a.keys}
    if isinstance(p.softmax, FixedSoftmax):
        return entries | {"softmax.exps": softmax.every_exp(p.softmax)}
    exps = Const(p.softmax.exps, "[256] by steps below the maximum", "exp")
    return entries | {
        "softmax.exps": exps,
        "softmax.y_scale": float(p.softmax.y_scale),
        "softmax.y_zero": p.softmax.y_zero,
    }


def _product_fields(p: MatmulParams, name: str) -> Fields:
    as_float = p.rounding is Rounding.FLOAT
    return {
        f"{name}.mult": int(float_factor(p.mult, p.shift).view(np.int32)) if as_float else p.mult,
        f"{name}.shift": 0 if as_float else p.shift,
        f"{name}.rounds": p.rounding.code,
        f"{name}.out_zero": p.out_zero,
    }


def of_shares(site: Site, p: AttentionParams) -> Units:
    """Products, shares, those that a mask may hide or a table changes, results, and rows."""
    a = p.attrs
    rows = a.heads * a.rows
    shares = rows * a.keys
    return {
        "product": macs(site),
        "share": shares,
        "hidden": shares if p.mask is not None else 0,
        "looked_up": shares if p.table is not None else 0,
        "result": rows * a.width,
        "row": rows,
    }


def _offer(suffix: str, kind: type) -> Offering:
    """Of the portable kernel."""
    cost = CountedCost(f"tc_attention_{suffix}", of_shares)

    def offer(site: Site, p: AttentionParams) -> Offer | Refused:
        if not isinstance(p.softmax, kind):
            return Refused(_ASKS[kind])
        keys = p.attrs.keys
        fields = _common(p) | _product_fields(p.product, "product") | _product_fields(p.context, "context")
        call = Once(lambda: _call(site, f"tc_attention_{suffix}_t", fields))
        return Offer(keys, cost(site, p).in_scratch(keys), call)

    return offer


def _call(site: Site, ctype: str, fields: Fields) -> Call:
    arguments = tuple(tensor_argument(site, index) for index in (_Q, _K, _V))
    return Call((Params(), *arguments, Out(), Scratch()), Struct(ctype, fields))


def _offer_dsp(suffix: str, kind: type) -> Offering:
    """Of the kernel with the DSP extension: keys and values of a head widened to int16."""

    def offer(site: Site, p: AttentionParams) -> Offer | Refused:
        scalings = [matmul.requantization_of(scaling) for scaling in p.scaling]
        if not isinstance(p.softmax, kind):
            return Refused(_ASKS[kind])
        first, second = scalings
        if first is None or second is None:
            return Refused(matmul.ASKS)
        cost = _cost_dsp(p, first, second)
        fields = _common(p) | first.fields("product") | second.fields("context")
        if isinstance(p.softmax, FixedSoftmax):
            if not softmax.has_doubled(p.softmax):
                return Refused(_ASKS_DOUBLED)
            fields["softmax.exps"] = softmax.every_doubled_exp(p.softmax)
        call = Once(lambda: _call(site, f"tc_attention_{suffix}_dsp_t", fields))
        return Offer(cost.scratch_bytes, cost, call)

    return offer


def _cost_dsp(p: AttentionParams, first: matmul.ProductRequantization, second: matmul.ProductRequantization) -> Cost:
    a, per_share = p.attrs, _PER_WIDE_SHARE if isinstance(p.softmax, FixedSoftmax) else _PER_FLOAT_SHARE
    per_share += _PER_HIDDEN if p.mask is not None else 0
    per_share += _PER_LOOKED_UP if p.table is not None else 0
    sides = ((a.keys, a.depth, first), (a.width, a.keys, second))
    each = sum(
        matmul.widening_instructions(a.rows, columns, depth) + matmul.product_instructions(a.rows, columns, depth, r)
        for columns, depth, r in sides
    )
    executed = int(a.heads * (each + a.rows * (a.keys * per_share + 110)))
    words = matmul.row_words(max(a.depth, a.keys)) + (a.keys + 1) // 2
    words += matmul.widened_words(a.depth, a.keys) + matmul.widened_words(a.keys, a.width)
    words += -(-a.keys // 4) * 4 if isinstance(p.softmax, FixedSoftmax) else 0  # exponentials of a row
    return Cost(executed, 3000, 4 * words, executed * 3 // 2)


def _offer_mve(suffix: str, kind: type) -> Offering:
    """Of the kernel with Helium: keys and values of a head widened to int16."""

    def offer(site: Site, p: AttentionParams) -> Offer | Refused:
        if not isinstance(p.softmax, kind):
            return Refused(_ASKS[kind])
        first, second = (matmul.requantization_of(scaling) for scaling in p.scaling)
        if first is None or second is None:
            return Refused(matmul.ASKS)
        a = p.attrs
        if not vectors.reaches(a.q.next, a.k.next, a.k.row, a.v.next, a.v.row):
            return Refused(vectors.FAR)
        per_share = _PER_VECTOR_SHARE if kind is FixedSoftmax else _PER_FLOAT_SHARE
        cost = _cost_mve(p, first, second, per_share)
        fields = _common(p) | vectors.requant_fields("product", first) | vectors.requant_fields("context", second)
        call = Once(lambda: _call(site, f"tc_attention_{suffix}_mve_t", fields))
        return Offer(cost.scratch_bytes, cost, call)

    return offer


def _cost_mve(
    p: AttentionParams, first: matmul.ProductRequantization, second: matmul.ProductRequantization, per_share: float
) -> Cost:
    a, each = p.attrs, per_share + (_PER_HIDDEN if p.mask is not None else 0)
    products = vectors.work(a.rows, a.keys, a.depth, first) + vectors.work(a.rows, a.width, a.keys, second)
    shares = a.rows * (a.keys * each + 90)
    scratch = vectors.row_bytes(max(a.depth, a.keys)) + 2 * a.keys
    scratch += vectors.side_bytes(a.depth, a.keys) + vectors.side_bytes(a.keys, a.width)
    executed = a.heads * (products.instructions + shares)
    return Cost(int(executed), 2000, scratch, int(a.heads * (products.cycles + 1.5 * shares)))


_ASKS_DOUBLED = "no exponential at which a rounding of its shares would tie"
_ASKS = {FixedSoftmax: "a softmax in fixed point", FloatSoftmax: "a softmax in float32 (numerics litert, onnx)"}


def _kernels(suffix: str, kind: type) -> tuple[Kernel, ...]:
    """With Helium, with the DSP extension, and portable."""
    mve, dsp = f"tc_attention_{suffix}_mve", f"tc_attention_{suffix}_dsp"
    asks = f"{_ASKS[kind]}; {matmul.ASKS}"
    return (
        Kernel(mve, _offer_mve(suffix, kind), isa=frozenset({"mve"}), when=(is_s8,), asks=f"{asks}; {vectors.FAR}"),
        Kernel(dsp, _offer_dsp(suffix, kind), isa=frozenset({"dsp"}), when=(is_s8,), asks=asks),
        Kernel(f"tc_attention_{suffix}", _offer(suffix, kind), when=(is_s8,), asks=_ASKS[kind]),
    )


OP = Op(
    name="attention",
    attrs=Attention,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(), Observed(), Unquantized(), Unquantized()),
    quant_out=(Observed(),),
    kernels=(*_kernels("s8", FixedSoftmax), *_kernels("f32_s8", FloatSoftmax)),
    macs=macs,
    traits=frozenset({Trait.ANY_SCALES, Trait.ALL_AT_ONCE}),
)
