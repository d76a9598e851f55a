# SPDX-License-Identifier: Apache-2.0
"""Random networks with what converters and exporters write now and then: a scale of 0, an open batch, an output that no
input reaches, two entries; a state or a gate as an ordinary input, a constant joined to an activation of a QDQ model.

Other runtimes run them all, so here it is a defect to refuse one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from tests.fuzz import builds, tflite_networks
from tests.fuzz.case import WrongError
from tests.fuzz.networks import ENDS, MIDDLE, Piece, WideNetwork, samples
from tests.fuzz.quantized import in_qdq
from tests.fuzz.tflite_networks import TfliteNetwork, compare_runs, drawn_inputs, judged, tflite_network
from tests.load.onnx_models import build, load, op, run_onnxruntime
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.export.tflite_file import Subgraph
from tinyc.ir.graph import Array
from tinyc.load.tflite import load_tflite
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import prepare_int, run_float

SHARE = 0.5  # of the cases have each oddity
ON_A_CORE = 0.2  # of the ONNX cases: seconds
TOLERANCE = 1e-3
Change = Callable[[TfliteNetwork, np.random.Generator], TfliteNetwork]


def zero_scale(net: TfliteNetwork, rng: np.random.Generator) -> TfliteNetwork:
    """A channel without weights and bias, whose scales are 0."""
    layers = [o for o in net.operators if o.code in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")]
    if not layers:
        return net
    layer = layers[rng.integers(len(layers))]
    channel, changed = -1, []
    for tensor in net.tensors:
        if tensor.name not in layer.inputs[1:] or tensor.data is None or len(tensor.scale) < 2:
            changed.append(tensor)
            continue
        channel = int(rng.integers(len(tensor.scale))) if channel < 0 else channel
        data = np.array(tensor.data)
        np.moveaxis(data, tensor.axis, 0)[channel] = 0
        scale = tuple(0.0 if k == channel else s for k, s in enumerate(tensor.scale))
        changed.append(replace(tensor, data=data, scale=scale))
    return replace(net, tensors=tuple(changed))


def open_batch(net: TfliteNetwork, rng: np.random.Generator) -> TfliteNetwork:
    """The first size of every activation is left open, and a placeholder."""
    tensors = (t if t.data is not None or t.variable else replace(t, signature=(-1, *t.shape[1:])) for t in net.tensors)
    return replace(net, tensors=tuple(tensors))


def constant_output(net: TfliteNetwork, rng: np.random.Generator) -> TfliteNetwork:
    """Two constants joined and dequantized, an output beside the network's own."""
    scale, zero = float(np.float32(rng.uniform(0.01, 0.2))), int(rng.integers(-128, 128))
    rows = [int(n) for n in rng.integers(1, 4, 2)]
    parts = [rng.integers(-128, 128, (1, n, 3)).astype(np.int8) for n in rows]
    tensors = [
        *(Tensor(f"part{k}", p.shape, "s8", (scale,), (zero,), data=p) for k, p in enumerate(parts)),
        Tensor("table", (1, sum(rows), 3), "s8", (scale,), (zero,)),
        Tensor("anchors", (1, sum(rows), 3), "f32"),
    ]
    operators = [
        Operator("CONCATENATION", ("part0", "part1"), ("table",), "ConcatenationOptions", {"Axis": 1}, 2),
        Operator("DEQUANTIZE", ("table",), ("anchors",), "DequantizeOptions", version=2),
    ]
    return replace(
        net,
        tensors=(*net.tensors, *tensors),
        operators=(*net.operators, *operators),
        outputs=(*net.outputs, "anchors"),
    )


CHANGES: tuple[Change, ...] = (zero_scale, open_batch, constant_output)
_ENTRIES = len(CHANGES)  # the number of the oddity that is another entry


def tflite_count(seed: int) -> int:
    """Pieces of the network, then oddities."""
    return tflite_networks.count(seed) + len(CHANGES) + 1


def _oddities(seed: int, subset: frozenset[int]) -> list[int]:
    """Those of a case, by their numbers; one at least."""
    rng, first = np.random.default_rng([seed, 700]), tflite_networks.count(seed)
    drawn = rng.random(len(CHANGES) + 1) < SHARE
    drawn[rng.integers(len(drawn))] = True
    return [k for k, is_in in enumerate(drawn) if is_in and first + k in subset]


