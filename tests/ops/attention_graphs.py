# SPDX-License-Identifier: Apache-2.0
"""Attention between int8 tensors as exporters write it, for tests of the operator that takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinyc.ir.graph import Array, Graph, Quant, Value
from tinyc.ops import node_of
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.choose import Choose
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


@dataclass(frozen=True)
class Crossed:
    """Queries of one tensor and keys and values of another one, of other sizes."""

    queries: int
    keys: int
    heads: int
    depth: int
    width: int

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of the inputs."""
        sides = {"q": (self.queries, self.depth), "k": (self.keys, self.depth), "v": (self.keys, self.width)}
        return {name: (1, self.heads, rows, count) for name, (rows, count) in sides.items()}


def crossed_graph(a: Crossed) -> Graph:
    """q, k, v -> [1, heads, queries, width]."""
    square = (1, a.heads, a.queries, a.keys)
    values = {name: _value(name, shape, QKV) for name, shape in a.shapes.items()}
    values |= {"scores": _value("scores", square, SCORES), "shares": _value("shares", square, SHARES)}
    values["y"] = _value("y", (*square[:3], a.width), OUT)
    nodes = (
        node_of(BatchMatmul(adj_y=True), ["q", "k"], ("scores",)),
        node_of(Softmax(), ["scores"], ("shares",)),
        node_of(BatchMatmul(), ["shares", "v"], ("y",)),
    )
    return Graph("crossed", ("q", "k", "v"), ("y",), nodes, values, {})


def masked(graph: Graph, shown: Array, hidden: int, shown_first: bool = True) -> Graph:
    """The graph with a number in place of the softmax's inputs that are not shown (bool, of a shape that broadcasts);
    shown_first: by a condition for them, else for the others."""
    (soft,) = (node for node in graph.nodes if isinstance(node.attrs, Softmax))
    before = graph.values[soft.inputs[0]]
    consts = {"condition": shown if shown_first else ~shown, "hidden": np.array([hidden], np.int8)}
    values = {
        "condition": Value("condition", shown.shape, "bool"),
        "hidden": replace(before, name="hidden", shape=(1,)),
        "seen": replace(before, name="seen"),
    }
    sides = (before.name, "hidden") if shown_first else ("hidden", before.name)
    at = graph.nodes.index(soft)
    nodes = (
        *graph.nodes[:at],
        node_of(Choose(), ["condition", *sides], ("seen",)),
        replace(soft, inputs=("seen",)),
        *graph.nodes[at + 1 :],
    )
    return replace(graph, nodes=nodes, values={**graph.values, **values}, consts={**graph.consts, **consts})
