# SPDX-License-Identifier: Apache-2.0
"""Attention between int8 tensors as exporters write it, for tests of the operator that takes its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyc.ir.graph import Array, Graph, Quant, Value
from tinyc.ops import node_of
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.ops.softmax import Softmax
from tinyc.ops.transpose import Transpose

QKV, SCORES, LOGITS, SHARES, OUT = (0.0313, 3), (0.271, -9), (0.0917, -9), (1 / 256, -128), (0.0173, 5)


@dataclass(frozen=True)
class Heads:
    """tokens queries, as many keys; the queries, keys and values of all heads in one tensor. factor: a node of its own
    scales the scores."""

    tokens: int
    heads: int
    depth: int
    factor: bool = True
    keys_turned: bool = True
    scores: tuple[float, int] = SCORES

    @property
    def width(self) -> int:
        return self.heads * self.depth


def attention_graph(a: Heads) -> Graph:
    """x [1, tokens, 3 * width] -> [1, tokens, width]."""
    square = (1, a.heads, a.tokens, a.tokens)
    apart = (1, a.heads, a.tokens, a.depth)
    values = {"x": _value("x", (1, a.tokens, 3 * a.width), QKV)}
    nodes, consts = [], {}

    def add(name: str, attrs: object, inputs: list[str], shape: tuple[int, ...], quant: tuple[float, int]) -> str:
        values[name] = _value(name, shape, quant)
        nodes.append(node_of(attrs, inputs, (name,)))
        return name

    def part(name: str, number: int, perm: tuple[int, ...]) -> str:
        cut = whole((1, a.tokens, 3 * a.width), 2, number * a.width, a.width)
        first = add(f"{name}_cut", cut, ["x"], cut.size, QKV)
        split = (1, a.tokens, a.heads, a.depth)
        second = add(f"{name}_split", Reshape(split), [first], split, QKV)
        return add(name, Transpose(perm), [second], tuple(split[k] for k in perm), QKV)

    q = part("q", 0, (0, 2, 1, 3))
    k = part("k", 1, (0, 2, 3, 1) if a.keys_turned else (0, 2, 1, 3))
    v = part("v", 2, (0, 2, 1, 3))
    last = add("scores", BatchMatmul(adj_y=not a.keys_turned), [q, k], square, a.scores)
    if a.factor:
        consts["half"] = np.array([100], np.int8)
        values["half"] = _value("half", (1,), (1 / 400, 0))
        last = add("logits", Mul(), [last, "half"], square, LOGITS)
    shares = add("shares", Softmax(), [last], square, SHARES)
    context = add("context", BatchMatmul(), [shares, v], apart, OUT)
    turned = add("turned", Transpose((0, 2, 1, 3)), [context], (1, a.tokens, a.heads, a.depth), OUT)
    y = add("y", Reshape((1, a.tokens, a.width)), [turned], (1, a.tokens, a.width), OUT)
    return Graph("attention", ("x",), (y,), tuple(nodes), values, consts)


def _value(name: str, shape: tuple[int, ...], quant: tuple[float, int]) -> Value:
    return Value(name, shape, "s8", Quant((quant[0],), (quant[1],)))


def edges(a: Heads, seed: int = 1) -> list[dict[str, Array]]:
    """Random numbers, numbers that saturate the scores, and rows that are all equal."""
    shape = (1, a.tokens, 3 * a.width)
    rng = np.random.default_rng(seed)
    far = np.where(rng.integers(0, 2, shape) > 0, 127, -128)
    return [{"x": x.astype(np.int8)} for x in (rng.integers(-128, 128, shape), far, np.full(shape, 77))]
