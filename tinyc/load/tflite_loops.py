# SPDX-License-Identifier: Apache-2.0
"""IF, and WHILE whose condition is known in every step when the model is loaded: the body once for each.

So Keras writes LSTM, GRU and RNN where its converter does not fuse them: a counter, a list of outputs, the states and
the sequence go from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.tflite_arrays import dtype_of, quant_of
from tinyc.load.tflite_file import TFLiteFile
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.load.tflite_running import import_operator
from tinyc.ops.choose import Choose
from tinyc.ops.reshape import Reshape

MOST_STEPS = 256
_HINT = "unroll it when the model is converted (Keras: unroll=True), with fixed shapes"

_ONE_TRUTH = "branches are compiled for one truth value, with outputs of one shape, type and scale"


@dataclass
class _Copies:
    """Of a subgraph in the main one. constants: where each constant of it lies there; they are taken once."""

    s: TfliteStep
    graph: TFLiteFile
    constants: dict[int, int] = field(default_factory=dict)

    def inlined(self, given: Sequence[int]) -> list[int]:
        """Import the operators on the tensors `given`; the tensors that hold the outputs."""
        builder, graph = self.s.builder, self.graph
        if len(given) != len(graph.inputs):
            raise TinycError(f"a subgraph with {len(graph.inputs)} inputs for {len(given)} does not fit", self.s.where)
        at = {**self.constants, **dict(zip(graph.inputs, given, strict=True))}
        new = [tensor for tensor in graph.tensors if tensor.index not in at]
        first = builder.include(new)
        at.update((tensor.index, first + k) for k, tensor in enumerate(new))
        self.constants.update((t.index, at[t.index]) for t in new if t.data is not None)
        at[-1] = -1
        for operator in graph.operators:
            inputs, outputs = (tuple(at[i] for i in side) for side in (operator.inputs, operator.outputs))
            try:
                import_operator(builder, replace(operator, inputs=inputs, outputs=outputs))
            except TinycError as e:
                raise e.located(operator.where) from e
        return [at[i] for i in graph.outputs]


@imports("WHILE")
def unrolled(s: TfliteStep) -> None:
    """A loop whose steps are counted by numbers that are known: the body as often as it runs."""
    o = s.options("WhileOptions")
    condition, body = (_Copies(s, _subgraph(s, o[f"{name}SubgraphIndex"])) for name in ("Cond", "Body"))
    carried = [s.tensor(index).index for index in range(s.input_count)]
    for step in range(MOST_STEPS + 1):
        (decides, *_) = condition.inlined(carried) or [-1]
        goes = s.builder.constant(s.builder.file.tensors[decides], s.where) if decides >= 0 else None
        if goes is None or goes.size != 1:
            raise TinycError("how often the loop runs is computed from the data", s.where, _HINT)
        if not goes.reshape(()):
            _hand_out(s, carried)
            return
        if step < MOST_STEPS:
            carried = body.inlined(carried)
    raise TinycError(f"a loop of more than {MOST_STEPS} steps cannot be compiled", s.where, _HINT)


@imports("IF")
def chosen(s: TfliteStep) -> None:
    """With a condition that is known when the model is loaded: the branch that it takes. Else both are computed, and
    each output is one or the other's."""
    o, constant = s.options("IfOptions"), s.constant(0)
    bodies = [_Copies(s, _subgraph(s, o[f"{name}SubgraphIndex"])) for name in ("Then", "Else")]
    given = [s.tensor(index).index for index in range(1, s.input_count)]
    if constant is not None and constant.size == 1:
        _hand_out(s, bodies[0 if constant.reshape(()) else 1].inlined(given))
        return
    condition = s.value(0)
    if condition.dtype != "bool" or condition.elements != 1:
        raise TinycError(f"IF on {s.type_of(0)} {list(condition.shape)} cannot be compiled", s.where, _ONE_TRUTH)
    branches = [body.inlined(given) for body in bodies]
    if any(len(branch) != s.output_count for branch in branches):
        raise TinycError(f"IF with {s.output_count} outputs does not fit its branches", s.where)
    for output, pair in enumerate(zip(*branches, strict=True)):
        _choose(s, condition, output, [_activation(s, index) for index in pair])


def _activation(s: TfliteStep, index: int) -> Value:
    """What a branch computes, or a constant of it."""
    builder = s.builder
    tensor = builder.file.tensors[index]
    builder.settle(index)
    if index in builder.activations:
        return builder.activations[index]
    array = builder.constant(tensor, s.where)
    if array is None:
        raise TinycError(f"a branch does not compute '{tensor.name}'", s.where)
    dtype = dtype_of(tensor, s.where)
    return builder.share(tensor, array, quant_of(tensor, dtype), dtype)


def _choose(s: TfliteStep, condition: Value, output: int, branches: Sequence[Value]) -> None:
    """One output, of the branch that the condition says."""
    a, b = branches
    if a.shape != b.shape or (a.dtype, a.quant) != (b.dtype, b.quant):
        words = f"{a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}"
        raise TinycError(f"IF: an output of branches that make {words} of two scales or kinds", s.where, _ONE_TRUTH)
    y = replace(s.declared(output), shape=a.shape, dtype=a.dtype, quant=a.quant)
    single = s.between(f"condition{output}", (1,) * len(a.shape), condition)
    s.insert((condition,), Reshape(single.shape), single)
    s.insert((single, a, b), Choose(), y)
    s.define(output, y)


def _subgraph(s: TfliteStep, index: int) -> TFLiteFile:
    others = s.builder.file.others
    if not 1 <= index <= len(others):
        raise TinycError(f"{s.operator.code} of subgraph {index}, which the file does not have", s.where)
    return others[index - 1]


def _hand_out(s: TfliteStep, carried: Sequence[int]) -> None:
    """The last step's tensors as the outputs."""
    if len(carried) != s.output_count:
        raise TinycError(f"{s.operator.code} with {s.output_count} outputs for {len(carried)} does not fit", s.where)
    builder = s.builder
    for output, index in enumerate(carried):
        array = builder.constant(builder.file.tensors[index], s.where)
        if array is not None:
            builder.fold(s.out_tensor(output), array, s.where)
            continue
        builder.settle(index)
        if s.operator.outputs[output] in builder.file.outputs:
            y = s.declared(output)
            s.insert((builder.activations[index],), Reshape(y.shape), y)
            s.define(output, y)
        elif index in builder.activations:
            s.define(output, builder.activations[index])
        else:
            raise TinycError(f"{s.operator.code} does not compute its output {output}", s.where)
