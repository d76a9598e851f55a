# SPDX-License-Identifier: Apache-2.0
"""What an LSTM, GRU or RNN of a file says: its weights, the lengths of its sequences, the functions of its gates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.site import RELU, Act
from tinyc.load.onnx.importing import OnnxStep
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.function import Function
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.mul import Mul
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tanh import Tanh

IGNORED = ("activation_alpha", "activation_beta")  # where no activation takes them
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_WITHOUT_NUMBERS = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
# The numbers of the other activations where the file does not say; None: ONNX and ONNX Runtime do not agree on that.
_ALPHA = {
    "Affine": None,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "LeakyRelu": 0.01,
    "ScaledTanh": None,
    "ThresholdedRelu": None,
}
_BETA = {"Affine": None, "HardSigmoid": 0.5, "ScaledTanh": None}
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Activation:
    """alpha, beta: 0 where the function takes none."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class RecurrentLayer:
    """x [T,B,I], or [B,T,I] where the batch is first; of each direction w [gates * U,I], r [gates * U,U], and both
    biases, one behind the other.

    directions: whether each runs backward. lengths: of each sequence, how many of the T steps it has. activations: of
    each direction. clip: of what goes into them, but for that of the shown cell. peepholes: of each direction [3 * U]
    of an LSTM, in the order i, o, f. coupled: an LSTM whose forget gate is 1 - i.
    """

    x: Value
    w: Array
    r: Array
    biases: Array
    directions: tuple[bool, ...]
    lengths: tuple[int, ...]
    batch_first: bool
    activations: tuple[tuple[Activation, ...], ...]
    clip: float | None
    peepholes: Array | None
    coupled: bool
    is_usual: bool  # neither other activations nor what the last three say

    @property
    def steps(self) -> int:
        return self.x.shape[1 if self.batch_first else 0]

    @property
    def batch(self) -> int:
        return len(self.lengths)

    @property
    def units(self) -> int:
        return int(self.r.shape[-1])

    @property
    def gates(self) -> int:
        return int(self.r.shape[1]) // self.units


def read(s: OnnxStep) -> RecurrentLayer:
    """TinycError for what neither a loop nor the unrolled form does."""
    x, w, r, batch_first = s.value(0), s.weights(1), s.weights(2), s.node.flag("layout", False)
    if len(x.shape) != 3:
        raise TinycError(f"{s.node.op} of {list(x.shape)}: the input must be [steps, batch, numbers]", s.where)
    if s.node.op != "LSTM" and is_read(s, 2):
        raise TinycError(f"{s.node.op} has two outputs; there is no '{s.node.outputs[2]}'", s.where)
    steps, batch = x.shape[1::-1] if batch_first else x.shape[:2]
    units, directions = int(r.shape[-1]) if r.shape else 0, _directions(s)
    if s.node.int_("hidden_size", units) != units:
        raise TinycError(
            f"hidden_size {s.node.int_('hidden_size', units)} does not fit weights {list(r.shape)}", s.where
        )
    count, rows = len(directions), _GATES[s.node.op] * units
    if w.shape != (count, rows, x.shape[2]) or r.shape != (count, rows, units):
        raise TinycError(f"weights {list(w.shape)} and {list(r.shape)} do not fit {list(x.shape)}", s.where)
    biases = _fitting(s, 3, (count, 2 * rows)) if s.has(3) else np.zeros((count, 2 * rows), np.float32)
    activations, clip, peepholes = tuple(_activations(s, count)), _clip(s), _peepholes(s, (count, 3 * units))
    coupled = s.node.op == "LSTM" and s.node.flag("input_forget", False)
    usual = all(tuple(a.name for a in each) == _USUAL[s.node.op] for each in activations)
    usual = usual and clip is None and peepholes is None and not coupled
    lengths = _lengths(s, steps, batch)
    return RecurrentLayer(
        x, w, r, biases, directions, lengths, batch_first, activations, clip, peepholes, coupled, usual
    )  # fmt: skip


def is_read(s: OnnxStep, output: int) -> bool:
    """Whether an output has a name, and somebody who reads it."""
    outputs = s.node.outputs
    return output < len(outputs) and outputs[output] != "" and outputs[output] in s.builder.read


def _fitting(s: OnnxStep, index: int, shape: Shape) -> Array:
    """Constant numbers of that shape."""
    weights = s.weights(index)
    if weights.shape != shape:
        raise TinycError(f"'{s.node.inputs[index]}' is {list(weights.shape)}, not {list(shape)}", s.where)
    return weights


def _directions(s: OnnxStep) -> tuple[bool, ...]:
    name = s.node.text("direction", "forward")
    reversed_ = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(name)
    if reversed_ is None:
        raise TinycError(f"direction '{name}' cannot be compiled", s.where)
    return reversed_


