# SPDX-License-Identifier: Apache-2.0
"""Nodes of every ONNX operator that tinyc imports, at random: sizes, attributes and their edges.

A generator is a function of a random number generator; `GENERATORS` has one per operator. What it makes is legal ONNX
in most draws; where ONNX Runtime itself refuses a draw there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from onnx import TensorProto, helper

from tests.load.onnx_models import build, op
from tinyc.ir.graph import Array

CHANNELS = (1, 2, 3, 7, 9)
RECENT = (13, 17, 18, 19, 20, 21)

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One node. args: a shape for a computed input, an array for a constant, None for an absent one."""

    op: str
    args: tuple[Shape | Array | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: int = 1
    low: float = -3.0  # of the computed inputs
    high: float = 3.0
    nodes: tuple[onnx.NodeProto, ...] = ()  # in place of the one, where its result is no float

    def model(self) -> onnx.ModelProto:
        """The node as a model, its computed inputs x0, x1 ..., its outputs y, y1 ..."""
        names, inputs, constants = [], {}, {}
        for k, arg in enumerate(self.args):
            names.append("-" if arg is None else f"x{k}" if isinstance(arg, tuple) else f"c{k}")
            if isinstance(arg, tuple):
                inputs[f"x{k}"] = arg
            elif arg is not None:
                constants[f"c{k}"] = arg
        outputs = ["y", *(f"y{k}" for k in range(1, self.outputs))]
        node = op(self.op, " ".join(names), " ".join(outputs), **self.attributes)
        return build(self.nodes or [node], inputs, outputs, constants, self.opset, ir_version=10)

    def feeds(self, rng: Generator) -> dict[str, Array]:
        """Inputs; in every third a number is held exactly between the others, where roundings differ."""
        shapes = {f"x{k}": arg for k, arg in enumerate(self.args) if isinstance(arg, tuple)}
        arrays = {}
        for name, shape in shapes.items():
            x = rng.uniform(self.low, self.high, shape)
            halves = np.round(2 * x) / 2
            is_half = (halves >= self.low) & (halves <= self.high) & (rng.random(shape) < 0.3)
            arrays[name] = np.where(is_half, halves, x).astype(np.float32)
        return arrays


def f32(r: Generator, *shape: int) -> Array:
    return r.standard_normal(shape).astype(np.float32)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def pick(r: Generator, *choices: Any) -> Any:
    return choices[int(r.integers(len(choices)))]


def some(r: Generator, **attributes: Any) -> dict[str, Any]:
    """Each attribute with the chance of two in three."""
    return {name: value for name, value in attributes.items() if r.random() < 0.67}


def shape_of(r: Generator, least: int = 1, most: int = 4) -> Shape:
    return tuple(int(n) for n in r.integers(1, 6, int(r.integers(least, most + 1))))


def image(r: Generator, channels: int, axes: int) -> Shape:
    sizes = (1, 2, 3, 4, 5, 7, 8, 11) if axes < 3 else (1, 2, 3, 4, 5, 7)
    return (1, channels, *(int(n) for n in r.choice(sizes, axes)))


def ints(r: Generator, low: int, high: int, count: int) -> list[int]:
    return [int(n) for n in r.integers(low, high + 1, count)]


def sliding(r: Generator, axes: int) -> dict[str, Any]:
    """Strides, dilations and padding of a window."""
    given = some(r, strides=ints(r, 1, 5, axes), dilations=ints(r, 1, 3, axes))
    how = pick(r, "none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    if how == "pads":
        given["pads"] = ints(r, 0, 3, 2 * axes)
    elif how != "none":
        given["auto_pad"] = how
    return given


def conv(r: Generator) -> Case:
    axes = pick(r, 1, 2, 2, 3)
    groups = pick(r, 1, 1, 2, 3, "all")
    in_c = pick(r, *CHANNELS) if groups in (1, "all") else groups * pick(r, 1, 3)
    groups = in_c if groups == "all" else groups
    out_c, kernel = groups * pick(r, 1, 2, 3), ints(r, 1, 5, axes)
    w = f32(r, out_c, in_c // groups, *kernel)
    args = (image(r, in_c, axes), w, *((f32(r, out_c),) if r.random() < 0.5 else ()))
    return Case("Conv", args, {**sliding(r, axes), **some(r, kernel_shape=kernel), "group": groups})


def conv_transpose(r: Generator) -> Case:
    axes = pick(r, 1, 2, 2)
    groups, in_each, kernel = pick(r, 1, 1, 2, 3), pick(r, 1, 2, 3), ints(r, 1, 5, axes)
    out_each = pick(r, 1, 2, 3)
    x, strides = image(r, groups * in_each, axes), ints(r, 1, 4, axes)
    given: dict[str, Any] = {"strides": strides, "group": groups, **some(r, kernel_shape=kernel)}
    how = pick(r, "none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "output_shape")
    if how == "pads":
        given["pads"] = ints(r, 0, 2, 2 * axes)
    elif how == "output_shape":
        full = [s * (n - 1) + k for s, n, k in zip(strides, x[2:], kernel, strict=True)]
        given["output_shape"] = [max(1, n + int(r.integers(-2, 2))) for n in full]
        given |= some(r, auto_pad=pick(r, "SAME_UPPER", "SAME_LOWER", "NOTSET"))
    elif how != "none":
        given["auto_pad"] = how
    if r.random() < 0.3:
        given["output_padding"] = [int(r.integers(0, s)) for s in strides]
    if r.random() < 0.15:
        given["dilations"] = ints(r, 1, 2, axes)
    bias = (f32(r, groups * out_each),) if r.random() < 0.5 else ()
    return Case("ConvTranspose", (x, f32(r, groups * in_each, out_each, *kernel), *bias), given)


def pool(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        axes = pick(r, 1, 2, 2, 3)
        kernel, given = ints(r, 1, 4, axes), sliding(r, axes)
        if "pads" in given:
            given["pads"] = [min(p, kernel[k % axes] - 1) for k, p in enumerate(given["pads"])]
        given |= some(r, ceil_mode=pick(r, 0, 1))
        if name == "AveragePool":
            given |= some(r, count_include_pad=pick(r, 0, 1))
        opset = pick(r, 11, 17, 19, 21)
        if name == "AveragePool" and opset < 19:
            given.pop("dilations", None)
        outputs = 1
        if name == "MaxPool" and axes < 3 and r.random() < 0.4:
            given, outputs = {**given, **some(r, storage_order=pick(r, 0, 1))}, 2
        return Case(name, (image(r, pick(r, *CHANNELS), axes),), {"kernel_shape": kernel, **given}, opset, outputs)

    return draw


def max_unpool(r: Generator) -> Case:
    """Behind the pool that gives the places, and a product, so that not only maxima are put back."""
    axes = pick(r, 1, 2, 2)
    x, kernel = image(r, pick(r, 1, 2, 3), axes), ints(r, 1, 3, axes)
    given = {"kernel_shape": kernel, **some(r, strides=ints(r, 1, 3, axes))}
    if r.random() < 0.3:
        given["pads"] = [int(r.integers(0, k)) for k in (*kernel, *kernel)]
    unpooled = "p i c1" if r.random() < 0.7 else "p i"
    nodes = (op("MaxPool", "x0", "m i", **given), op("Mul", "m c2", "p"), op("MaxUnpool", unpooled, "y", **given))
    return Case("MaxUnpool", (x, i64(*x), f32(r, 1, x[1], *[1] * axes)), nodes=nodes)


def global_pool(name: str) -> Callable[[Generator], Case]:
    return lambda r: Case(name, (image(r, pick(r, *CHANNELS), pick(r, 1, 2, 3)),))


def resize(r: Generator) -> Case:
    axes = 1 if r.random() < 0.2 else 2
    x = image(r, pick(r, 1, 3), axes)
    opset = pick(r, 10, 11, 13, 18, 19)
    mode = pick(r, "nearest", "nearest", "linear", "linear", "cubic" if opset > 10 and axes == 2 else "linear")
    rules = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    rules += ["half_pixel_symmetric"] if opset >= 19 else []
    rules += ["tf_crop_and_resize"] if r.random() < 0.2 else []
    given: dict[str, Any] = {"mode": mode}
    if opset >= 11:
        given |= some(r, coordinate_transformation_mode=pick(r, *rules))
        given |= some(r, nearest_mode=pick(r, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
        if r.random() < (0.7 if mode == "cubic" else 0.1):
            given |= {"exclude_outside": pick(r, 0, 1) if mode == "cubic" else 0, "extrapolation_value": 0.5}
            given |= {"cubic_coeff_a": pick(r, -0.5, -0.75)}
    if opset >= 18 and r.random() < 0.2:
        given |= some(
            r, antialias=pick(r, 0, 1), keep_aspect_ratio_policy=pick(r, "stretch", "not_larger", "not_smaller")
        )
    scales = r.choice((0.1, 0.25, 0.3, 0.5, 0.6, 0.7, 0.9, 1.0, 1.1, 1.3, 1.5, 2.0, 2.3, 3.0, 10 / 3), axes)
    whole = np.array([1, 1, *scales], np.float32)
    sizes = i64(1, x[1], *(max(1, int(n * s)) for n, s in zip(x[2:], scales, strict=True)))
    if opset == 10:
        return Case("Resize", (x, whole), given, opset)
    region = given.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = f32(r, 2 * axes + 4) if r.random() < 0.1 else None
    if region:
        begin, end = r.uniform(-0.2, 0.6, axes), r.uniform(0.4, 1.2, axes)
        roi = np.array([0, 0, *begin, 1, 1, *end], np.float32)
    if opset >= 18 and (r.random() < 0.2 or given.get("keep_aspect_ratio_policy", "stretch") != "stretch"):
        given["axes"] = [2, 3][:axes]
        whole, sizes = whole[2:], sizes[2:]
        roi = np.concatenate([begin, end]).astype(np.float32) if region else None
    no_scales = np.zeros(0, np.float32) if opset < 13 else None
    if opset < 13 and roi is None:
        roi = np.zeros(0, np.float32)
    by_scales = r.random() < (0.1 if region else 0.6)
    return Case("Resize", (x, roi, whole) if by_scales else (x, roi, no_scales, sizes), given, opset)


def upsample(r: Generator) -> Case:
    scales = np.array([1, 1, *r.choice((1.0, 1.5, 2.0, 3.0, 2.3), 2)], np.float32)
    return Case("Upsample", (image(r, 2, 2), scales), some(r, mode=pick(r, "nearest", "linear")), 9)


def blocks(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        b, c = pick(r, 1, 2, 3), pick(r, 1, 2, 3)
        h, w = ints(r, 1, 3, 2)
        x = (1, c * b * b, h, w) if name == "DepthToSpace" else (1, c, h * b, w * b)
        modes = some(r, mode=pick(r, "DCR", "CRD")) if name == "DepthToSpace" else {}
        return Case(name, (x,), {"blocksize": b, **modes})

    return draw


def elementwise(
    name: str, opset: int = 17, low: float = -3, high: float = 3, **attributes: Any
) -> Callable[[Generator], Case]:
    """attributes: name -> what it may be."""

    def draw(r: Generator) -> Case:
        given = some(r, **{key: pick(r, *values) for key, values in attributes.items()})
        return Case(name, (shape_of(r),), given, opset, low=low)

    return draw


def binary(name: str, opset: int = 17, low: float = -3) -> Callable[[Generator], Case]:
    """Of two computed tensors, or one and a constant; broadcast either way."""

    def draw(r: Generator) -> Case:
        shape = shape_of(r)
        other = tuple(1 if r.random() < 0.3 else n for n in shape)[int(r.integers(0, len(shape))) :]
        constant = r.uniform(0.5 if name == "Div" else -3, 3, other).astype(np.float32)
        args = pick(r, (shape, other), (shape, constant), (constant, shape), (other, shape))
        return Case(name, args, {}, opset, low=low)

    return draw


def variadic(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape = shape_of(r)
        others = [tuple(1 if r.random() < 0.3 else n for n in shape) for _ in range(int(r.integers(0, 3)))]
        extra = (f32(r),) if r.random() < 0.3 and name in ("Max", "Min") else ()
        return Case(name, (shape, *others, *extra))

    return draw


def cum_sum(r: Generator) -> Case:
    shape = shape_of(r)
    axis = np.array(int(r.integers(-len(shape), len(shape))))
    return Case("CumSum", (shape, axis), some(r, exclusive=pick(r, 0, 1), reverse=pick(r, 0, 1)), pick(r, 11, 14, 17))


def trilu(r: Generator) -> Case:
    shape = (*shape_of(r)[:1], int(r.integers(1, 6)), int(r.integers(1, 6)))
    args = (shape, np.array(int(r.integers(-4, 5)))) if r.random() < 0.7 else (shape,)
    return Case("Trilu", args, some(r, upper=pick(r, 0, 1)), pick(r, 14, 17, 19))


def reduction(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape, given = shape_of(r), some(r, keepdims=pick(r, 0, 1))
        count = int(r.integers(0, len(shape) + 1))
        axes = [int(k) - (len(shape) if r.random() < 0.3 else 0) for k in r.permutation(len(shape))[:count]]
        opset = pick(r, 11, 13, 17, 18, 20)
        args: tuple[Any, ...] = (shape,)
        if opset >= 18 or (name == "ReduceSum" and opset >= 13):
            args = (shape, i64(*axes)) if axes else (shape,)
            given |= some(r, noop_with_empty_axes=pick(r, 0, 1))
        elif axes:
            given["axes"] = axes
        low = 0.1 if name == "ReduceLogSum" else -3.0
        return Case(name, args, given, opset, low=low)

    return draw


def arg_extremum(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape = shape_of(r)
        axis = int(r.integers(-len(shape), len(shape)))
        return Case(name, (shape,), some(r, axis=axis, keepdims=pick(r, 0, 1), select_last_index=pick(r, 0, 1)))

    return draw


def along_axis(name: str, **attributes: Any) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape = shape_of(r)
        given = some(r, axis=int(r.integers(-len(shape), len(shape))))
        given |= some(r, **{key: pick(r, *values) for key, values in attributes.items()})
        opset = pick(r, 11, 13, 17) if name in ("Softmax", "LogSoftmax", "Hardmax") else 17
        # Where everything along the axis is zero, ONNX says zero, and ONNX Runtime NaN for p = 1.
        return Case(name, (shape,), given, opset, **({"low": 0.25} if given.get("p") == 1 else {}))

    return draw


def clip(r: Generator) -> Case:
    lo, hi = np.sort(r.uniform(-2, 2, 2)).astype(np.float32)
    if r.random() < 0.15:
        lo, hi = hi, lo
    opset = pick(r, 7, 11, 13)
    if opset < 11:
        return Case("Clip", (shape_of(r),), some(r, min=float(lo), max=float(hi)), opset)
    return Case(
        "Clip", (shape_of(r), pick(r, lo, None, np.float32(-np.inf)), pick(r, hi, None, np.float32(3.4e38))), {}, opset
    )


def gemm(r: Generator) -> Case:
    rows, n, m = pick(r, 1, 1, 3), *ints(r, 1, 9, 2)
    given = some(r, alpha=pick(r, 1.0, 0.5, -2.0), beta=pick(r, 1.0, 0.25, 0.0))
    given |= some(r, transA=pick(r, 0, 1), transB=pick(r, 0, 1))
    x = (n, rows) if given.get("transA") else (rows, n)
    w = f32(r, m, n) if given.get("transB") else f32(r, n, m)
    c = pick(r, None, (m,), (1, m), (rows, m), (1,), ())
    bias: tuple[Any, ...] = () if c is None else (f32(r, *c) if r.random() < 0.7 or not c else c,)
    return Case("Gemm", (x, w, *bias), given)


def matmul(r: Generator) -> Case:
    n, k, m = ints(r, 1, 6, 3)
    batch = tuple(ints(r, 1, 3, pick(r, 0, 0, 1, 2)))
    a, b = (*batch, n, k), (*(batch if r.random() < 0.5 else ()), k, m)
    kind = pick(r, "weights", "left", "both", "vector")
    if kind == "weights":
        return Case("MatMul", (a, f32(r, k, m)))
    if kind == "left":
        return Case("MatMul", (f32(r, n, k), (k, m)))
    if kind == "vector":
        return Case("MatMul", ((k,), f32(r, k, m)))
    return Case("MatMul", (a, b))


def einsum(r: Generator) -> Case:
    text = pick(r, "bij,bjk->bik", "bij,bkj->bik", "ij,jk->ki", "bhqd,bhkd->bhqk", "i,j->ij", "bi,bi->b", "ij->ji",
                "bij,jk", "bij->bi", "ij->", "bii->bi", "ij,ij->", "ij,jk,kd->id", "...ij,...jk->...ik", "...i->...",
                "b...j,j...k->...kb", "ijk,i->k", "bhqd,bkd->bhqk", "ii,i->i", "q,k,d->dkq", "...ii->...i")  # fmt: skip
    sizes = {c: int(r.integers(1, 5)) for c in "bhijkqd"}
    dots = tuple(ints(r, 1, 3, pick(r, 0, 1, 2)))
    args: list[Any] = []
    for letters in text.partition("->")[0].split(","):
        wide = tuple(1 if r.random() < 0.2 else n for n in dots)
        before, ellipsis, after = letters.partition("...")
        shape = (*(sizes[c] for c in before), *(wide if ellipsis else ()), *(sizes[c] for c in after))
        args.append(shape if not args or r.random() < 0.6 else f32(r, *shape))
    return Case("Einsum", tuple(args), {"equation": text})


def attention(r: Generator) -> Case:
    """Heads apart or in one axis, groups of them that share keys, masks of numbers and of truths."""
    batch, shared, queries, keys, depth, width = (int(n) for n in r.integers(1, 6, 6))
    heads = shared * pick(r, 1, 1, 2, 3)
    attributes: dict[str, Any] = some(r, is_causal=int(r.integers(0, 2)), scale=float(r.uniform(0.1, 1)))
    shapes: tuple[Shape, ...] = (
        (batch, heads, queries, depth),
        (batch, shared, keys, depth),
        (batch, shared, keys, width),
    )
    if r.random() < 0.5:
        shapes = tuple((n, tokens, h * numbers) for n, h, tokens, numbers in shapes)
        attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
    seen = r.random((queries, keys)) < 0.7
    seen[:, 0] = True  # of a row without any key the softmax is not defined
    mask = pick(r, None, seen, np.where(seen, f32(r, queries, keys), np.float32(-3e38)).astype(np.float32))
    return Case("Attention", (*shapes, *([] if mask is None else [mask])), attributes, 23)


def slice_(r: Generator) -> Case:
    shape = tuple(n + 1 for n in shape_of(r))
    count = int(r.integers(1, len(shape) + 1))
    axes = [int(k) for k in r.permutation(len(shape))[:count]]
    steps = [pick(r, 1, 1, 2, -1, -2, 3) for _ in axes]
    spans = [(int(r.integers(-9, 1)), pick(r, 1, 2, 9, 2**31, -1)) for _ in axes]
    starts = [first if step > 0 else last for (first, last), step in zip(spans, steps, strict=True)]
    ends = [last if step > 0 else first - 2 for (first, last), step in zip(spans, steps, strict=True)]
    signed = [k - len(shape) if r.random() < 0.3 else k for k in axes]
    if r.random() < 0.2:
        backward = [step < 0 for step in steps]
        low = [e if b else s for s, e, b in zip(starts, ends, backward, strict=True)]
        high = [s if b else e for s, e, b in zip(starts, ends, backward, strict=True)]
        return Case("Slice", (shape,), {"starts": low, "ends": high, "axes": axes}, 9)
    return Case("Slice", (shape, i64(*starts), i64(*ends), i64(*signed), i64(*steps)))


def split(r: Generator) -> Case:
    shape = list(shape_of(r))
    axis = int(r.integers(0, len(shape)))
    sizes = ints(r, 1, 3, pick(r, 2, 3))
    opset = pick(r, 11, 13, 18)
    given = some(r, axis=axis)
    axis = given.get("axis", 0)
    how = pick(r, "equal", "sizes")
    if how == "sizes":
        shape[axis] = sum(sizes)
        if opset < 13:
            return Case("Split", (tuple(shape),), {**given, "split": sizes}, opset, len(sizes))
        return Case("Split", (tuple(shape), i64(*sizes)), given, opset, len(sizes))
    shape[axis] = len(sizes) * 2 - (1 if opset == 18 and r.random() < 0.5 else 0)
    if opset == 18:
        given["num_outputs"] = len(sizes)
    return Case("Split", (tuple(shape),), given, opset, len(sizes))


def gather(r: Generator) -> Case:
    shape = shape_of(r)
    axis = int(r.integers(-len(shape), len(shape)))
    n = shape[axis]
    indices = r.integers(-n, n, tuple(ints(r, 1, 3, pick(r, 0, 1, 2)))).astype(np.int64)
    return Case("Gather", (shape, np.asarray(indices)), {"axis": axis} if axis or r.random() < 0.5 else {})


def gather_nd(r: Generator) -> Case:
    shape = shape_of(r)
    axes = int(r.integers(1, len(shape) + 1))
    same = int(r.integers(0, axes)) if r.random() < 0.3 else 0
    ends = (*shape[:same], *ints(r, 1, 3, pick(r, 0, 1, 2)))
    indices = np.stack([r.integers(-n, n, ends) for n in shape[same:axes]], -1).astype(np.int64)
    return Case("GatherND", (shape, indices), {"batch_dims": same} if same else some(r, batch_dims=0))


def gather_elements(r: Generator) -> Case:
    shape = shape_of(r)
    axis = int(r.integers(-len(shape), len(shape)))
    sizes = [int(r.integers(1, n + 1)) for n in shape]
    sizes[axis] = int(r.integers(1, 7))
    n = shape[axis]
    return Case("GatherElements", (shape, r.integers(-n, n, sizes).astype(np.int64)), {"axis": axis})


def scatter_nd(r: Generator) -> Case:
    shape = shape_of(r)
    axes = int(r.integers(1, len(shape) + 1))
    if r.random() < 0.5:  # a part of each axis
        begin = [int(r.integers(0, n)) for n in shape[:axes]]
        indices = np.stack(np.indices([int(r.integers(1, n - b + 1)) for n, b in zip(shape, begin, strict=False)]), -1)
        indices += begin
    else:
        rows = r.permutation(int(np.prod(shape[:axes])))[: int(r.integers(1, 9))]
        indices = np.stack(np.unravel_index(rows, shape[:axes]), -1)
        indices -= np.where(r.random(indices.shape) < 0.2, shape[:axes], 0)
    given = some(r, reduction=pick(r, "none", "none", "add", "mul", "max", "min"))
    return Case("ScatterND", (shape, indices.astype(np.int64), (*indices.shape[:-1], *shape[axes:])), given, 18)


def scatter_elements(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape = shape_of(r)
        axis = int(r.integers(-len(shape), len(shape)))
        sizes = [int(r.integers(1, n + 1)) for n in shape]
        indices = np.argsort(r.random([n if k == axis % len(shape) else m for k, (n, m) in enumerate(zip(shape, sizes,
                             strict=True))]), axis=axis)  # fmt: skip
        indices = np.take(indices, range(sizes[axis]), axis)
        return Case(
            name, (shape, indices.astype(np.int64), tuple(sizes)), {"axis": axis}, 9 if name == "Scatter" else 17
        )

    return draw


def compress(r: Generator) -> Case:
    shape = shape_of(r)
    axis = int(r.integers(-len(shape), len(shape)))
    given = some(r, axis=axis)
    count = shape[axis] if given else int(np.prod(shape))
    return Case("Compress", (shape, r.random(int(r.integers(1, count + 1))) < 0.6), given)


def lp_pool(r: Generator) -> Case:
    drawn = pool("AveragePool")(r)
    given = {name: v for name, v in drawn.attributes.items() if name != "count_include_pad"}
    return Case("LpPool", drawn.args, given | some(r, p=int(r.integers(1, 4))), drawn.opset if drawn.opset > 17 else 18)


def lrn(r: Generator) -> Case:
    shape = (pick(r, 1, 1, 3), int(r.integers(1, 7)), *ints(r, 1, 5, 2))
    return Case("LRN", (shape,), {"size": pick(r, 1, 3, 5, 7), **some(r, alpha=0.3, beta=0.6, bias=1.5)})


def concat(r: Generator) -> Case:
    shape = shape_of(r)
    axis = int(r.integers(-len(shape), len(shape)))
    k = axis % len(shape)
    parts = [(*shape[:k], int(n), *shape[k + 1 :]) for n in r.integers(1, 4, pick(r, 1, 2, 3))]
    args = [f32(r, *p) if j and r.random() < 0.2 else p for j, p in enumerate(parts)]
    return Case("Concat", tuple(args), {"axis": axis})


def pad(r: Generator) -> Case:
    shape = shape_of(r)
    rank = len(shape)
    mode = pick(r, "constant", "constant", "reflect", "edge", "wrap")
    pads = ints(r, -1, 3, 2 * rank)
    if mode in ("reflect", "wrap"):
        pads = [min(p, shape[k % rank] - 1) for k, p in enumerate(pads)]
    opset = pick(r, 10, 13, 18, 19)
    opset = 19 if mode == "wrap" else opset
    if opset == 10:
        return Case("Pad", (shape,), {"pads": pads, "mode": mode, **some(r, value=1.5)}, opset)
    value = pick(r, None, np.float32(1.5))
    if opset >= 18 and r.random() < 0.3:
        return Case("Pad", (shape, i64(pads[0], pads[rank]), value, i64(0)), {"mode": mode}, opset)
    return Case("Pad", (shape, i64(*pads), value), {"mode": mode}, opset)


def top_k(r: Generator) -> Case:
    shape = tuple(n + 1 for n in shape_of(r))
    axis = int(r.integers(-len(shape), len(shape)))
    given = some(r, axis=axis, largest=pick(r, 0, 1), sorted=1)
    k = int(r.integers(1, shape[given.get("axis", -1)] + 1))
    node = op("TopK", "x0 c1", "y places", **given)
    return Case("TopK", (shape, i64(k)), given, pick(r, 11, 17), nodes=(node,))


def dynamic_quantize(r: Generator) -> Case:
    node = op("DynamicQuantizeLinear", "x0", "q y z")
    return Case("DynamicQuantizeLinear", (shape_of(r),), nodes=(node,), low=pick(r, -3.0, 0.5), high=3.5)


def scan(r: Generator) -> Case:
    """Distances, as skl2onnx writes them."""
    features, rows = ints(r, 1, 6, 2)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("kept", "row", "same", "far")]
    sized = [op("ReduceSumSquare", "apart", "far", axes=[1], keepdims=0)]
    if r.random() < 0.5:
        sized = [op("Abs", "apart", "size"), op("ReduceSumSquare", "size", "far", axes=[-1], keepdims=0)]
    if r.random() < 0.5:
        sized = [op("Abs", "apart", "size"), op("ReduceSum", "size axes", "far", keepdims=0)]
    sub = op("Sub", pick(r, "kept row", "row kept"), "apart")
    axes = [helper.make_tensor("axes", TensorProto.INT64, [1], [1])]
    body = helper.make_graph([op("Identity", "kept", "same"), sub, *sized], "body", ports[:2], ports[2:], axes)
    return Case("Scan", ((1, features), f32(r, rows, features)), {"body": body, "num_scan_inputs": 1}, 13, 2)


def loop(r: Generator) -> Case:
    """A state that goes through a function, and is gathered, in each of a few steps."""
    shape = shape_of(r)
    kinds = {"n": (TensorProto.INT64, ()), "go": (TensorProto.BOOL, ()), "state": (TensorProto.FLOAT, shape)}
    ports = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in ("more", "next", "row")]
    nodes = [op("Identity", "go", "more"), op(pick(r, "Tanh", "Neg"), "state", "next"), op("Abs", "next", "row")]
    body = helper.make_graph(nodes, "body", ports, results)
    return Case("Loop", (np.array(int(r.integers(1, 5))), None, shape), {"body": body}, pick(r, 13, 16), 2)


def affine_grid(r: Generator) -> Case:
    batch, height, width = ints(r, 1, 4, 3)
    size = i64(batch, 2, height + 1, width + 1)
    return Case("AffineGrid", ((batch, 2, 3), size), some(r, align_corners=pick(r, 0, 1)), 20)


def grid_sample(r: Generator) -> Case:
    axes = pick(r, 2, 2, 3)
    shape, places = image(r, int(r.integers(1, 4)), axes), ints(r, 1, 5, axes)
    batch = int(r.integers(1, 3))
    grid = r.uniform(-1.4, 1.4, (batch, *places, axes)).astype(np.float32)
    recent = axes == 3 or r.random() < 0.5
    modes = ("linear", "nearest", "cubic")[: 2 if axes == 3 else 3] if recent else ("bilinear", "nearest", "bicubic")
    beyond = pick(r, "zeros", "border", "reflection")
    given = some(r, mode=pick(r, *modes), padding_mode=beyond, align_corners=pick(r, 0, 1))
    return Case("GridSample", ((batch, *shape[1:]), grid), given, 20 if recent else 16)


def linear_attention(r: Generator) -> Case:
    tokens, heads, width = ints(r, 1, 4, 3)
    shape = (1, tokens, heads * width)
    attributes = {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "linear"}
    return Case("LinearAttention", (shape, shape, shape), attributes, 27)


def expand(r: Generator) -> Case:
    shape = shape_of(r)
    own = tuple(1 if r.random() < 0.5 else n for n in shape)
    asked = tuple(1 if own[k] == n and r.random() < 0.5 else n for k, n in enumerate(shape))
    return Case("Expand", (own, i64(*((2, *asked) if r.random() < 0.3 and len(asked) < 4 else asked))))


def tile(r: Generator) -> Case:
    shape = shape_of(r)
    return Case("Tile", (shape, i64(*ints(r, 1, 3, len(shape)))))


def reshape(r: Generator) -> Case:
    shape = shape_of(r)
    count = int(np.prod(shape))
    sizes = pick(r, [-1], [1, -1], [0, -1], [count, 1], [1, 1, count])
    return Case("Reshape", (shape, i64(*sizes)), some(r, allowzero=0))


def flatten(r: Generator) -> Case:
    shape = shape_of(r)
    return Case("Flatten", (shape,), some(r, axis=int(r.integers(-len(shape), len(shape) + 1))))


def squeeze(r: Generator) -> Case:
    shape = tuple(pick(r, 1, 2, 3) for _ in range(4))
    ones = [k - (4 if r.random() < 0.3 else 0) for k, n in enumerate(shape) if n == 1]
    opset = pick(r, 11, 13)
    if not ones or r.random() < 0.3:
        return Case("Squeeze", (shape,), {}, opset)
    return Case("Squeeze", (shape,), {"axes": ones}, opset) if opset < 13 else Case("Squeeze", (shape, i64(*ones)))


def unsqueeze(r: Generator) -> Case:
    shape = shape_of(r, 1, 2)
    axes = [int(r.integers(0, len(shape) + 2)), -1]
    if r.random() < 0.4:
        return Case("Unsqueeze", (shape,), {"axes": axes}, 11)
    return Case("Unsqueeze", (shape, i64(*axes)))


def transpose(r: Generator) -> Case:
    shape = shape_of(r)
    return Case("Transpose", (shape,), some(r, perm=[int(k) for k in r.permutation(len(shape))]))


def batch_norm(r: Generator) -> Case:
    x = image(r, pick(r, *CHANNELS), pick(r, 1, 2))
    c = x[1]
    variance = r.uniform(0.01, 2, c).astype(np.float32)
    return Case(
        "BatchNormalization", (x, f32(r, c), f32(r, c), f32(r, c), variance), some(r, epsilon=1e-3, momentum=0.5)
    )


def layer_norm(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape = tuple(n + 1 for n in shape_of(r))
        axis = int(r.integers(-len(shape), len(shape)))
        given = {"axis": axis, **some(r, epsilon=pick(r, 1e-5, 1e-2), stash_type=1)}
        inner = shape[axis:]
        bias = (f32(r, *inner),) if name == "LayerNormalization" and r.random() < 0.6 else ()
        return Case(name, (shape, f32(r, *inner), *bias), given, 17 if name == "LayerNormalization" else 23)

    return draw


def group_norm(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        groups = pick(r, 1, 2, 3)
        c = groups * pick(r, 1, 2, 3) if name == "GroupNormalization" else pick(r, *CHANNELS)
        x = (1, c, *ints(r, 2, 5, pick(r, 1, 2)))
        given = some(r, epsilon=pick(r, 1e-5, 1e-2))
        if name == "GroupNormalization":
            given |= {"num_groups": groups}
        return Case(name, (x, f32(r, c), f32(r, c)), given, 21 if name == "GroupNormalization" else 17)

    return draw


def mean_variance(r: Generator) -> Case:
    return Case("MeanVarianceNormalization", ((1, 3, 4, 5),), some(r, axes=pick(r, [0, 2, 3], [1, 2, 3], [2, 3])))


def prelu(r: Generator) -> Case:
    x = image(r, pick(r, *CHANNELS), 2)
    return Case("PRelu", (x, f32(r, *pick(r, (1,), (x[1], 1, 1), (x[3],), x[1:]))))


def power(r: Generator) -> Case:
    """One exponent, whole ones of numbers of either sign, or one for each element."""
    exponent, shape = pick(r, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 1.7, 0.0), shape_of(r)
    way = int(r.integers(3))
    if way == 0:
        return Case("Pow", (shape, np.float32(exponent)), {}, low=0.1)
    if way == 1:
        return Case("Pow", (shape, r.integers(0, 12, shape).astype(np.float32)), {}, low=-1.5, high=1.5)
    return Case("Pow", (shape, r.uniform(-2, 3, shape[int(r.integers(len(shape))) :]).astype(np.float32)), {}, low=0.1)


def cast(r: Generator) -> Case:
    return Case("Cast", (shape_of(r),), {"to": pick(r, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64)})


ACTIVATIONS = {  # how many numbers each takes: of activation_alpha, of activation_beta
    **dict.fromkeys(("Relu", "Sigmoid", "Softsign", "Tanh"), (0, 0)),
    **dict.fromkeys(("Elu", "LeakyRelu", "ThresholdedRelu"), (1, 0)),
    **dict.fromkeys(("Affine", "HardSigmoid", "ScaledTanh"), (1, 1)),
}


def activations(r: Generator, count: int) -> dict[str, Any]:
    names = [pick(r, *ACTIVATIONS) for _ in range(count)]
    given: dict[str, Any] = {"activations": names}
    for k, name in enumerate(("activation_alpha", "activation_beta")):
        taken = sum(ACTIVATIONS[each][k] for each in names)
        if taken and r.random() < 0.8:
            given[name] = [float(v) for v in r.uniform(0.1, 1, taken)]
    return given


def lengths(r: Generator, steps: int, batch: int) -> Array:
    """0 to `steps`, not all of them 0."""
    counts = r.integers(0, steps + 1, batch)
    counts[r.integers(batch)] = r.integers(1, steps + 1)
    return counts.astype(np.int32)


def recurrent(name: str, gates: int) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        steps, wide, units = ints(r, 1, 4, 3)
        batch = pick(r, 1, 1, 2, 3)
        direction = pick(r, "forward", "reverse", "bidirectional")
        given = {"hidden_size": units, **some(r, direction=direction)}
        d = 2 if given.get("direction") == "bidirectional" else 1
        if r.random() < 0.4:
            given |= activations(r, d * {"LSTM": 3, "GRU": 2, "RNN": 1}[name])
        if name == "GRU":
            given |= some(r, linear_before_reset=pick(r, 0, 1))
        if r.random() < 0.2:
            given["clip"] = 0.5
        if name == "LSTM" and r.random() < 0.2:
            given["input_forget"] = 1
        bias = f32(r, d, 2 * gates * units) if r.random() < 0.6 else None
        counts = lengths(r, steps, batch) if r.random() < 0.4 else None
        first = f32(r, d, batch, units) if r.random() < 0.4 else None
        args = [
            (steps, batch, wide),
            f32(r, d, gates * units, wide),
            f32(r, d, gates * units, units),
            bias,
            counts,
            first,
        ]
        if name == "LSTM":
            args.append(f32(r, d, batch, units) if r.random() < 0.4 else None)
            args.append(f32(r, d, 3 * units) if r.random() < 0.3 else None)
        return Case(name, tuple(args), given, 14, 3 if name == "LSTM" else 2)

    return draw


def comparison(name: str) -> Callable[[Generator], Case]:
    """Two tensors compared (a third with them, if `name` joins conditions), and the result as a choice."""
    joins = name in ("And", "Or")

    def draw(r: Generator) -> Case:
        case = binary(name)(r)
        names = [f"x{k}" if isinstance(arg, tuple) else f"c{k}" for k, arg in enumerate(case.args)]
        kind = pick(r, "Equal", "Greater", "Less") if joins or name in ("Not", "Where") else name
        nodes = [op(kind, " ".join(names), "is")]
        if joins:
            nodes += [op("Greater", f"{names[1]} {names[0]}", "also"), op(name, "is also", "both")]
        elif name == "Not":
            nodes.append(op("Not", "is", "both"))
        nodes.append(op("Where", f"{nodes[-1].output[0]} {names[0]} {names[1]}", "y"))
        return Case(name, case.args, nodes=tuple(nodes))

    return draw


def dft(r: Generator) -> Case:
    shape = (*(int(n) for n in r.integers(1, 9, int(r.integers(2, 4)))), pick(r, 1, 2))
    axis = int(r.integers(0, len(shape) - 1))
    half = shape[-1] == 1 and r.random() < 0.5
    given = some(r, onesided=int(half), inverse=0 if half else int(r.integers(0, 2)))
    length = np.array(int(r.integers(1, 10)), np.int64) if r.random() < 0.4 else None
    if r.random() < 0.5:
        return Case("DFT", (shape, length), {**given, "axis": axis}, 17)
    return Case("DFT", (shape, length, np.array(axis, np.int64)), given, 20)


def spectra(r: Generator) -> Case:
    """Spectra of frames, or logarithms of bands of their magnitudes."""
    if r.random() < 0.5:
        size, step, onesided = int(r.integers(2, 20)), int(r.integers(1, 9)), int(r.integers(0, 2))
        window, length = f32(r, size), np.array(size, np.int64) if r.random() < 0.5 else None
        if length is not None and r.random() < 0.5:
            window = None
        samples = (1, size + int(r.integers(0, 40)), 1)
        args = (samples, np.array(step, np.int64), window, *(() if length is None else (length,)))
        return Case("STFT", args, {"onesided": onesided}, low=-0.5, high=0.5)  # onnxruntime is 1e-6 of the sum off
    size, step = 2 ** int(r.integers(5, 8)), int(r.integers(1, 9))
    samples = (1, size + int(r.integers(0, 40)), 1)
    bands = np.abs(f32(r, size // 2 + 1, 3)) + np.float32(0.1)
    nodes = (
        op("STFT", "x0 c1 c2", "spectrum", onesided=1),
        op("ReduceL2", "spectrum", "magnitude", axes=[-1], keepdims=0),
        op("MatMul", "magnitude c3", "bands"),
        op("Add", "bands c4", "above"),
        op("Log", "above", "y"),
    )
    window = np.abs(f32(r, size)) + np.float32(0.1)
    return Case("STFT", (samples, np.array(step, np.int64), window, bands, np.array(0.01, np.float32)), nodes=nodes)


def cast_like(r: Generator) -> Case:
    return Case("CastLike", (shape_of(r), pick(r, f32(r, 1), i64(1))), {}, 19)


def branch(r: Generator) -> Case:
    graphs = [
        helper.make_graph([op(name, "x0", "made")], name, [], [helper.make_empty_tensor_value_info("made")])
        for name in ("Neg", "Relu")
    ]
    condition = np.array(bool(r.integers(2)))
    node = op("If", "c1", "y", then_branch=graphs[0], else_branch=graphs[1])
    return Case("If", (shape_of(r), condition), nodes=(node,))


def quantized(name: str) -> Callable[[Generator], Case]:
    """Of a computed tensor, or of weights."""

    def draw(r: Generator) -> Case:
        kind = pick(r, np.int8, np.uint8, np.int16, np.uint16)
        limits = np.iinfo(kind)
        zero = np.array(pick(r, limits.min, limits.max, 0, (limits.min + limits.max + 1) // 2), kind)
        scale = np.float32(pick(r, 2.0**-7, 1e-3, 0.5, 0.03))
        axis = {"axis": 0} if r.random() < 0.3 else {}
        nodes = (
            op("QuantizeLinear", "x0 c1 c2", "q", **axis),
            op("DequantizeLinear", "q c1 c2", "real", **axis),
            op("Relu", "real", "above"),
            op("QuantizeLinear", "above c1 c2", "y", **axis),
        )
        return Case(name, (shape_of(r), np.asarray(scale), zero), opset=21, nodes=nodes)

    return draw


def cum_prod(r: Generator) -> Case:
    shape = shape_of(r)
    axis = np.array(int(r.integers(-len(shape), len(shape))))
    return Case("CumProd", (shape, axis), some(r, exclusive=pick(r, 0, 1), reverse=pick(r, 0, 1)), 26)


def one_hot(r: Generator) -> Case:
    """Indices are reals here: those between whole numbers would be cut in ways that runtimes do not agree on."""
    shape, depth = shape_of(r, most=3), int(r.integers(1, 6))
    nodes = (op("Round", "x0", "whole"), op("OneHot", "whole c1 c2", "y", **some(r, axis=pick(r, -1, 0, 1))))
    return Case("OneHot", (shape, np.array([depth], np.float32), f32(r, 2)), nodes=nodes)


def rotary(r: Generator) -> Case:
    batch, heads, tokens, half = (int(n) for n in r.integers(1, 5, 4))
    tables = (f32(r, tokens + 3, half), f32(r, tokens + 3, half))
    places = r.integers(0, tokens + 3, (batch, tokens))
    given = some(r, interleaved=pick(r, 0, 1))
    if r.random() < 0.5:
        return Case("RotaryEmbedding", ((batch, heads, tokens, 2 * half), *tables, places), given, 23)
    given["num_heads"] = heads
    return Case("RotaryEmbedding", ((batch, tokens, heads * 2 * half), *tables, places), given, 23)


def loss(name: str) -> Callable[[Generator], Case]:
    def draw(r: Generator) -> Case:
        shape = (int(r.integers(1, 4)), int(r.integers(2, 5)), *ints(r, 1, 3, pick(r, 0, 1, 2)))
        target = r.integers(0, shape[1], (shape[0], *shape[2:]))
        return Case(name, (shape, target), some(r, reduction=pick(r, "none", "mean", "sum")), pick(r, 13, 17))

    return draw


def center_crop_pad(r: Generator) -> Case:
    shape = shape_of(r)
    return Case("CenterCropPad", (shape, i64(*ints(r, 1, 7, len(shape)))), {}, pick(r, 18, 19))


def causal_conv(r: Generator) -> Case:
    channels, taps = int(r.integers(1, 5)), int(r.integers(2, 5))
    shape = (int(r.integers(1, 3)), channels, int(r.integers(1, 6)))
    return Case("CausalConvWithState", (shape, f32(r, channels, 1, taps)), {}, 27)


def swiglu(r: Generator) -> Case:
    shape = shape_of(r)
    return Case("SwiGLU", (shape, shape), some(r, alpha=1.5), 28)


def asked(name: str) -> Callable[[Generator], Case]:
    """Whether what is made of a number is none, or infinite, as a choice."""

    def draw(r: Generator) -> Case:
        ways = some(r, detect_negative=pick(r, 0, 1), detect_positive=pick(r, 0, 1)) if name == "IsInf" else {}
        first = op("Div", "x0 above", "made") if name == "IsNaN" else op("Log", "above", "low")
        nodes = (
            op("Relu", "x0", "above"),
            first,  # no number where x is 0, or -infinity where it is not above 0
            *(() if name == "IsNaN" else (op(pick(r, "Neg", "Identity"), "low", "made"),)),
            op(name, "made", "is", **ways),
            op("Where", "is c1 x0", "y"),
        )
        return Case(name, (shape_of(r), np.array(7, np.float32)), nodes=nodes)

    return draw


GENERATORS: dict[str, Callable[[Generator], Case]] = {
    **{name: binary(name) for name in ("Add", "Sub", "Mul")},
    "Div": binary("Div", low=0.3),
    **{name: variadic(name) for name in ("Max", "Min", "Sum", "Mean")},
    **{
        name: elementwise(name)
        for name in ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Neg", "Relu", "Round")
    },
    **{name: elementwise(name) for name in ("Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh")},
    **{name: elementwise(name, low=-1, high=1) for name in ("Acos", "Asin", "Tan")},
    **{name: elementwise(name) for name in ("Asinh", "Atan", "Cosh", "Sinh")},
    "Acosh": elementwise("Acosh", low=1),
    "Atanh": elementwise("Atanh", low=-0.99, high=0.99),
    **{name: asked(name) for name in ("IsInf", "IsNaN")},
    "AffineGrid": affine_grid,
    "CausalConvWithState": causal_conv,
    "CenterCropPad": center_crop_pad,
    "CumProd": cum_prod,
    "GridSample": grid_sample,
    "Hardmax": along_axis("Hardmax"),
    "LinearAttention": linear_attention,
    "Loop": loop,
    "OneHot": one_hot,
    "RotaryEmbedding": rotary,
    **{name: loss(name) for name in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
    "SwiGLU": swiglu,
    "Mish": elementwise("Mish", 18),
    "DFT": dft,
    "STFT": spectra,
    **{name: elementwise(name, low=0.1) for name in ("Log", "Sqrt", "Reciprocal")},
    "Celu": elementwise("Celu", alpha=(0.5, 1.0, 2.0)),
    "Elu": elementwise("Elu", alpha=(0.5, 1.0, 2.0, -1.0)),
    "Selu": elementwise("Selu", alpha=(1.67326319217681884765625, 1.5), gamma=(1.05070102214813232421875, 1.2)),
    "Shrink": elementwise("Shrink", lambd=(0.5, 1.0), bias=(0.0, 0.5, 1.0)),
    "ThresholdedRelu": elementwise("ThresholdedRelu", alpha=(0.5, 1.0, -1.0, 0.0)),
    "LeakyRelu": elementwise("LeakyRelu", alpha=(0.0, 0.2, 1.0, 1.5, -0.5)),
    "HardSigmoid": elementwise("HardSigmoid", alpha=(0.1, 0.5, -0.2), beta=(0.3, 0.6)),
    "Gelu": elementwise("Gelu", 20, approximate=("none", "tanh")),
    "Swish": elementwise("Swish", 24, alpha=(0.5, 1.0, 1.702)),
    "Dropout": lambda r: Case("Dropout", (shape_of(r),), some(r, seed=3)),
    **{
        name: reduction(name)
        for name in ("ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")
    },
    **{name: reduction(name) for name in ("ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd")},
    "CumSum": cum_sum,
    "DynamicQuantizeLinear": dynamic_quantize,
    "Scan": scan,
    "TopK": top_k,
    "Trilu": trilu,
    **{name: arg_extremum(name) for name in ("ArgMax", "ArgMin")},
    **{name: along_axis(name) for name in ("Softmax", "LogSoftmax")},
    "LpNormalization": along_axis("LpNormalization", p=(1, 2)),
    "Conv": conv,
    "MaxUnpool": max_unpool,
    "ConvTranspose": conv_transpose,
    **{name: pool(name) for name in ("MaxPool", "AveragePool")},
    **{name: global_pool(name) for name in ("GlobalMaxPool", "GlobalAveragePool")},
    "Resize": resize,
    "Upsample": upsample,
    **{name: blocks(name) for name in ("DepthToSpace", "SpaceToDepth")},
    "Clip": clip,
    "Gemm": gemm,
    "MatMul": matmul,
    "Einsum": einsum,
    "Attention": attention,
    "Slice": slice_,
    "Split": split,
    "Gather": gather,
    "GatherND": gather_nd,
    "GatherElements": gather_elements,
    "ScatterND": scatter_nd,
    **{name: scatter_elements(name) for name in ("ScatterElements", "Scatter")},
    "Compress": compress,
    "LpPool": lp_pool,
    "LRN": lrn,
    "Concat": concat,
    "Pad": pad,
    "Expand": expand,
    "Tile": tile,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm("LayerNormalization"),
    "RMSNormalization": layer_norm("RMSNormalization"),
    **{name: group_norm(name) for name in ("InstanceNormalization", "GroupNormalization")},
    "MeanVarianceNormalization": mean_variance,
    "PRelu": prelu,
    "Pow": power,
    "Cast": cast,
    "CastLike": cast_like,
    "If": branch,
    **{name: comparison(name) for name in ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{name: comparison(name) for name in ("Not", "Or", "Where")},
    **{name: quantized(name) for name in ("DequantizeLinear", "QuantizeLinear")},
    "LSTM": recurrent("LSTM", 4),
    "GRU": recurrent("GRU", 3),
    "RNN": recurrent("RNN", 1),
}
