# SPDX-License-Identifier: Apache-2.0
"""A module that computes what the compiled model will, and learns weights, biases and steps through its integers.

Every tensor of integers is whole steps. Each operator's real function of them, over the step of the output, is smooth;
its integers come from the operator's own reference, which every kernel equals bit for bit. Forward the integers count,
backward the smooth function: straight through the rounding, nothing beyond the ends of the range. As the step of an
output divides, and multiplies what reads it, its derivative is that of learned step size quantization (LSQ).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.numerics import Numerics, numerics_of
from tinyc.base.requantize import quantize_array
from tinyc.export import save
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import Act, Site
from tinyc.load import load_model
from tinyc.ops import is_a, op_of
from tinyc.ops.absolute import Absolute
from tinyc.ops.function import Function
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.op import Fixed, InUnits, Trait
from tinyc.ops.power import Power
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tables import look_up, real_table
from tinyc.ops.tanh import Tanh
from tinyc.ops.units import ChannelUnits
from tinyc.passes import normalize
from tinyc.passes.weights import out_axis
from tinyc.quantize.groups import Groups, output_rule
from tinyc.quantize.layerwise import LEVELS
from tinyc.quantize.output_units import IN_UNITS
from tinyc.reference.interpreter import prepare_int
from tinyc.torch.differentiable import (
    FUNCTIONS,
    SUMS,
    SteppedTensor,
    exactly,
    learned_step,
    moved,
    moves,
    places,
    recurrent,
    whole_steps,
)
from tinyc.torch.start import TrainingStart, start_of

_TABLES = (
    Absolute,
    Function,
    HardSwish,
    LeakyRelu,
    Power,
    Sigmoid,
    Tanh,
)  # QDQ files say these in reals: of a byte that is a table
_ALONE = (Trait.ELEMENTWISE, Trait.BROADCASTS, Trait.LAST_AXIS)  # an axis of samples in front changes nothing
_EXACT = 2**24  # float32 holds every whole number up to this one
_MOST_BIAS = float(2**30)
_COMPARED = 8  # samples on which a saved file is compared with the module
_QUARTER = 64  # of the 256 steps that an output has
_INSIDE = 0.49  # of a step: how far weights may be from the integers that were chosen for them


@dataclass(frozen=True, slots=True)
class CurrentIntegers:
    """What the parameters of this moment stand for. steps: of every computed value. weights: of trained layers, by
    constant; their step has an axis, [O]. biases: whole numbers, by constant."""

    steps: Mapping[str, Tensor]
    weights: Mapping[str, SteppedTensor]
    biases: Mapping[str, Tensor]


def prepared(model: Any, example_inputs: Any, weights: str | Mapping[str, str], numerics: str) -> PreparedModule:
    """As `tinyc.torch.prepare` has it."""
    arithmetic = numerics_of(numerics)
    if arithmetic not in (Numerics.ONNX, Numerics.OURS):
        raise TinycError(f"an ONNX file is not built with numerics '{numerics}'", hint="there are: onnx, single")
    return PreparedModule(start_of(model, example_inputs, weights), arithmetic)


class PreparedModule(torch.nn.Module):
    """Takes and gives float tensors [samples, ...], as the module that it was made from; what it gives are the reals
    that the compiled model's integers stand for. It computes on the CPU.

    weights: parameters, weights and biases in float, by their names in the module that it was made from, with `_` for
    dots. steps: parameters, the natural logarithms of the steps of weights and activations. Both may be trained by any
    optimizer, with rates of their own.
    """

    def __init__(self, start: TrainingStart, numerics: Numerics) -> None:
        super().__init__()
        self._graph, self._numerics = start.integers, numerics
        self._examples = {name: array[:_COMPARED] for name, array in start.inputs.items()}
        floats = {node.name: node for node in start.floats.nodes}
        trained = [n for n in start.integers.nodes if _weight_places(n) and floats[n.name].op == n.op]
        self._layers = {node: floats[node.name] for node in trained}
        self._groups = Groups(start.integers)
        self._keys: dict[str, str] = {}
        self._places: dict[str, Tensor] = {}
        self.weights, self.steps = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        self._add_layers(start)
        self._add_steps()

    def _key(self, name: str) -> str:
        """The name of a parameter."""
        plain, _, _ = name.partition(IN_UNITS)
        key = re.sub(r"\W", "_", plain.removesuffix(":const"))
        taken = set(self._keys.values())
        ways = itertools.chain([key], (f"{key}_{n}" for n in itertools.count(2)))
        self._keys[name] = next(way for way in ways if way not in taken)
        return self._keys[name]

    def _add_layers(self, start: TrainingStart) -> None:
        """Weights as they are in float, but no further from the integers chosen for them than rounding allows."""
        graph = start.integers
        for node, in_float in self._layers.items():
            for k in _weight_places(node):
                w = node.inputs[k]
                if w in self._keys:
                    continue
                quant = _quant(graph.values[w])
                step = _along(np.asarray(quant.scale, np.float32), quant, graph.consts[w].ndim)
                near = graph.consts[w].astype(np.float32) * step
                real = start.floats.consts[in_float.inputs[k]]
                real = np.clip(real, near - _INSIDE * step, near + _INSIDE * step).astype(np.float32)
                self.weights[self._key(w)] = torch.nn.Parameter(torch.from_numpy(real))
                logs = torch.log(torch.tensor(quant.scale, dtype=torch.float32))
                self.steps[self._keys[w]] = torch.nn.Parameter(logs)
            for b in {*_biases(node)} - self._keys.keys():
                real = np.array(_quant(graph.values[b]).dequantize(graph.consts[b]))
                self.weights[self._key(b)] = torch.nn.Parameter(torch.from_numpy(real))

    def _add_steps(self) -> None:
        """A step for values that share one, but for inputs, which are never clipped, and what an operator fixes."""
        graph = self._graph
        fixed = {
            self._groups.of(name)
            for node in graph.nodes
            for index, name in enumerate(node.outputs)
            if isinstance(output_rule(node, index), Fixed | InUnits)
        }
        fixed |= {self._groups.of(name) for name in (*graph.inputs, *graph.consts)}
        for node in graph.nodes:
            group = self._groups.of(node.outputs[0])
            if group not in fixed and group not in self._keys:
                (scale, _) = _quant(graph.values[node.outputs[0]]).per_tensor
                self.steps[self._key(group)] = torch.nn.Parameter(torch.tensor(math.log(scale)))

    def at_rate(self, rate: float) -> list[dict[str, Any]]:
        """All parameters in groups for an optimizer such as Adam, which moves a parameter by its rate in each step.

        Each moves by `rate` of its own size, 0.002 say: weights by that part of their root mean square, biases by that
        part of a quarter of their output's range, steps by that part of themselves. So neither the range of the inputs
        nor that of a layer matters.
        """
        values = self._graph.values
        sizes = dict.fromkeys(self._keys.values(), 1.0)
        for node in self._layers:
            keys = [self._keys[node.inputs[k]] for k in _weight_places(node)]
            sizes |= {key: float(self.weights[key].detach().square().mean().sqrt()) for key in keys}
            quarter = _QUARTER * max(_quant(values[node.outputs[0]]).scale)
            sizes |= {self._keys[b]: quarter for b in _biases(node)}
        groups = [{"params": [each], "lr": rate * sizes[key]} for key, each in self.weights.items()]
        return [*groups, {"params": list(self.steps.values()), "lr": rate}]

    def _current(self) -> CurrentIntegers:
        values, consts = self._graph.values, self._graph.consts
        steps = {name: self._step(value) for name, value in values.items() if name not in consts}
        for node in filter(_is_in_units, self._graph.nodes):
            (name,), a = node.outputs, node.attrs
            steps[name] = steps[node.inputs[0]] * torch.from_numpy(a.along(len(values[name].shape)))
        weights: dict[str, SteppedTensor] = {}
        biases: dict[str, Tensor] = {}
        for node in self._layers:
            weights |= {node.inputs[k]: self._current_weights(values[node.inputs[k]]) for k in _weight_places(node)}
            for b in _biases(node):
                sums = self.weights[self._keys[b]] / (steps[node.inputs[0]] * weights[node.inputs[1]].step)
                biases[b] = whole_steps(sums, -_MOST_BIAS, _MOST_BIAS)
        return CurrentIntegers(steps, weights, biases)

    def _current_weights(self, w: Value) -> SteppedTensor:
        key = self._keys[w.name]
        real = self.weights[key]
        low, high = LEVELS[4 if w.dtype == "s4" else 8]
        step = learned_step(self.steps[key], real.numel(), high)
        return SteppedTensor(whole_steps(real / _along(step, _quant(w), real.ndim), low, high), step)

    def _step(self, value: Value) -> Tensor:
        key = self._keys.get(self._groups.of(value.name))
        if key is None or key not in self.steps:
            return torch.tensor(_quant(value).scale[0], dtype=torch.float32)
        return learned_step(self.steps[key], value.elements, INT_RANGE[value.dtype][1])

    def integer_graph(self) -> Graph:
        """What is compiled, with the parameters of this moment."""
        with torch.no_grad():
            return self._compiled(self._current())

    def _compiled(self, current: CurrentIntegers) -> Graph:
        values, consts = dict(self._graph.values), dict(self._graph.consts)
        for name, step in current.steps.items():
            values[name] = replace(values[name], quant=replace(_quant(values[name]), scale=_floats(step)))
        for node in filter(_is_in_units, self._graph.nodes):  # rounded as the compiler rounds them
            quant = node.attrs.quant_of(_quant(values[node.inputs[0]]))
            values[node.outputs[0]] = replace(values[node.outputs[0]], quant=quant)
        for name, w in current.weights.items():
            values[name] = replace(values[name], quant=replace(_quant(values[name]), scale=_floats(w.step)))
            consts[name] = _integers(w.steps, 0, values[name])
        for node in self._layers:
            of_x, of_w = (_quant(values[name]) for name in node.inputs[:2])
            scale = tuple(of_x.scale[0] * s for s in of_w.scale)
            for b in (values[name] for name in _biases(node)):
                values[b.name] = replace(b, quant=replace(_quant(b), scale=scale))
                consts[b.name] = _integers(current.biases[b.name], 0, b)
        return replace(self._graph, values=values, consts=consts)

    def forward(self, *inputs: Tensor) -> Any:
        """One tensor, or as many as the model has outputs, in a tuple."""
        current = self._current()
        graph = self._compiled(current)
        tensors = self._run(graph, current, inputs)
        outputs = tuple(_as_given(tensors[name].reals, graph.values[name]) for name in graph.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def integers(self, *inputs: Tensor) -> tuple[Array, ...]:
        """The integers of each output, [samples, ...]: the bytes that the board gives."""
        with torch.no_grad():
            current = self._current()
            graph = self._compiled(current)
            tensors = self._run(graph, current, inputs)
        values = [graph.values[name] for name in graph.outputs]
        return tuple(_as_given(_q(tensors[value.name].steps, value), value) for value in values)

    def _run(self, graph: Graph, current: CurrentIntegers, inputs: tuple[Tensor, ...]) -> dict[str, SteppedTensor]:
        if len(inputs) != len(graph.inputs):
            raise TinycError(f"the module takes {len(graph.inputs)} inputs, got {len(inputs)}")
        tensors = {
            name: _quantized(x, graph.values[name], current.steps[name])
            for name, x in zip(graph.inputs, inputs, strict=True)
        }
        for node in graph.nodes:
            tensors[node.outputs[0]] = self._computed(graph, node, current, tensors)
        return tensors

    def _computed(
        self, graph: Graph, node: Node, current: CurrentIntegers, tensors: Mapping[str, SteppedTensor]
    ) -> SteppedTensor:
        y = graph.values[node.outputs[0]]
        step = current.steps[y.name]
        if _is_in_units(node):
            return SteppedTensor(tensors[node.inputs[0]].steps, step)
        if moves(graph, node):
            inputs = _inputs(graph, node, tensors)
            if node.name not in self._places:
                self._places[node.name] = torch.from_numpy(places(graph, node).reshape(-1))
            return SteppedTensor(moved([x.steps for x in inputs], self._places[node.name], y.shape), step)
        site = Site(graph, node, self._numerics)
        if type(node.attrs) in SUMS:
            smooth, exact = self._sums(site, current, tensors[node.inputs[0]], step)
        elif isinstance(node.attrs, Recurrent):
            smooth, exact = self._loop(site, current, tensors[node.inputs[0]], step)
        else:
            inputs = _aligned(_inputs(graph, node, tensors))
            reals = FUNCTIONS[type(node.attrs)](node.attrs, *(x.reals for x in inputs))
            smooth, exact = reals / step, _exact(site, [x.steps for x in inputs])
        low, high = getattr(node.attrs, "act", Act()).range_of(y)
        (zero,) = _quant(y).zero
        inside = smooth.clamp(low - zero, high - zero)
        return SteppedTensor(exactly(inside, torch.from_numpy(exact.astype(np.float32) - np.float32(zero))), step)

    def _sums(self, site: Site, current: CurrentIntegers, x: SteppedTensor, step: Tensor) -> tuple[Tensor, Array]:
        """Sums of products over the output's step, and the integers that they become."""
        node, y, w_name = site.node, site.y(), site.node.inputs[1]
        w = current.weights.get(w_name) or _constant(site.graph.values[w_name], site.graph.consts[w_name])
        bias = current.biases[node.inputs[2]] if site.has(2) else torch.zeros(y.channels)
        function, shape = SUMS[type(node.attrs)], (-1, *y.shape)
        sums = function(node.attrs, x.steps, w.steps).reshape(shape) + bias
        whole = sums.detach()
        if _largest_sum(site, w.steps, bias) >= _EXACT:
            with torch.no_grad():
                whole = function(node.attrs, x.steps.double(), w.steps.double()).reshape(shape) + bias.double()
        params = op_of(node).prepared(site)
        exact = params.finish(whole.to(torch.int64).numpy())
        return sums * (x.step * w.step / step), exact

    def _loop(self, site: Site, current: CurrentIntegers, x: SteppedTensor, step: Tensor) -> tuple[Tensor, Array]:
        """Hidden states over the output's step, and the integers of the loop."""
        node, graph = site.node, site.graph
        weights = [current.weights[node.inputs[k]] for k in _weight_places(node)]
        w, r = (each.steps * each.step.reshape(-1, 1) for each in weights)
        bias = torch.zeros(len(w))
        if site.has(2):
            bias = current.biases[node.inputs[2]] * (x.step * weights[0].step)
        late = torch.from_numpy(np.array(graph.consts[node.inputs[4]], np.float32)) if site.has(4) else None
        reals = recurrent(node.attrs, x.reals, (w, bias, r, late))
        params, op = op_of(node).prepared(site), op_of(node)
        exact = np.stack([op.int_ref(params, sample)[0] for sample in _q(x.steps, site.x(0))])
        return reals / step, exact

    def export(self, path: str | PathLike[str]) -> None:
        """Write a QDQ ONNX file, from which `tinyc build` makes the same integers.

        The file is read again, and its integers are compared with the module's on some of the example inputs.
        TinycError where they are not the same, the name does not end in .onnx, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix.lower() != ".onnx":
            message = f"there is no format for '{path.suffix}'"
            raise TinycError(message, Loc(str(path)), "give a name that ends in .onnx")
        save(self.integer_graph(), path)
        loaded = prepare_int(normalize(load_model(path)), self._numerics)
        examples = {name: torch.from_numpy(array) for name, array in self._examples.items()}
        ours = self.integers(*(_as_given(x, self._graph.values[name]) for name, x in examples.items()))
        taken = {name: _integer_input(x.numpy(), loaded.graph.values[name]) for name, x in examples.items()}
        theirs = loaded(taken)
        for name, other, mine in zip(self._graph.outputs, theirs.values(), ours, strict=True):
            different = int((other.reshape(mine.shape) != mine).sum())
            if different:
                words = f"the file gives other integers than the module: {different} of {mine.size} of '{name}'"
                raise TinycError(words, Loc(str(path)), "this is a fault of tinyc.torch: please report it")


def _quant(value: Value) -> Quant:
    if value.quant is None:
        raise TinycError(f"'{value.name}' has no quantization", value.loc)
    return value.quant


def _weight_places(node: Node) -> tuple[int, ...]:
    """Which inputs of a node are weights; none of one without."""
    return (1, 3) if isinstance(node.attrs, Recurrent) else (1,) if type(node.attrs) in SUMS else ()


def _biases(node: Node) -> tuple[str, ...]:
    """The bias of a layer with weights, if it has one."""
    return tuple(filter(None, node.inputs[2:3]))


def _is_in_units(node: Node) -> bool:
    return isinstance(node.attrs, ChannelUnits)


def _along(steps: Any, quant: Quant, rank: int) -> Any:
    """Steps [O] as they broadcast against weights of so many axes."""
    return steps if quant.axis is None else steps.reshape([-1 if k == quant.axis else 1 for k in range(rank)])


def _floats(steps: Tensor) -> tuple[float, ...]:
    return tuple(map(float, steps.detach().reshape(-1).tolist()))


def _integers(steps: Tensor, zero: int, value: Value) -> Array:
    return read_only((steps.detach().numpy() + np.float32(zero)).astype(NUMPY_DTYPE[value.dtype]))


def _q(steps: Tensor, value: Value) -> Array:
    return _integers(steps, _quant(value).zero[0], value)


def _constant(value: Value, array: Array) -> SteppedTensor:
    """Weights, or another constant, that are not trained; one zero point."""
    quant = _quant(value)
    steps = torch.tensor(array.astype(np.float32)) - quant.zero[0]
    scale = torch.tensor(quant.scale, dtype=torch.float32)
    return SteppedTensor(steps, scale if len(quant.scale) > 1 else scale[0])


def _inputs(graph: Graph, node: Node, tensors: Mapping[str, SteppedTensor]) -> list[SteppedTensor]:
    """The node's inputs, constants repeated for every sample."""
    count = len(next(iter(tensors.values())).steps)
    inputs = []
    for name in filter(None, node.inputs):
        if name in tensors:
            inputs.append(tensors[name])
        elif graph.values[name].quant is not None:
            constant = _constant(graph.values[name], graph.consts[name])
            inputs.append(SteppedTensor(constant.steps.expand(count, *constant.steps.shape), constant.step))
    return inputs


