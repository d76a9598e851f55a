# SPDX-License-Identifier: Apache-2.0
"""ONNX models made by a grammar: every operator that tinyc imports, with random inputs and attributes, a few in a row.

The grammar is ONNX's own description of its operators: which attributes and inputs there are, in which opset, and of
which type. What goes into them is drawn by name, so that most models make sense and some nearly do. Where both ONNX
Runtime and tinyc take a model, they have to compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper

from tests.fuzz.case import WrongError
from tests.fuzz.damage import mutate
from tests.fuzz.files import compiled, imported
from tests.load.onnx_models import build, run_onnxruntime
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array
from tinyc.load.onnx import unsupported_onnx
from tinyc.load.onnx.every import IMPORTERS
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float

OPSETS = (9, 11, 13, 15, 17, 18, 20, 21, 22)
MOST_NODES = 4
MOST_ELEMENTS = 4000
TOLERANCE = 2e-3  # of the largest number: sums of a few hundred products in another order
_LATER = (
    "CumSum",
    "DynamicQuantizeLinear",
    "ReduceProd",
    "Scan",
    "TopK",
    "Trilu",
)  # left out: with them the seeds that tests keep draw other models
OPERATORS = tuple(sorted(set(IMPORTERS) - {"If", "And", "Or", "Not", "CastLike", "Dropout", *_LATER}))
OF_CONSTANTS = 0.15  # of the models: tinyc computes all but the last node when it loads them
LARGEST = 1e4  # beyond it float32 has lost what it came from; what NaN becomes is nobody's
CHANGED = 0.15  # of the nodes get a field that does not belong there

INTEGERS: Mapping[str, Sequence[int]] = {
    "group": (1, 1, 1, 2, 3, 0),
    "axis": (0, 1, 1, 2, 3, -1, -1, -2, 4),
    "blocksize": (1, 2, 2, 3),
    "num_groups": (1, 2, 3),
    "p": (1, 2, 2, 3),
    "to": (1, 1, 6, 7, 9, 10, 11),
    "block_size": (0, 0, 2),
    "output_dtype": (0, 2, 3),
}
WORDS: Mapping[str, Sequence[str]] = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "mode": ("constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "DCR", "CRD"),
    "coordinate_transformation_mode": (
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "half_pixel_symmetric",
        "tf_crop_and_resize",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "direction": ("forward", "reverse", "bidirectional"),
    "approximate": ("none", "tanh"),
    "equation": ("abcd->abdc", "ab,bc->ac", "abc,dc->abd", "ij->", "abcd,abed->abce"),
}


def _inferable(node: NodeProto) -> bool:
    """Whether ONNX's inference of shapes comes back: at some attributes it ends the process, or never ends."""
    parts = [a.i for a in node.attribute if a.name == "num_outputs"]
    equations = [a.s for a in node.attribute if a.name == "equation"]
    whole = node.op_type != "Split" or parts in ([], [len(node.output)])
    return whole and (node.op_type != "Einsum" or all(e in map(str.encode, WORDS["equation"]) for e in equations))