def _lengths(s: OnnxStep, steps: int, batch: int) -> tuple[int, ...]:
    if not s.has(4):
        return (steps,) * batch
    given, name = s.constant(4), s.node.inputs[4]
    if given is None:
        raise TinycError(
            f"the sequence lengths '{name}' of {s.node.op} are computed as the model runs; they must be constants",
            s.where,
            "make them constants of the file, or take that input out where all sequences have all steps; a model that"
            " gets its steps one by one has any number of them: docs/state.md",
        )
    if given.dtype.kind not in "iu" or given.shape != (batch,):
        message = f"sequence lengths {list(given.shape)} of {given.dtype} for {batch} sequences"
        raise TinycError(message, s.where, "they are integers, one for each sequence")
    if given.min() < 0 or given.max() > steps or not given.any():
        message = f"sequence lengths from {given.min()} to {given.max()}, with inputs of {steps} steps"
        raise TinycError(message, s.where, f"lengths are 0 to {steps}, and one of them at least is not 0")
    return tuple(int(n) for n in given)


def _clip(s: OnnxStep) -> float | None:
    if "clip" not in s.node.attributes:
        return None
    clip = s.node.float_("clip", 0.0)
    if not clip > 0:
        raise TinycError(
            f"{s.node.op} with clip {clip:g} cannot be compiled",
            s.where,
            "clip is above 0; without it nothing is clipped",
        )
    return clip if clip < _LARGEST else None


def _peepholes(s: OnnxStep, shape: Shape) -> Array | None:
    """None where there are none, or all are 0."""
    if s.node.op != "LSTM" or not s.has(7):
        return None
    peepholes = _fitting(s, 7, shape)
    return peepholes if peepholes.any() else None


def _activations(s: OnnxStep, directions: int) -> list[tuple[Activation, ...]]:
    each = len(_USUAL[s.node.op])
    names = s.node.texts("activations") or _USUAL[s.node.op] * directions
    if s.node.op == "RNN" and len(names) == 2 and directions == 1:
        names = names[:1]  # as the standard writes what is usual
    if len(names) != each * directions:
        raise TinycError(f"{len(names)} activations of {s.node.op}, not {each * directions}", s.where)
    for name in names:
        if name not in (*_WITHOUT_NUMBERS, *_ALPHA):
            raise TinycError(f"activation {name} is not supported in {s.node.op}", s.where)
    numbers = (_numbers(s, names, "activation_alpha", _ALPHA), _numbers(s, names, "activation_beta", _BETA))
    activations = [Activation(name, a, b) for name, a, b in zip(names, *numbers, strict=True)]
    return [tuple(activations[d * each : (d + 1) * each]) for d in range(directions)]


def _numbers(s: OnnxStep, names: Sequence[str], attribute: str, taken: Mapping[str, float | None]) -> list[float]:
    """Of each activation its number. The file has them in the order of the activations that take one."""
    takers = sum(name in taken for name in names)
    if not takers:
        return [0.0] * len(names)
    given = s.node.all_reals(attribute).tolist()
    # ONNX Runtime's RNN has no numbers but those in the file, and counts them by directions.
    own = s.node.op == "RNN" and (takers < len(names) or len(given) < takers)
    numbers = []
    for name in names:
        if name not in taken:
            numbers.append(0.0)
            continue
        number = given.pop(0) if given else taken[name]
        if own or number is None or not math.isfinite(number):
            message = f"activation {name} of {s.node.op} needs its own '{attribute}'"
            raise TinycError(message, s.where, "runtimes do not agree on what it is otherwise: write one for each")
        numbers.append(float(number))
    return numbers


def operators_of(a: Activation) -> tuple[tuple[object, float | None], ...]:
    """One after the other, each with the number that is its second operand, if it has two."""
    line = ((Mul(), a.alpha), (Add(), a.beta))
    by_name: dict[str, tuple[tuple[object, float | None], ...]] = {
        "Affine": line,
        "Elu": ((Function("elu", a.alpha), None),),
        "HardSigmoid": (*line, (Clip(Act(0.0, 1.0)), None)),
        "LeakyRelu": ((LeakyRelu(a.alpha), None),),
        "Relu": ((Clip(RELU), None),),
        "ScaledTanh": ((Mul(), a.beta), (Tanh(), None), (Mul(), a.alpha)),
        "Sigmoid": ((Sigmoid(), None),),
        "Softplus": ((Function("softplus"), None),),
        "Softsign": ((Function("softsign"), None),),
        "Tanh": ((Tanh(), None),),
        "ThresholdedRelu": ((Function("thresholded_relu", a.alpha), None),),
    }
    return by_name[a.name]