def _aligned(inputs: Iterable[SteppedTensor]) -> list[SteppedTensor]:
    """With as many axes each, so that they broadcast behind the axis of the samples."""
    inputs = list(inputs)
    rank = max(x.steps.ndim for x in inputs)
    return [SteppedTensor(_of_rank(x.steps, rank), x.step) for x in inputs]


def _of_rank(steps: Tensor, rank: int) -> Tensor:
    return steps.reshape(len(steps), *(1,) * (rank - steps.ndim), *steps.shape[1:])


def _exact(site: Site, steps: list[Tensor]) -> Array:
    """The integers of the operator's reference, over all samples."""
    node = site.node
    arrays = [_q(x, site.x(index)) for index, x in enumerate(steps)]
    op = op_of(node)
    if type(node.attrs) in _TABLES:
        (y,) = look_up(real_table(site, lambda real: op.float_ref(node.attrs, real)[0]), arrays[0])
        return y
    params = op.prepared(site)
    if is_a(node, *_ALONE):
        return np.asarray(op.int_ref(params, *arrays)[0])
    return np.stack([op.int_ref(params, *sample)[0] for sample in zip(*arrays, strict=True)])


def _largest_sum(site: Site, w: Tensor, bias: Tensor) -> float:
    """What no sum, nor any part of one, is beyond."""
    x, axis = site.x(0), out_axis(site.node)
    most = max(abs(limit - _quant(x).zero[0]) for limit in INT_RANGE[x.dtype])
    taps = w.detach().abs().movedim(axis, 0).flatten(1).sum(1)
    return float((taps * most + bias.detach().abs()).max())


