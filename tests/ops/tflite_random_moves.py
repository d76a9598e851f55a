# SPDX-License-Identifier: Apache-2.0
"""Random layers that move, choose and convert elements, for `tflite_random`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from tests.ops.tflite_builder import Operator, Tensor
from tests.ops.tflite_layers import (
    REALS,
    S8_F32,
    Layer,
    act,
    constant,
    image,
    ints,
    numbers,
    pair,
    pick,
    same,
    shape_of,
)


def pad(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r), pick(r, *REALS))
        rank = len(x.shape)
        pads = [ints(r, 0, 2, 2) for _ in range(rank)]
        if code == "MIRROR_PAD":
            mode = pick(r, 0, 1)
            pads = [[min(p, n - 1 + mode) for p in both] for both, n in zip(pads, x.shape, strict=True)]
        y = same(x, [n + sum(p) for n, p in zip(x.shape, pads, strict=True)])
        tensors: tuple[Tensor, ...] = (x, numbers("pads", pads), y)
        if code == "MIRROR_PAD":
            return Layer(Operator(code, ("x", "pads"), ("y",), "MirrorPadOptions", {"Mode": mode}), tensors)
        if code == "PAD":
            return Layer(Operator(code, ("x", "pads"), ("y",), "PadOptions"), tensors)
        fill = constant(r, replace(x, name="fill", shape=(1,)))
        return Layer(Operator(code, ("x", "pads", "fill"), ("y",), "PadV2Options"), (*tensors, fill))

    return draw


def concat(r: Generator) -> Layer:
    x = act(r, "x0", shape_of(r), pick(r, *REALS))
    axis = int(r.integers(0, len(x.shape)))
    sizes = ints(r, 1, 4, pick(r, 1, 2, 3))
    parts = [
        same(x, [n if k != axis else size for k, n in enumerate(x.shape)], f"x{j}") for j, size in enumerate(sizes)
    ]
    y = same(x, [n if k != axis else sum(sizes) for k, n in enumerate(x.shape)])
    if len(parts) > 1 and r.random() < 0.2:
        parts[1] = constant(r, parts[1])
    fields = {"Axis": axis - len(x.shape) if r.random() < 0.3 else axis}
    names = tuple(p.name for p in parts)
    return Layer(Operator("CONCATENATION", names, ("y",), "ConcatenationOptions", fields), (*parts, y))


def reshape(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r), pick(r, *REALS))
        if code == "RESHAPE":
            shape = pick(r, (x_size(x),), (1, x_size(x)), x.shape[::-1])
            return Layer(Operator(code, ("x", "s"), ("y",), "ReshapeOptions"), (x, numbers("s", shape), same(x, shape)))
        if code == "EXPAND_DIMS":
            axis = int(r.integers(0, len(x.shape) + 1))
            shape = (*x.shape[:axis], 1, *x.shape[axis:])
            return Layer(
                Operator(code, ("x", "s"), ("y",), "ExpandDimsOptions"), (x, numbers("s", [axis]), same(x, shape))
            )
        x = replace(x, shape=(1, *x.shape[1:]))
        fields = {"SqueezeDims": [0]}
        return Layer(Operator(code, ("x",), ("y",), "SqueezeOptions", fields), (x, same(x, x.shape[1:])))

    return draw


def x_size(x: Tensor) -> int:
    return math.prod(x.shape)


def transpose(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, *REALS))
    perm = [int(k) for k in r.permutation(len(x.shape))]
    y = same(x, [x.shape[k] for k in perm])
    return Layer(Operator("TRANSPOSE", ("x", "perm"), ("y",), "TransposeOptions"), (x, numbers("perm", perm), y))


def slice_(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, *REALS))
    begin = [int(r.integers(0, n)) for n in x.shape]
    size = [int(r.integers(1, n - b + 1)) for n, b in zip(x.shape, begin, strict=True)]
    asked = [-1 if b + s == n and r.random() < 0.5 else s for n, b, s in zip(x.shape, begin, size, strict=True)]
    tensors = (x, numbers("begin", begin), numbers("size", asked), same(x, size))
    return Layer(Operator("SLICE", ("x", "begin", "size"), ("y",), "SliceOptions"), tensors)


def strided_slice(r: Generator) -> Layer:
    x = act(r, "x", tuple(n + 1 for n in shape_of(r)), pick(r, *REALS))
    rank = len(x.shape)
    masks = {"BeginMask": int(r.integers(0, 1 << rank)), "EndMask": int(r.integers(0, 1 << rank))}
    masks["ShrinkAxisMask"] = int(r.integers(0, 1 << rank)) if r.random() < 0.3 else 0
    begin = [int(r.integers(-n, n)) for n in x.shape]
    step = [pick(r, 1, 1, 2, -1, 3) for _ in x.shape]
    end = [int(b + s * r.integers(1, 4)) for b, s in zip(begin, step, strict=True)]
    shape = []
    for k, n in enumerate(x.shape):
        if masks["ShrinkAxisMask"] >> k & 1:
            step[k] = 1
            continue
        first = None if masks["BeginMask"] >> k & 1 else begin[k]
        last = None if masks["EndMask"] >> k & 1 else end[k]
        shape.append(len(range(*slice(first, last, step[k]).indices(n))))
    if min(shape, default=1) < 1:
        return strided_slice(r)
    tensors = (x, numbers("begin", begin), numbers("end", end), numbers("step", step), same(x, shape))
    return Layer(
        Operator("STRIDED_SLICE", ("x", "begin", "end", "step"), ("y",), "StridedSliceOptions", masks), tensors
    )


def split(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r, 2, 4), pick(r, *REALS))
        axis = int(r.integers(0, len(x.shape)))
        sizes = [pick(r, 1, 2)] * pick(r, 1, 2, 3) if code == "SPLIT" else ints(r, 1, 3, pick(r, 1, 2, 3))
        if code == "UNPACK":
            sizes = [1] * len(sizes)
        whole = [n if k != axis else sum(sizes) for k, n in enumerate(x.shape)]
        x = replace(x, shape=tuple(whole))
        named = axis - len(whole) if r.random() < 0.3 else axis
        parts = [same(x, [n if k != axis else m for k, n in enumerate(whole)], f"y{j}") for j, m in enumerate(sizes)]
        names = tuple(p.name for p in parts)
        if code == "UNPACK":
            parts = [replace(p, shape=tuple(n for k, n in enumerate(whole) if k != axis)) for p in parts]
            fields = {"Num": len(parts), "Axis": named}
            return Layer(Operator(code, ("x",), names, "UnpackOptions", fields), (x, *parts))
        if code == "SPLIT":
            operator = Operator(code, ("axis", "x"), names, "SplitOptions", {"NumSplits": len(parts)})
            return Layer(operator, (numbers("axis", [named]), x, *parts))
        asked = numbers("sizes", [-1 if j == 0 and r.random() < 0.3 else m for j, m in enumerate(sizes)])
        operator = Operator(code, ("x", "sizes", "axis"), names, "SplitVOptions", {"NumSplits": len(parts)})
        return Layer(operator, (x, asked, numbers("axis", [named]), *parts))

    return draw


def pack(r: Generator) -> Layer:
    x = act(r, "x0", shape_of(r, 1, 3), pick(r, *REALS))
    count, axis = pick(r, 1, 2, 3), int(r.integers(0, len(x.shape) + 1))
    parts = [same(x, x.shape, f"x{j}") for j in range(count)]
    y = same(x, (*x.shape[:axis], count, *x.shape[axis:]))
    fields = {"ValuesCount": count, "Axis": axis - len(y.shape) if r.random() < 0.3 else axis}
    return Layer(Operator("PACK", tuple(p.name for p in parts), ("y",), "PackOptions", fields), (*parts, y))


def gather(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, *S8_F32))
    axis = int(r.integers(0, len(x.shape)))
    indices = r.integers(0, x.shape[axis], tuple(ints(r, 1, 3, pick(r, 1, 1, 2))))
    at = numbers("at", indices) if r.random() < 0.7 or x.shape[axis] < 2 else Tensor("at", indices.shape, "s32")
    y = same(x, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    return Layer(Operator("GATHER", ("x", "at"), ("y",), "GatherOptions", {"Axis": axis}), (x, at, y))


def tile(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, *REALS))
    times = ints(r, 1, 3, len(x.shape))
    y = same(x, [n * k for n, k in zip(x.shape, times, strict=True)])
    return Layer(Operator("TILE", ("x", "times"), ("y",), "TileOptions"), (x, numbers("times", times), y))


def broadcast_to(r: Generator) -> Layer:
    shape = shape_of(r)
    x = act(r, "x", [1 if r.random() < 0.4 else n for n in shape], pick(r, *REALS))
    tensors = (x, numbers("shape", shape), same(x, shape))
    return Layer(Operator("BROADCAST_TO", ("x", "shape"), ("y",), "BroadcastToOptions", version=2), tensors)


def reverse(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, *REALS))
    axes = numbers("axes", [int(r.integers(0, len(x.shape)))])
    return Layer(Operator("REVERSE_V2", ("x", "axes"), ("y",), "ReverseV2Options"), (x, axes, same(x, x.shape)))


def resize(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", image(r), pick(r, *REALS))
        size = [int(n) for n in r.choice((1, 2, 3, 4, 5, 6, 7, 10, 13, 16), 2)]
        how = pick(r, {}, {"AlignCorners": True}, {"HalfPixelCenters": True})
        options = {"RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(code, "ResizeNearestNeighborOptions")
        tensors = (x, numbers("size", size), same(x, (1, *size, x.shape[3])))
        return Layer(Operator(code, ("x", "size"), ("y",), options, how), tensors)

    return draw


def blocks(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        b, (h, w), c = pick(r, 1, 2, 3), ints(r, 1, 3, 2), pick(r, 1, 2, 3)
        deep, wide = (1, h, w, c * b * b), (1, h * b, w * b, c)
        dtype = pick(r, *S8_F32)
        x = act(r, "x", deep if code == "DEPTH_TO_SPACE" else wide, dtype)
        y = same(x, wide if code == "DEPTH_TO_SPACE" else deep)
        options = {"DEPTH_TO_SPACE": "DepthToSpaceOptions", "SPACE_TO_DEPTH": "SpaceToDepthOptions"}[code]
        return Layer(Operator(code, ("x",), ("y",), options, {"BlockSize": b}), (x, y))

    return draw


def batches(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        block, (h, w), c = ints(r, 1, 3, 2), ints(r, 1, 4, 2), pick(r, 1, 3)
        dtype = pick(r, *S8_F32)
        full = [h * block[0], w * block[1]]
        edges = [[int(r.integers(0, min(n, 3))), 0] for n in full]
        plain = (1, *(n - sum(e) for n, e in zip(full, edges, strict=True)), c)
        deep = (block[0] * block[1], h, w, c)
        x = act(r, "x", plain if code == "SPACE_TO_BATCH_ND" else deep, dtype)
        y = same(x, deep if code == "SPACE_TO_BATCH_ND" else plain)
        options = {"SPACE_TO_BATCH_ND": "SpaceToBatchNDOptions", "BATCH_TO_SPACE_ND": "BatchToSpaceNDOptions"}[code]
        tensors = (x, numbers("block", block), numbers("edges", edges), y)
        return Layer(Operator(code, ("x", "block", "edges"), ("y",), options), tensors)

    return draw


def quantize(r: Generator) -> Layer:
    shape, source = shape_of(r), pick(r, "s8", "s16", "f32")
    to = pick(r, "s8", "s16")
    x = act(r, "x", shape, source)
    about = (
        (x.scale[0] if x.scale else 0.03) * {"s8s16": 1 / 256, "s16s8": 256}.get(source + to, 1) * 2 ** r.uniform(-6, 6)
    )
    y = act(r, "y", shape, to, about)
    return Layer(Operator("QUANTIZE", ("x",), ("y",), "QuantizeOptions"), (x, y))


def dequantize(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, "s8", "s16"))
    return Layer(Operator("DEQUANTIZE", ("x",), ("y",), "DequantizeOptions"), (x, Tensor("y", x.shape, "f32")))


def comparison(code: str) -> Callable[[Generator], Layer]:
    """A comparison, and what it chooses of two others."""

    def draw(r: Generator) -> Layer:
        a, b, shape = pair(r, pick(r, "s8", "s8", "f32"))
        a, b = (replace(t, scale=tuple(min(s, 0.9) for s in t.scale)) for t in (a, b))  # TFLM takes none of 1 or more
        c = act(r, "c", shape, a.dtype)
        tensors = (a, b, c, same(c, shape, "d"), Tensor("is", shape, "bool"), same(c, shape))
        options = "".join(word.capitalize() for word in code.split("_")) + "Options"
        choose = Operator("SELECT_V2", ("is", "c", "d"), ("y",), "SelectV2Options")
        return Layer(Operator(code, (a.name, b.name), ("is",), options), tensors, after=(choose,))

    return draw


def choice(code: str) -> Callable[[Generator], Layer]:
    def draw(r: Generator) -> Layer:
        x = act(r, "x", shape_of(r), pick(r, *S8_F32))
        z = same(x, x.shape, "z")
        asked = Tensor("asked", x.shape, "bool")
        first = Operator("GREATER", ("x", "z"), ("asked",), "GreaterOptions")
        if code in ("SELECT", "SELECT_V2"):
            options = {"SELECT": "SelectOptions", "SELECT_V2": "SelectV2Options"}[code]
            return Layer(
                Operator(code, ("asked", "x", "z"), ("y",), options), (x, z, asked, same(x, x.shape)), before=(first,)
            )
        also, both = Tensor("also", x.shape, "bool"), Tensor("both", x.shape, "bool")
        k = act(r, "k", x.shape, x.dtype)
        second = Operator("GREATER", ("x", "k"), ("also",), "GreaterOptions")
        options = {"LOGICAL_AND": "LogicalAndOptions", "LOGICAL_OR": "LogicalOrOptions"}[code]
        last = Operator("SELECT_V2", ("both", "x", "z"), ("y",), "SelectV2Options")
        tensors = (x, z, k, asked, also, both, same(x, x.shape))
        return Layer(
            Operator(code, ("asked", "also"), ("both",), options), tensors, before=(first, second), after=(last,)
        )

    return draw


def add_n(r: Generator) -> Layer:
    shape, count = shape_of(r), pick(r, 2, 3)
    parts = [Tensor(f"x{k}", shape, "f32") for k in range(count)]
    operator = Operator("ADD_N", tuple(p.name for p in parts), ("y",), "AddNOptions")
    return Layer(operator, (*parts, Tensor("y", shape, "f32")))


def cast(r: Generator) -> Layer:
    shape = shape_of(r)
    operator = Operator("CAST", ("x",), ("y",), "CastOptions", {"InDataType": 0, "OutDataType": 0})
    return Layer(operator, (Tensor("x", shape, "f32"), Tensor("y", shape, "f32")))


def shape_as_reshape(r: Generator) -> Layer:
    x = act(r, "x", shape_of(r), pick(r, *REALS))
    asked = Tensor("asked", (len(x.shape),), "s32")
    last = Operator("RESHAPE", ("x", "asked"), ("y",), "ReshapeOptions")
    operator = Operator("SHAPE", ("x",), ("asked",), "ShapeOptions", {"OutType": 2})
    return Layer(operator, (x, asked, same(x, x.shape)), after=(last,))


def power(r: Generator) -> Layer:
    shape = shape_of(r)
    exponent = np.array(pick(r, 2.0, 0.5, -1.0, 3.0), np.float32)
    tensors = (Tensor("x", shape, "f32"), Tensor("e", (), "f32", data=exponent), Tensor("y", shape, "f32"))
    return Layer(Operator("POW", ("x", "e"), ("y",), "PowOptions"), tensors, low=0.1)


def embedding(r: Generator) -> Layer:
    rows, wide = ints(r, 2, 5, 2)
    table = Tensor("t", (rows, wide), "f32", data=r.standard_normal((rows, wide)).astype(np.float32))
    tensors = (Tensor("at", (3,), "s32"), table, Tensor("y", (3, wide), "f32"))
    return Layer(Operator("EMBEDDING_LOOKUP", ("at", "t"), ("y",)), tensors)
