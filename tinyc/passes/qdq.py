# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear, float operator, QuantizeLinear -> the integer operator.

Models that carry their quantization write it around float operators. Here each such island becomes the
integers that it stands for: dequantize sinks below operators that only move elements, quantize rises above them, and
what is left between the two is one operator, or a function of one byte, which becomes a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, Array, DType, Graph, Node, Quant, Value
from tinyc.kernel.site import Act
from tinyc.ops import has, is_a, op_of
from tinyc.ops.argmax import ArgMax
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.extremum import Extremum
from tinyc.ops.lookup import Lookup, of_bytes
from tinyc.ops.mean import Mean
from tinyc.ops.op import Fixed, Trait
from tinyc.ops.pad import Pad
from tinyc.ops.quantize import Quantize
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.requantize import Requantize
from tinyc.ops.tables import dequantize_linear, quantize_linear
from tinyc.passes import qdq_choices
from tinyc.passes.cleanup import drop_identity, merge_reshapes, merge_transposes
from tinyc.passes.fold import mul_into_softmax
from tinyc.passes.fuse import fuse_clip
from tinyc.passes.layout import sink_through_binary, sink_through_unary
from tinyc.passes.qdq_constants import add_into_bias, integers_behind, mul_into_scales, real_constant
from tinyc.passes.rewrite import Rewrite, RewriteDraft, View, begins_with, rewrite, rule

KEEPING = (Trait.MOVES, Trait.SELECTS)  # what comes out went in: the integers may pass as well as the reals
# A table can hold them; with two inputs only if one is a number, or both come from one byte.
_ELEMENTWISE = (Trait.ELEMENTWISE, Trait.BROADCASTS)
_MOST_TAPS = 2**15  # of an average as a depthwise layer: 127 * 2^15 is far from int32's end
_MOST_INPUT, _MOST_SUM = 255, 2.0**30  # of a centred byte; of all weights together, which no output channel is beyond
_MOST_TIMES = 64
_LOOP_WEIGHTS: tuple[set[DType], ...] = ({"s8"}, {"s4"})
_NONE = Act()


@rule(*KEEPING)
def sink_dequantize(view: View, node: Node) -> Rewrite | None:
    """move(dequantize(x)) -> dequantize(move(x)); several inputs must share one quantization."""
    if not node.inputs or getattr(node.attrs, "act", _NONE) != _NONE:
        return None
    sources = [integers_behind(view, name) for name in node.inputs]
    if any(name is None or view.is_const(name) for name in sources):
        return None
    inputs = [name for name in sources if name]
    x, y = view.value(inputs[0]), view.value(node.outputs[0])
    if len({view.value(name).quant for name in inputs}) > 1:
        return None
    if isinstance(node.attrs, Pad) and not _is_held(node.attrs.value, x):
        return None  # `raise_quantize` pads behind the QuantizeLinear, by what that makes of the number
    draft = RewriteDraft(view, node)
    moved = draft.add(inputs, node.attrs, replace(x, name=y.name, loc=y.loc), y.shape, "moved")
    return draft.finish([moved], _dequantize(view, node.inputs[0]).attrs)


def _is_held(real: float, x: Value) -> bool:
    """Whether an integer of the value's quantization stands for the number."""
    q = quantize_linear(np.array([real], np.float32), x)
    return bool(dequantize_linear(q, x)[0] == np.float32(real))


def _dequantize(view: View, name: str) -> Node:
    node = view.producer(name, Dequantize)
    assert node is not None
    return node


@rule(Quantize)
def raise_quantize(view: View, node: Node) -> Rewrite | None:
    """quantize(move(x)) -> move(quantize(x)): rounding keeps the order, so a maximum may come after it. Constants that
    move with it, such as the class token of a vision transformer, are rounded now."""
    before = view.producer(node.inputs[0], *KEEPING)
    if before is None or not view.sole_use(node.inputs[0]) or getattr(before.attrs, "act", _NONE) != _NONE:
        return None
    held = [name for name in before.inputs if view.is_const(name)]
    if len(held) == len(before.inputs) or any(view.value(name).dtype != "f32" for name in held):
        return None
    draft, y = RewriteDraft(view, node), view.value(node.outputs[0])
    inputs = []
    for name in before.inputs:
        x = view.value(name)
        if name in held:
            inputs.append(draft.const(_rounded(view.const(name), node.attrs, y), replace(y, name=name, loc=x.loc), "q"))
            continue
        inputs.append(draft.add([name], node.attrs, replace(y, loc=x.loc), x.shape, "in"))
    return draft.finish(inputs, before.attrs, before.origin + node.origin)