def _integer_input(real: Array, value: Value) -> Array:
    integers = quantize_array(real, *_quant(value).per_tensor, *INT_RANGE[value.dtype])
    return integers.astype(NUMPY_DTYPE[value.dtype])


def _quantized(x: Tensor, value: Value, step: Tensor) -> SteppedTensor:
    """An input of the module, as the library's own function quantizes it."""
    if x.device.type != "cpu":
        raise TinycError(f"a prepared module computes on the CPU, and the input is on {x.device}", hint="x.cpu()")
    if (1, *x.shape[1:]) != value.shape:
        expected = ", ".join(map(str, value.shape[1:]))
        raise TinycError(f"input '{value.name}' has shape {list(x.shape)}, expected [samples, {expected}]")
    x = x.to(torch.float32).reshape(-1, *value.shape)
    (zero,) = _quant(value).zero
    low, high = INT_RANGE[value.dtype]
    exact = _integer_input(x.detach().numpy(), value).astype(np.float32) - np.float32(zero)
    return SteppedTensor(exactly((x / step).clamp(low - zero, high - zero), torch.from_numpy(exact)), step)


def _as_given(array: Any, value: Value) -> Any:
    """[samples, *shape] as the user's module has it: without the axis of size 1 that stands for the samples."""
    return array.reshape(len(array), *value.shape[1:]) if value.shape[:1] == (1,) else array
