# SPDX-License-Identifier: Apache-2.0
"""Gemm and MatMul -> fully_connected; without constant weights, batch_matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose


@imports("Gemm")
def gemm(s: OnnxStep) -> None:
    """alpha * A * B + beta * C with A or B transposed; B is constant, C may be computed."""
    x, b = s.value(0), s.weights(1)
    if len(x.shape) != 2 or b.ndim != 2:
        raise TinycError(f"Gemm of {list(x.shape)} and {list(b.shape)}: both must be matrices", s.where)
    if s.node.flag("transA", False):
        x = s.transpose(x, (1, 0), "a_transposed")
    turned = s.node.flag("transB", False)
    rows = b if turned else b.T
    _check_sums(s, x, rows.shape[1])
    alpha, beta = np.float32(s.node.float_("alpha", 1.0)), np.float32(s.node.float_("beta", 1.0))
    w = s.weight(1, lambda a: a if turned else a.T, 0) if alpha == 1 else s.const(rows * alpha, 1)
    if not s.has(2):
        s.emit([x, w], FullyConnected())
    elif (c := s.constant(2)) is not None and c.shape[:-1] in ((), (1,), (x.shape[0],)) and _is_row(c):
        if beta == 1:
            bias = s.weight(2, lambda a: _row(s, a, x.shape[0], rows.shape[0]), 0)
        else:
            bias = s.const(_row(s, s.weights(2) * beta, x.shape[0], rows.shape[0]), 2)
        s.emit([x, w, bias], FullyConnected())
    else:
        _add_matrix(s, s.insert([x, w], FullyConnected(), "product"), beta)


def _is_row(c: Array) -> bool:
    """Whether every row of C is the same."""
    return c.ndim < 2 or bool((c == c[:1]).all())


def _check_sums(s: OnnxStep, x: Value, in_c: int) -> None:
    """Each row of x[B,I] is a sum of its own, and never several: only TFLite's operator takes other rows than x has."""
    if x.shape[-1] != in_c:
        raise TinycError(f"weights for {in_c} channels do not fit input {list(x.shape)}", s.where)


def _row(s: OnnxStep, c: Array, batch: int, out_c: int) -> Array:
    """The bias [O] that C, broadcast to [batch, O], adds to every row."""
    try:
        full = np.broadcast_to(c, (batch, out_c))
    except ValueError as e:
        raise TinycError(f"C of shape {list(c.shape)} does not fit {out_c} outputs", s.where) from e
    if not (full == full[:1]).all():
        raise TinycError("C differs between the rows of the batch", s.where, "export with batch size 1")
    return np.asarray(full[0])


def _add_matrix(s: OnnxStep, product: Value, beta: np.float32) -> None:
    c = s.value(2)
    if beta != 1:
        c = s.insert([c, s.const(np.asarray(beta), 2)], Mul(), "scaled")
    s.emit([product, c], Add())


@imports("MatMul")
def matmul(s: OnnxStep) -> None:
    """x[..., I] times a constant [I,O], a constant [O,I] times x[I,N], or two computed tensors; of vectors as matrices
    of one row or column."""
    left, right = s.constant(0), s.constant(1)
    shapes = [s.value(k).shape if array is None else array.shape for k, array in enumerate((left, right))]
    if 1 in map(len, shapes) and 0 not in map(len, shapes):
        _of_vectors(s, shapes)
        return
    if (right is not None and _is_matrix(right)) or (left is not None and right is not None):
        s.weights(1)
        w = s.weight(1, lambda a: _matrix(s, a).T, 0)
        x = s.value(0)
        if len(x.shape) == 2:
            _check_sums(s, x, w.shape[1])
        s.emit([x, w], FullyConnected(keep_dims=len(x.shape) != 2))
    elif left is not None and _is_matrix(left) and len(s.value(1).shape) == 2:
        s.weights(0)
        w, x = s.weight(0, lambda a: _matrix(s, a), 0), s.value(1)
        columns = s.transpose(x, (1, 0), "columns")
        s.emit(
            [s.insert([columns, w], FullyConnected(), "rows", s.node.outputs[0])],
            Transpose((1, 0)),
        )
    else:
        s.emit([s.value(0), s.value(1)], BatchMatmul())


def _of_vectors(s: OnnxStep, shapes: Sequence[Shape]) -> None:
    """As matrices: a vector on the left is a row, one on the right a column."""
    names = []
    for index, shape in enumerate(shapes):
        name, array = s.node.inputs[index], s.constant(index)
        if len(shape) == 1:
            wide = (1, *shape) if index == 0 else (*shape, 1)
            if array is None:
                name = s.reshape(s.value(index), wide, f"matrix{index}").name
            else:
                name = s.builder.unique(f"{name}:matrix")
                s.builder.fold(name, array.reshape(wide))
        names.append(name)
    product = s.builder.unique(f"{s.node.outputs[0]}:product")
    matmul(OnnxStep(s.builder, replace(s.node, inputs=tuple(names), outputs=(product,))))
    product_value = s.builder.values[product]
    sizes = [n for k, n in enumerate(product_value.shape[-2:]) if len(shapes[k]) > 1]
    s.emit([product_value], Reshape((*product_value.shape[:-2], *sizes)))


def _is_matrix(w: Array) -> bool:
    return w.ndim >= 2 and all(size == 1 for size in w.shape[:-2])


def _matrix(s: OnnxStep, w: Array) -> Array:
    """w without leading axes of size 1."""
    if not _is_matrix(w):
        raise TinycError(f"the constant has shape {list(w.shape)}; it must be one matrix", s.where)
    return w.reshape(w.shape[-2:])