@rule(Quantize)
def requantize_directly(view: View, node: Node) -> Rewrite | None:
    """quantize(dequantize(x)) -> x, or x requantized."""
    source = integers_behind(view, node.inputs[0])
    if source is None or view.is_const(source):
        return None
    x, y = view.value(source), view.value(node.outputs[0])
    if (x.dtype, x.quant) == (y.dtype, y.quant):
        return Rewrite(same=(y.name, x.name))
    return RewriteDraft(view, node).finish([source], Requantize(y.dtype, by_float=True))


@rule(Quantize)
def table_of_island(view: View, node: Node) -> Rewrite | None:
    """Elementwise operators between one dequantize and quantize, all of 8 bits -> the table of what they do."""
    island = _island(view, node.inputs[0])
    y = view.value(node.outputs[0])
    if island is None or y.dtype != "s8":
        return None
    nodes, source = island
    x = view.value(source)
    if x.dtype != "s8" or x.shape != y.shape or x.quant is None:
        return None
    if [type(n.attrs) for n in nodes] == [Clip] and x.quant == y.quant:
        return None  # no number is rounded: two comparisons do it, or the layer before
    every = np.arange(-128, 128, dtype=np.int64)
    by_name: dict[str, Array] = {name: dequantize_linear(every, x) for name in _reals_of(view, nodes, source)}
    for step in nodes:
        arrays = [view.const(name).reshape(()) if view.is_const(name) else by_name[name] for name in step.inputs]
        (by_name[step.outputs[0]],) = op_of(step).float_ref(step.attrs, *arrays)
    table = _rounded(by_name[node.inputs[0]], node.attrs, y)
    draft = RewriteDraft(view, node)
    like = replace(y, name=f"{y.name}:table", loc=None)
    lut = draft.const(of_bytes(table).astype(np.int8), like)
    origin = tuple(loc for step in nodes for loc in step.origin) + node.origin
    return draft.finish([source, lut], Lookup(), origin)


def _rounded(real: Array, a: Quantize, y: Value) -> Array:
    """What quantize makes of numbers that are known."""
    if a.half_even:
        return quantize_linear(real, y, a.by_inverse)
    (scale, zero), (lo, hi) = _scale_zero(y), INT_RANGE[y.dtype]
    return quantize_array(real, scale, zero, lo, hi)


@rule(Quantize)
def quantize_constant(view: View, node: Node) -> Rewrite | None:
    """quantize of a constant, or of one that is dequantized -> the constant's integers."""
    real, y = real_constant(view, node.inputs[0]), view.value(node.outputs[0])
    if real is None or view.is_output(y.name):
        return None
    draft = RewriteDraft(view, node)
    return draft.becomes(draft.const(_rounded(real, node.attrs, y), y, "q"))


def _scale_zero(value: Value) -> tuple[float, int]:
    assert value.quant is not None
    return value.quant.per_tensor


def _island(view: View, name: str) -> tuple[list[Node], str] | None:
    """(elementwise nodes that make the value, in run order, the one integer value behind them all)."""
    nodes: dict[str, Node] = {}
    sources: set[str] = set()

    def visit(value: str) -> bool:
        if value in nodes or view.is_const(value):
            return not view.is_const(value) or view.value(value).elements == 1
        source = integers_behind(view, value)
        if source is not None:
            sources.add(source)
            return not view.is_const(source)
        node = view.producer(value)
        if node is None or not is_a(node, *_ELEMENTWISE) or len(nodes) > 32 or not view.is_float(node):
            return False
        if not all(visit(other) for other in node.inputs):
            return False
        nodes[value] = node
        return True

    if not visit(name) or len(sources) != 1 or not nodes:
        return None
    return list(nodes.values()), sources.pop()


def _reals_of(view: View, nodes: Sequence[Node], source: str) -> set[str]:
    """The float values that are the source dequantized."""
    return {name for node in nodes for name in node.inputs if integers_behind(view, name) == source}