class Chain:
    """Nodes one after the other, and the shape of what the last one gives (None: not known)."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng([seed, 0])
        self.opset = int(rng.choice(OPSETS))
        rank = int(rng.choice([1, 2, 3, 4, 4, 4, 5]))
        self.input = tuple(int(n) for n in (1, *rng.integers(1, 9, rank - 1)))
        self.shape: tuple[int, ...] | None = self.input
        self.x = "x"
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.of_constants = self.rng.random() < OF_CONSTANTS
        if self.of_constants:
            self.x, self.input = self.reals(*self.input), (1,)

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.rng.integers(len(values))]

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def reals(self, *shape: int) -> str:
        scale = self.pick((0.1, 1.0, 1.0, 3.0))
        return self.constant((scale * self.rng.standard_normal(shape)).astype(np.float32))

    def numbers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def extend(self, index: int, rng: np.random.Generator) -> None:
        """One node more, from random numbers of its own."""
        if self.shape is None:
            return
        self.rng = rng
        name = self.pick(OPERATORS)
        try:
            schema = onnx.defs.get_schema(name, self.opset)
        except onnx.defs.SchemaError:  # not in this opset yet, or no more
            return
        inputs = INPUTS.get(name, _like_the_first)(self, schema)
        attributes = {
            key: value for key, kind in schema.attributes.items() if (value := self._attribute(key, kind)) is not None
        }
        outputs = [f"t{index}"] + [f"t{index}_{n}" for n in range(1, self.pick((1, 1, 2, 3)) if name == "Split" else 1)]
        node = helper.make_node(name, inputs, outputs, name=f"{name}_{index}", **attributes)
        if self.rng.random() < CHANGED:
            mutate(node, self.rng)
        self.nodes.append(node)
        self.x = outputs[0]
        self.shape = self._inferred(self.x) if _inferable(node) else None

    def _attribute(self, key: str, schema: Any) -> Any:
        """A value, or None to leave it out."""
        if not schema.required and self.rng.random() < 0.5:
            return None
        by_kind: dict[str, Callable[[], Any]] = {
            "INT": lambda: self.pick(INTEGERS.get(key, (0, 1))),
            "FLOAT": lambda: float(self.pick((0.0, 0.01, 0.2, 1.0, 1.0, 2.5, -0.5, 1e-5))),
            "STRING": lambda: self.pick(WORDS.get(key, ("none",))),
            "INTS": lambda: self._list(key, len(self.shape or ())),
        }
        maker = by_kind.get(schema.type.name)
        return maker() if maker else None

    def _list(self, key: str, rank: int) -> list[int]:
        spatial = max(rank - 2, 1)
        if key == "perm":
            return [int(n) for n in self.rng.permutation(rank or 1)]
        if key == "axes":
            return [int(n) for n in self.rng.permutation(rank or 1)[: self.rng.integers(1, (rank or 1) + 1)]]
        if key in ("kernel_shape", "strides", "dilations"):
            most = 4 if key == "kernel_shape" else 3
            return [int(n) for n in self.rng.integers(1, most, spatial)]
        if key == "pads":
            return [int(n) for n in self.rng.integers(0, 3, 2 * spatial)]
        if key == "output_padding":
            return [int(n) for n in self.rng.integers(0, 2, spatial)]
        return [int(n) for n in self.rng.integers(1, 9, spatial)]

    def _inferred(self, name: str) -> tuple[int, ...] | None:
        try:
            model = onnx.shape_inference.infer_shapes(self.model(), data_prop=True)
        except Exception:  # of its C++ core too: the model makes no sense
            return None
        for info in model.graph.value_info:
            dims = info.type.tensor_type.shape.dim
            if (
                info.name == name
                and info.type.tensor_type.elem_type == 1
                and all(d.HasField("dim_value") for d in dims)
            ):
                shape = tuple(d.dim_value for d in dims)
                return shape if min(shape, default=1) > 0 and int(np.prod(shape)) <= MOST_ELEMENTS else None
        return None

    def model(self) -> onnx.ModelProto:
        """With one node more at the end, so that shapes of all other values are inferred."""
        kind, inputs = ("Add", [self.x, "x"]) if self.of_constants else ("Identity", [self.x])
        end = helper.make_node(kind, inputs, ["y"], name="end")
        return build([*self.nodes, end], {"x": self.input}, ["y"], self.constants, opset=self.opset)


Inputs = Callable[[Chain, Any], list[str]]


def _like_the_first(c: Chain, schema: Any) -> list[str]:
    """The tensor; for two, a constant that broadcasts, or the tensor again."""
    shape = c.shape or ()
    names = [c.x]
    if len(schema.inputs) > 1 or schema.max_input > 8:
        other = [n if c.rng.random() < 0.7 else 1 for n in shape][c.pick((0, 0, 1)) :]
        names.append(c.x if c.rng.random() < 0.2 else c.reals(*other))
    if c.rng.random() < 0.3 and len(names) == 2:
        names.reverse()
    return names


def _channels(count: int) -> Inputs:
    """Vectors of one number per channel."""

    def inputs_of(c: Chain, schema: Any) -> list[str]:
        channels = (c.shape or (1, 1))[1] if len(c.shape or ()) > 1 else 1
        names = [c.reals(channels) for _ in range(count)]
        if count == 4:
            c.constants[names[3]] = np.abs(c.constants[names[3]]) + np.float32(0.1)
        return [c.x, *names]

    return inputs_of


def _last(c: Chain, schema: Any) -> list[str]:
    """A vector as long as the last axis."""
    names = [c.x, c.reals((c.shape or (1,))[-1])]
    return [*names, c.reals((c.shape or (1,))[-1])] if len(schema.inputs) > 2 and c.rng.random() < 0.6 else names


def _conv(c: Chain, schema: Any) -> list[str]:
    shape = c.shape or ()
    channels, spatial = (shape[1] if len(shape) > 1 else 1), max(len(shape) - 2, 1)
    kernel = c.rng.integers(1, 4, spatial)
    out = c.pick((1, 2, 3, channels))
    kind = c.rng.random()
    if schema.name == "ConvTranspose":
        first, second = channels, out
    else:
        first, second = (channels * c.pick((1, 2)), 1) if kind < 0.3 else (out, channels)
    names = [c.x, c.reals(first, second, *kernel)]
    return [*names, c.reals(out if schema.name == "ConvTranspose" else first)] if c.rng.random() < 0.5 else names


def _gemm(c: Chain, schema: Any) -> list[str]:
    shape, out = c.shape or (1,), c.pick((1, 2, 5))
    w = (shape[-1], out) if c.rng.random() < 0.5 else (out, shape[-1])
    return [c.x, c.reals(*w), *([c.reals(out)] if c.rng.random() < 0.6 else [])]


def _matmul(c: Chain, schema: Any) -> list[str]:
    shape = c.shape or (1,)
    batch = shape[:-2] if c.rng.random() < 0.3 else ()
    return [c.x, c.reals(*batch, shape[-1], c.pick((1, 2, 5)))]


def _recurrent(c: Chain, schema: Any) -> list[str]:
    shape = c.shape or (1,)
    gates, units = {"LSTM": 4, "GRU": 3, "RNN": 1}[schema.name], c.pick((1, 2, 3))
    names = [c.x, c.reals(1, gates * units, shape[-1]), c.reals(1, gates * units, units)]
    return [*names, c.reals(1, 2 * gates * units)] if c.rng.random() < 0.7 else names


def _axes(c: Chain, schema: Any) -> list[str]:
    if len(schema.inputs) < 2 or c.rng.random() < 0.2:
        return [c.x]
    rank = len(c.shape or ())
    return [c.x, c.numbers(*(int(n) for n in c.rng.permutation(rank + 1)[: c.pick((1, 1, 2, 3))] - c.pick((0, 0, 1))))]


def _reshape(c: Chain, schema: Any) -> list[str]:
    shape = list(c.shape or ())
    c.rng.shuffle(shape)
    if c.rng.random() < 0.5 and shape:
        shape[c.rng.integers(len(shape))] = c.pick((-1, 0, -1))
    return [c.x, c.numbers(*shape)]


def _expand(c: Chain, schema: Any) -> list[str]:
    return [c.x, c.numbers(*(n if n > 1 or c.rng.random() < 0.5 else c.pick((1, 2, 3)) for n in c.shape or ()))]


def _tile(c: Chain, schema: Any) -> list[str]:
    return [c.x, c.numbers(*(c.pick((1, 1, 2, 3)) for _ in c.shape or ()))]


def _pad(c: Chain, schema: Any) -> list[str]:
    rank = len(c.shape or ())
    if len(schema.inputs) < 2:
        return [c.x]
    pads = [c.pick((0, 0, 0, 1, 2, -1)) for _ in range(2 * rank)]
    return [c.x, c.numbers(*pads), *([c.reals()] if c.rng.random() < 0.4 else [])]


def _slice(c: Chain, schema: Any) -> list[str]:
    shape = c.shape or (1,)
    if len(schema.inputs) < 2:
        return [c.x]
    axis = int(c.rng.integers(len(shape)))
    ends = [c.pick((0, 1, -1, -2, shape[axis])), c.pick((shape[axis], -1, 1, 1 << 31, -(1 << 31)))]
    return [c.x, c.numbers(ends[0]), c.numbers(ends[1]), c.numbers(axis), c.numbers(c.pick((1, 1, 2, -1, 3)))]


def _split(c: Chain, schema: Any) -> list[str]:
    return [c.x]


def _gather(c: Chain, schema: Any) -> list[str]:
    return [c.x, c.numbers(*(c.pick((0, 0, 1, -1, 2)) for _ in range(c.pick((1, 2)))))]


def _resize(c: Chain, schema: Any) -> list[str]:
    shape = c.shape or ()
    factors = [1.0, 1.0, *(c.pick((1.0, 2.0, 2.0, 0.5, 1.5, 0.7)) for _ in shape[2:])][: len(shape)]
    scales = c.constant(np.array(factors, np.float32))
    if len(schema.inputs) < 3:
        return [c.x, scales]
    if c.rng.random() < 0.7:
        return [c.x, "", scales]
    return [c.x, "", "", c.numbers(*shape[:2], *(c.pick((1, 3, 4, 7)) for _ in shape[2:]))]


def _where(c: Chain, schema: Any) -> list[str]:
    mask = c.constant(c.rng.random(c.shape or ()) < 0.5)
    return [mask, c.x, c.reals()]


def _clip(c: Chain, schema: Any) -> list[str]:
    limits = [c.reals(), c.reals()][: c.pick((0, 1, 2, 2))]
    return [c.x, *limits] if len(schema.inputs) > 1 else [c.x]


def _quantize(c: Chain, schema: Any) -> list[str]:
    """Quantized right away, and reals again: the nodes after it see the steps."""
    scale = c.constant(np.float32(c.pick((0.02, 0.1))))
    zero = c.constant(np.array(c.pick((0, 3)), c.pick((np.int8, np.uint8))))
    c.nodes.append(helper.make_node("QuantizeLinear", [c.x, scale, zero], [f"q{len(c.nodes)}"]))
    return [c.nodes[-1].output[0], scale, zero]


INPUTS: Mapping[str, Inputs] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _conv),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), _axes),
    **{name: _axes for name in OPERATORS if name.startswith("Reduce")},
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), _channels(2)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _last),
    "BatchNormalization": _channels(4),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Where": _where,
    "Clip": _clip,
    "DequantizeLinear": _quantize,
}


def count(seed: int) -> int:
    return int(np.random.default_rng([seed, 1]).integers(1, MOST_NODES + 1))


def model_of(seed: int, subset: frozenset[int]) -> onnx.ModelProto:
    chain = Chain(seed)
    for index in range(count(seed)):
        if index in subset:
            chain.extend(index, np.random.default_rng([seed, 2 + index]))
    return chain.model()


def describe(seed: int, subset: frozenset[int]) -> str:
    return onnx.helper.printable_graph(model_of(seed, subset).graph)


def check(seed: int, subset: frozenset[int], folder: Path) -> str:
    """`equal` to ONNX Runtime; `no judge` where that refuses the model, or quantizes; `refused` by tinyc."""
    model = model_of(seed, subset)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    graph = imported(path, unsupported_onnx)
    if graph is None:
        return "refused"
    if any(value.quant for value in graph.values.values()) or list(graph.inputs) != ["x"]:
        return compiled(path, seed)
    x = np.random.default_rng([seed, 99]).standard_normal(graph.values["x"].shape).astype(np.float32)
    try:
        normal = normalize(graph)
    except TinycError as error:
        if "found after stage" in error.message:  # an accident, not an answer
            raise
        return "refused"
    with np.errstate(all="ignore"):
        every = run_float(graph, {"x": x}, keep="all")
        after = run_float(normal, {"x": x})
    ours = {name: every[name] for name in graph.outputs}
    _compare("passes", after, ours)
    try:
        theirs = run_onnxruntime(model, {"x": x})
    except Exception:  # ONNX Runtime's own types, one for each of its reasons
        theirs = None
    if theirs is None or not all(np.abs(array, dtype=np.float64).max(initial=0) < LARGEST for array in every.values()):
        compiled(path, seed)
        return "no judge"
    _compare("onnxruntime", ours, theirs)
    compiled(path, seed)
    return "equal"


def _compare(kind: str, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
    for name, array in theirs.items():
        own, reals = np.asarray(ours[name], np.float64), np.asarray(array, np.float64)
        if own.shape != reals.shape:
            raise WrongError(f"{kind} shape", f"{name}: {list(own.shape)}, not {list(reals.shape)}")
        finite = np.isfinite(reals)
        if np.any(finite != np.isfinite(own)):
            continue  # one overflows where the other is about to
        size = max(1e-3, float(np.abs(reals[finite]).max(initial=0.0)))
        error = np.abs(own - reals)[finite].max(initial=0.0)
        if error > TOLERANCE * size:
            raise WrongError(f"{kind} values", f"{name}: off by {error:.3g} of {size:.3g}")