@cache
def odd_tflite(seed: int, subset: frozenset[int]) -> TfliteNetwork:
    """The network of a seed with its oddities, but for the other entry."""
    net = tflite_network(seed, frozenset(k for k in subset if k < tflite_networks.count(seed)))
    for number in _oddities(seed, subset):
        if number < len(CHANGES):
            net = CHANGES[number](net, np.random.default_rng([seed, 710 + number]))
    return net


def describe_tflite(seed: int, subset: frozenset[int]) -> str:
    words = [*(change.__name__ for change in CHANGES), "two_entries"]
    of_net = " ".join(operator.code for operator in odd_tflite(seed, subset).operators)
    return f"{of_net}\n  {', '.join(words[k] for k in _oddities(seed, subset))}"


def check_tflite(seed: int, subset: frozenset[int], folder: Path) -> str:
    """`equal` to TensorFlow Lite Micro; `no judge`; `refused` like the network without oddities."""
    net, path = odd_tflite(seed, subset), folder / "odd.tflite"
    others: list[Subgraph] = []
    entries: dict[str, int] = {}
    if _ENTRIES in _oddities(seed, subset):
        second = tflite_network(seed + 1)
        inputs = [second.tensors[0].name]
        others, entries = [Subgraph(second.tensors, second.operators, inputs, second.outputs)], {"a": 0, "b": 1}
    inputs = [net.tensors[0].name]
    path.write_bytes(build_model(net.tensors, net.operators, inputs, net.outputs, others, entries))
    try:
        graph = normalize(load_tflite(path))
        drawn = drawn_inputs(graph, seed)
        ours = list(prepare_int(graph, Numerics.TFLM).sequence(drawn))
    except TinycError as error:
        if _is_taken(tflite_network(seed).content, folder):
            raise WrongError("refused", str(error)) from error
        return "refused"
    if others:
        _check_entry(seed, path, folder)
        path.write_bytes(build_model(net.tensors, net.operators, inputs, net.outputs))  # the judge dies of two entries
    theirs = judged(path, graph, drawn)
    if theirs is not None:
        compare_runs("bytes of TFLM", graph, ours, theirs)
    return "no judge" if theirs is None else "equal"


def _is_taken(content: bytes, folder: Path) -> bool:
    path = folder / "plain.tflite"
    path.write_bytes(content)
    try:
        normalize(load_tflite(path))
    except TinycError:
        return False
    return True


def _check_entry(seed: int, path: Path, folder: Path) -> None:
    """The second entry computes what a file of its own computes."""
    own = tflite_network(seed + 1)
    if not _is_taken(own.content, folder):
        return
    graphs = [normalize(load_tflite(path, signature="b")), normalize(load_tflite(folder / "plain.tflite"))]
    drawn = drawn_inputs(graphs[0], seed)
    runs = [list(prepare_int(graph, Numerics.TFLM).sequence(drawn)) for graph in graphs]
    compare_runs("entry", graphs[0], *runs)