@rule(Quantize)
def mean_instead_of_pool(view: View, node: Node) -> Rewrite | None:
    """quantize(avg_pool2d) over whole images -> of mean; without padding -> of a depthwise layer of ones.

    Both divide the exact sum once, by the scales and the number of taps together.
    """
    pool = view.producer(node.inputs[0], AvgPool2D)
    if pool is None or not view.sole_use(node.inputs[0]) or pool.attrs.act != _NONE or not view.is_float(pool):
        return None
    if node.attrs.after_float:
        return None
    a: AvgPool2D = pool.attrs
    x, real = view.value(pool.inputs[0]), view.value(node.inputs[0])
    taps = a.kernel.h * a.kernel.w
    draft = RewriteDraft(view, node)
    if tuple(a.kernel) == x.shape[1:3] and real.shape[1:3] == (1, 1) and not any(a.pad):
        mean = draft.add(pool.inputs, Mean((1, 2), keep_dims=True), real, real.shape, "mean")
    elif (not any(a.pad) or a.count_pad) and taps <= _MOST_TAPS:
        one = Quant((float(np.float32(1) / np.float32(taps)),), (0,))
        w = Value(f"{real.name}:ones", (*a.kernel, x.shape[3]), "s8", one)
        ones = draft.const(np.ones(w.shape, np.int8), w)
        attrs = DepthwiseConv2D(a.stride, a.pad, a.dilation)
        mean = draft.add([pool.inputs[0], ones], attrs, real, real.shape, "sums")
    else:
        return None
    return draft.finish([mean], node.attrs, pool.origin + node.origin)


@rule(Quantize)
def integer_operator(view: View, node: Node) -> Rewrite | None:
    """quantize(f(dequantize(x), ...)) -> f of integers."""
    f = view.producer(node.inputs[0])
    if f is None or not is_a(f, Trait.ANY_SCALES, Trait.ONE_SCALE) or not view.sole_use(node.inputs[0]):
        return None
    in_float = node.attrs.after_float and not op_of(f).sums_products
    if in_float or qdq_choices.is_requantized(view, node, f):
        return None
    y, draft = view.value(node.outputs[0]), RewriteDraft(view, node)
    inputs = _integer_inputs(view, draft, f)
    if inputs is None:
        return None
    origin = f.origin + node.origin
    x = draft.value(inputs[0])
    if is_a(f, Trait.ONE_SCALE) and (x.dtype, x.quant) != (y.dtype, y.quant):
        return None  # its integers would be rounded in the scale of x, which may be the coarser one
    if not op_of(f).sums_products and any(draft.value(name).dtype != y.dtype for name in inputs):
        return None
    return draft.finish(inputs, f.attrs, origin)


def _integer_inputs(view: View, draft: RewriteDraft, f: Node) -> list[str] | None:
    """The integers behind each input of a float operator; weights are quantized, other float constants where integers
    hold them. None if one is computed."""
    if op_of(f).sums_products:
        return _weighted_inputs(view, draft, f)
    integers, is_computed = [], False
    for name in f.inputs:
        source = integers_behind(view, name)
        if source is None and view.is_const(name) and is_a(f, Trait.BROADCASTS):
            source = _exact(draft, name, view.const(name))
        if source is None:
            return None
        is_computed |= not view.is_const(name) and not view.is_const(source)
        integers.append(source)
    return integers if is_computed else None


def _weighted_inputs(view: View, draft: RewriteDraft, f: Node) -> list[str] | None:
    """x, weights with one scale per output channel, bias in the scale of the accumulator."""
    x, w = integers_behind(view, f.inputs[0]), integers_behind(view, f.inputs[1]) or f.inputs[1]
    if x is None or view.is_const(x) or not view.is_const(w):
        return None
    if view.value(w).dtype == "f32":
        w = _symmetric(draft, w, view.const(w), op_of(f).out_axis)
    x_quant, w_quant = view.value(x).quant, draft.value(w).quant
    if x_quant is None or w_quant is None or any(w_quant.zero):
        return None
    if len(f.inputs) < 3 or not f.inputs[2]:
        return [x, w]
    if view.is_const(w) and not _is_in_steps(view, f.inputs[2], x_quant, w_quant):
        w = _in_finer_steps(draft, view.value(w), view.const(w))
        w_quant = draft.value(w).quant
        assert w_quant is not None
    bias = _bias(view, f.inputs[2], x_quant, w_quant, f)
    scale = tuple(x_quant.scale[0] * s for s in w_quant.scale)
    like = Value(
        f"{f.inputs[2]}:s32", bias.shape, "s32", Quant(scale, (0,) * len(scale), 0 if len(scale) > 1 else None)
    )
    return [x, w, draft.const(bias, like)]


def _is_in_steps(view: View, name: str, x: Quant, w: Quant) -> bool:
    """Whether a bias is held in integers whose steps are x.scale * w.scale."""
    held = view.value(name)
    if held.quant is None or not view.is_const(name) or held.dtype != "s32":
        return False
    own, step = np.asarray(held.quant.scale, np.float64), np.float64(x.scale[0]) * np.asarray(w.scale, np.float64)
    return np.allclose(own, np.broadcast_to(step, own.shape) if own.size > 1 else step, rtol=1e-5, atol=0)


def _in_finer_steps(draft: RewriteDraft, w: Value, array: Array) -> str:
    """The weights in the finest steps that their type and the sums hold, as a bias in float is rounded to such a step.
    That of weights in 2 bits is coarse, and their integers use a quarter of what 4 bits can tell."""
    largest = int(np.abs(array).max(initial=0))
    sums = _MOST_INPUT * float(np.abs(array).astype(np.float64).sum())
    times = min(INT_RANGE[w.dtype][1] // max(largest, 1), int(_MOST_SUM // max(sums, 1.0)), _MOST_TIMES)
    if largest == 0 or times < 2 or w.quant is None:
        return w.name
    power = 2 ** int(np.log2(times))
    quant = replace(w.quant, scale=tuple(scale / power for scale in w.quant.scale))
    return draft.const(array * array.dtype.type(power), replace(w, name=f"{w.name}:finer", quant=quant))


def _bias(view: View, name: str, x: Quant, w: Quant, f: Node) -> Array:
    """`_in_steps`; TinycError where there are none."""
    if real_constant(view, name) is None:
        raise TinycError(f"bias '{name}' is computed", f.where)
    steps = _in_steps(view, name, x, w)
    if steps is None:
        raise TinycError(f"bias '{name}' is too large for its layer's scales", f.where)
    return steps


def _in_steps(view: View, name: str, x: Quant, w: Quant) -> Array | None:
    """A bias in steps of x.scale * w.scale, int32; as it is where the file has it so. None if it is too large, or not
    constant."""
    step = np.float64(x.scale[0]) * np.asarray(w.scale, np.float64)
    held = view.value(name)
    real = real_constant(view, name)
    if real is None or _is_in_steps(view, name, x, w):
        return None if real is None else view.const(name)
    if held.quant is not None and view.is_const(name) and held.dtype == "s32":
        own = np.asarray(held.quant.scale, np.float64)
        real = own * (view.const(name).astype(np.float64) - np.asarray(held.quant.zero))
    steps = np.rint(real.astype(np.float64) / step)
    lo, hi = INT_RANGE["s32"]
    fits = np.isfinite(steps).all() and steps.min() >= lo and steps.max() <= hi
    return steps.astype(np.int32) if fits else None


def _exact(draft: RewriteDraft, name: str, array: Array) -> str | None:
    """A float constant as int8 with zero point 0; None where no power of two as the scale gives its numbers."""
    scale = np.exp2(np.ceil(np.log2((float(np.abs(array).max(initial=0)) or 127.0) / 127)))
    if (array / scale % 1).any():
        return None
    like = Value(f"{name}:s8", array.shape, "s8", Quant((float(scale),), (0,)))
    return draft.const((array / scale).astype(np.int8), like)


def _symmetric(draft: RewriteDraft, name: str, array: Array, axis: int | None) -> str:
    """A float constant as int8 with zero point 0, one scale per index of `axis`: the largest becomes 127, or the scale
    is a power of two where that is exact, as for the ones of a sum."""
    others = tuple(k for k in range(array.ndim) if k != axis) if axis is not None else None
    shape = [-1 if k == axis else 1 for k in range(array.ndim)] if axis is not None else []
    largest = np.atleast_1d(np.abs(array.astype(np.float64)).max(axis=others))
    most = np.where(largest > 0, largest, 1.0) / 127
    binary = np.exp2(np.ceil(np.log2(most)))
    exact = (array / binary.reshape(shape) % 1 == 0).all(axis=others)
    scale = np.where(exact, binary, most)
    steps = np.rint(array / scale.reshape(shape))
    quant_axis = axis if len(scale) > 1 else None
    like = Value(f"{name}:s8", array.shape, "s8", Quant(tuple(map(float, scale)), (0,) * len(scale), quant_axis))
    return draft.const(steps.astype(np.int8), like)


@rule(Quantize)
def loop_of_integers(view: View, node: Node) -> Rewrite | None:
    """quantize(an LSTM or GRU over dequantize(x), with integer weights) -> that of integers."""
    loop = view.producer(node.inputs[0], Recurrent)
    if loop is None or not view.sole_use(node.inputs[0]):
        return None
    name, w_name, bias, r_name, *late_and_states = loop.inputs
    x, y = integers_behind(view, name), view.value(node.outputs[0])
    states = [other and integers_behind(view, other) for other in late_and_states[1:]]
    if x is None or None in states or {view.value(n).dtype for n in (w_name, r_name)} not in _LOOP_WEIGHTS:
        return None
    x_value, draft = view.value(x), RewriteDraft(view, node)
    if x_value.quant is None or any(view.value(each).dtype != y.dtype for each in (x, *states) if each):
        return None
    w = view.value(w_name)
    assert w.quant is not None
    scale = tuple(x_value.quant.scale[0] * s for s in w.quant.scale)
    if bias:
        like = Value(f"{bias}:s32", view.value(bias).shape, "s32", Quant(scale, (0,) * len(scale), w.quant.axis))
        steps = _in_steps(view, bias, x_value.quant, w.quant)
        if steps is None:
            return None
        bias = draft.const(steps, like)
    inputs = [x, w_name, bias, r_name, *late_and_states[:1], *map(str, states)]
    return draft.finish(inputs, loop.attrs, loop.origin + node.origin)


@rule(Recurrent, RecurrentKept)
def loop_in_floats(view: View, node: Node) -> Rewrite | None:
    """An LSTM or GRU that stays in float -> with float weights."""
    quants = {index: view.value(node.inputs[index]).quant for index in (1, 3)}
    draft, inputs = RewriteDraft(view, node), list(node.inputs)
    if view.value(node.inputs[0]).dtype != "f32" or not any(quants.values()):
        return None
    for index, quant in quants.items():
        if quant is not None:
            w = view.value(node.inputs[index])
            reals = np.asarray(quant.dequantize(view.const(w.name)), np.float32)
            inputs[index] = draft.const(reals, replace(w, name=f"{w.name}:reals", dtype="f32", quant=None))
    return draft.finish(inputs, node.attrs, node.origin)


@rule(ArgMax)
def index_of_integers(view: View, node: Node) -> Rewrite | None:
    """argmax(dequantize(x)) -> argmax(x): the same index."""
    source = integers_behind(view, node.inputs[0])
    if source is None or view.is_const(source):
        return None
    return RewriteDraft(view, node).finish([source], node.attrs)


@rule(Extremum)
def sink_dequantize_of_two(view: View, node: Node) -> Rewrite | None:
    """extremum of two dequantized values of one quantization -> of the integers."""
    return sink_dequantize(view, node)


@rule()
def quantize_last(view: View, node: Node) -> Rewrite | None:
    """f(dequantize(x)) as a model output -> dequantize of it in the one quantization that f's outputs have."""
    fixed = op_of(node).quant_out[0]
    if not isinstance(fixed, Fixed) or len(node.inputs) != 1:
        return None
    y = view.value(node.outputs[0])
    source = integers_behind(view, node.inputs[0])
    if not view.is_output(y.name) or source is None or view.consumers(y.name):
        return None
    x = view.value(source)
    if x.dtype != "s8":
        return None
    draft = RewriteDraft(view, node)
    like = replace(y, dtype="s8", quant=Quant((fixed.scale,), (fixed.zero,)))
    inner = draft.add([source], node.attrs, like, y.shape, "s8")
    return draft.finish([inner], _dequantize(view, node.inputs[0]).attrs)


_RULES = (
    drop_identity,
    merge_reshapes,
    merge_transposes,
    sink_through_unary,  # so that no transpose stands between a layer and its activation
    sink_through_binary,
    fuse_clip,
    add_into_bias,
    mul_into_scales,
    mul_into_softmax,
    sink_dequantize,
    requantize_directly,
    quantize_constant,
    raise_quantize,
    table_of_island,
    mean_instead_of_pool,
    integer_operator,
    loop_of_integers,
    quantize_last,
    index_of_integers,
    sink_dequantize_of_two,
    *qdq_choices.RULES,
)


@begins_with(Quantize, Dequantize, Recurrent, RecurrentKept)
def join_quantization(graph: Graph) -> Graph:
    """The graph with every float operator between dequantize and quantize as the integer operator it stands for."""
    if has(graph, Quantize, Dequantize):
        graph = rewrite(graph, _RULES)
    return rewrite(graph, (loop_in_floats,))