class OddNetwork(WideNetwork):
    """Float, with inputs beside the image. `outputs` may hold constants."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.others: dict[str, tuple[int, ...]] = {}
        self.is_open = False

    def gate(self) -> None:
        """A product or sum with an input of one number per channel."""
        self.others["gate"] = (1, self.shape[1], 1, 1)
        self.add(("Mul", "Add")[self.pick(0, 1)], self.x, "gate")

    def join(self) -> None:
        """A constant beside the image, as a class token is."""
        axis = self.pick(1, 2, 3)
        sizes = [2 if k == axis else n for k, n in enumerate(self.shape)]
        token = self.constant(*sizes, scale=0.7)
        first, second = (self.x, token) if self.pick(0, 1) else (token, self.x)
        self.add("Concat", first, second, axis=axis)
        self.shape = tuple(n + 2 * (k == axis) for k, n in enumerate(self.shape))  # type: ignore[assignment]

    def anchors(self) -> None:
        """An output that no input reaches."""
        table = self.constant(3, 4)
        self.nodes.append(op("Concat", f"{table} {self.constant(2, 4)}", "anchors", axis=0))
        self.outputs.append("anchors")

    def state(self) -> None:
        """A recurrent layer on the rows, whose state before the first is an input, and behind the last an output."""
        c, h, w = self.shape[1:]
        kind, gates = (("LSTM", 4), ("GRU", 3))[self.pick(0, 1)]
        units = self.pick(2, 4, 8)
        self.add("Transpose", self.x, perm=[2, 0, 1, 3])
        self.add("Reshape", self.x, self.vector("shape", [h, 1, c * w]))
        held = ["hidden", "cell"] if kind == "LSTM" else ["hidden"]
        self.others |= dict.fromkeys(held, (1, 1, units))
        weights = self.constant(1, gates * units, c * w, scale=1 / np.sqrt(c * w))
        again = self.constant(1, gates * units, units, scale=1 / np.sqrt(units))
        bias = self.constant(1, 2 * gates * units, scale=0.2)
        names = [self.x, weights, again, bias, "", *held]
        self.nodes.append(onnx.helper.make_node(kind, names, ["rows", "last"], hidden_size=units))
        self.outputs.append("last")
        self.x = "rows"
        self.add("Reshape", self.x, self.vector("shape", [1, -1]))

    def open(self) -> None:
        """The batch is a name."""
        self.is_open = True

    def model(self) -> onnx.ModelProto:
        outputs = [*self.outputs, self.x] if self.x not in self.outputs else self.outputs
        first: int | str = "batch" if self.is_open else 1
        inputs: Mapping[str, tuple[int | str, ...]] = {"x": (first, *self.input_shape[1:]), **self.others}
        return build(self.nodes, inputs, outputs, self.constants)


ODD: tuple[Piece, ...] = (OddNetwork.gate, OddNetwork.join, OddNetwork.anchors, OddNetwork.open)  # type: ignore[assignment]


def onnx_pieces(seed: int) -> tuple[Piece, ...]:
    """A convolution, up to three blocks, oddities, and an end, which may have a state."""
    rng = np.random.default_rng([seed, 1])
    middle = [MIDDLE[rng.integers(len(MIDDLE))] for _ in range(rng.integers(1, 4))]
    odd = [piece for piece in ODD if rng.random() < SHARE]
    end: Piece = OddNetwork.state if rng.random() < SHARE else ENDS[rng.integers(len(ENDS))]  # type: ignore[assignment]
    return (WideNetwork.any_conv, *middle, *odd, end)


def onnx_count(seed: int) -> int:
    return len(onnx_pieces(seed))


def odd_onnx(seed: int, subset: frozenset[int]) -> onnx.ModelProto:
    net = OddNetwork(seed)
    for index, piece in enumerate(onnx_pieces(seed)):
        net.rng = np.random.default_rng([seed, 2 + index])
        if index in subset and (min(net.shape[2:]) > 2 or piece in (*ENDS, *ODD, OddNetwork.state)):
            piece(net)
    if not net.nodes or net.x == "x":
        net.relu()
    return net.model()


def describe_onnx(seed: int, subset: frozenset[int]) -> str:
    return onnx.helper.printable_graph(odd_onnx(seed, subset).graph)


def check_onnx(seed: int, subset: frozenset[int], folder: Path) -> str:
    """`equal` to ONNX Runtime in float, and compiled; `too large` for all boards."""
    rng, model = np.random.default_rng([seed, 600]), odd_onnx(seed, subset)
    _compare_floats(model, samples(model, seed, 1), folder)
    data = samples(model, seed, 6)
    asked = Options("", precision="float32") if rng.random() < 0.3 else Options("")
    path, calibration = folder / "odd.onnx", folder / "odd.npz"
    np.savez(calibration, **data)
    if asked.precision != "float32" and rng.random() < 0.4:
        model = in_qdq(model, data, folder, seed)
    elif asked.precision != "float32":
        asked = replace(asked, calibration=calibration)
    onnx.save(model, path)
    board = load_board(builds.CORES[rng.integers(len(builds.CORES))])
    asked = replace(asked, board=board.name)
    try:
        compiled = compile_model(path, board, asked, Progress())
    except TinycError as error:
        if error.exit_code == 1:
            return "too large"
        raise WrongError("refused", str(error)) from error
    if rng.random() < ON_A_CORE:
        builds.prove_twice(seed, compiled, board, asked, folder / board.name)
    return "equal"


def _compare_floats(model: onnx.ModelProto, feeds: Mapping[str, Array], folder: Path) -> None:
    ours = run_float(normalize(load(model, folder)), dict(feeds))
    for name, array in run_onnxruntime(model, dict(feeds)).items():
        size = max(1.0, float(np.abs(array).max()))
        error = float(np.abs(ours[name].reshape(array.shape) - array).max())
        if error > TOLERANCE * size:
            raise WrongError("onnxruntime values", f"{name}: off by {error:.3g} of {size:.3g}")
