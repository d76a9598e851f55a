# SPDX-License-Identifier: Apache-2.0
"""int16 activations: everywhere, at chosen layers, and chosen for a goal."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.unit.networks import random_network
from tests.unit.test_quantize_model import calibrated
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import candidates
from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.ops import all_ops, is_a
from tinyc.ops.absolute import Absolute
from tinyc.ops.op import Trait
from tinyc.ops.sigmoid import Sigmoid
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize
from tinyc.quantize.activations import Set, WidthChoice, extra_cost, first_good, options
from tinyc.quantize.groups import is_activation
from tinyc.quantize.simulate import Batch, sqnr_db
from tinyc.quantize.widths import every_value, pattern_of, runs_wide, values_of_layers
from tinyc.verify.accuracy import integers_of

SEEDS = range(8)


def fixed(**more: object) -> Recipe:
    """A recipe with nothing to search for."""
    return Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest", **more)  # type: ignore[arg-type]


def db(graph: Graph, integer: Graph, calibration: Calibration) -> float:
    name = graph.outputs[0]
    quant = integer.values[name].quant
    assert quant is not None
    reals = Batch(graph).run(calibration.inputs)[name]
    return sqnr_db(reals, quant.dequantize(integer_outputs(integer, calibration.inputs)))


def with_narrow(graph: Graph) -> Graph:
    """The graph with an absolute value, which has no int16 form, in the place of a sigmoid."""
    narrow = [replace(n, op="absolute", attrs=Absolute()) if isinstance(n.attrs, Sigmoid) else n for n in graph.nodes]
    return replace(graph, nodes=tuple(narrow))


@pytest.mark.parametrize("seed", SEEDS)
def test_everywhere(tmp_path: Path, seed: int) -> None:
    """All values are int16, every layer has a kernel, and what is lost is lost in the weights."""
    graph, calibration = calibrated(random_network(seed), tmp_path)
    integer = quantize(graph, calibration, fixed(activations="int16")).graph
    check(integer, "quantize", all_ops())
    computed = [value for name, value in integer.values.items() if name not in integer.consts]
    assert {value.dtype for value in computed} == {"s16"}
    assert {value.quant.zero for value in computed if value.quant} == {(0,)}
    assert all(candidates(normalize(integer), frozenset({"dsp"}), Numerics.OURS).values())
    assert integers_of(integer) == "int8 weights, int16 activations"
    assert db(graph, integer, calibration) > max(
        db(graph, quantize(graph, calibration, fixed()).graph, calibration), 30
    )


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_at_a_layer(tmp_path: Path, seed: int) -> None:
    """Border nodes on both sides; an absolute value beside stays int8."""
    graph, calibration = calibrated(random_network(seed), tmp_path)
    graph = with_narrow(graph)
    calibration = replace(calibration, model=None)
    layer = next(node for node in graph.nodes if node.op == "conv2d")
    quantized_model = quantize(graph, calibration, fixed(int16_layers=(layer.layer,)))
    integer = quantized_model.graph
    check(integer, "quantize", all_ops())
    assert all(candidates(normalize(integer), frozenset({"dsp"}), Numerics.OURS).values())
    wide = {name for name, value in integer.values.items() if value.dtype == "s16"}
    assert layer.outputs[0] in wide
    for node in integer.nodes:
        kinds = {integer.values[n].dtype for n in (*node.inputs[:1], *node.outputs)}
        assert len(kinds) == 1 or node.op == "requantize", f"{node.name}: {kinds}"
        assert is_a(node, Trait.INT16) or "s16" not in kinds
    if layer.inputs[0] in graph.inputs:
        assert integer.values[graph.inputs[0]].dtype == "s8"
    assert db(graph, integer, calibration) > db(graph, quantize(graph, calibration, fixed()).graph, calibration) - 3
    assert [node.name for node in quantized_model.float_graph.nodes] == [node.name for node in integer.nodes]


def test_names_of_layers(tmp_path: Path) -> None:
    graph = with_narrow(calibrated(random_network(1), tmp_path)[0])
    layer = next(node for node in graph.nodes if node.op == "conv2d")
    assert set(layer.outputs) <= values_of_layers(graph, [layer.layer])
    assert values_of_layers(graph, [f"{layer.layer[:-1]}?"]) >= values_of_layers(graph, [layer.name])
    with pytest.raises(TinycError, match="absolute has no int16 form"):
        values_of_layers(graph, ["*"])
    with pytest.raises(TinycError, match="no layer is called 'cnv'") as caught:
        values_of_layers(graph, ["cnv"])
    assert "prints their names" in (caught.value.hint or "")
    assert layer.layer.endswith(pattern_of(graph, layer.layer).lstrip("*"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ram", [None, 0.8])
def test_the_choice_is_exact(tmp_path: Path, seed: int, ram: float | None) -> None:
    """Beside all subsets of the values of a small network: the same undominated costs and noises."""
    graph, _ = calibrated(random_network(seed), tmp_path)
    rng = np.random.default_rng(seed)
    names = [name for name in graph.values if is_activation(graph, name)]
    while len(names) > 9:  # the later ones stay int8
        names.pop()
    touching = {n: [i for i, node in enumerate(graph.nodes) if n in (*node.inputs, *node.outputs)] for n in names}
    sets = sorted(
        (Set((n,), float(rng.uniform(0.1, 1)), touching[n][0], touching[n][-1], (False, True)) for n in names),
        key=lambda one: one.first,
    )
    rest = [n for n in graph.values if is_activation(graph, n) and n not in names]
    for name in rest:
        at = [i for i, node in enumerate(graph.nodes) if name in (*node.inputs, *node.outputs)]
        sets.append(Set((name,), 0.0, at[0], at[-1], (False,)))
    sets.sort(key=lambda one: one.first)
    budget = None if ram is None else int(ram * 2 * _live_bytes(graph, frozenset()))
    grain = max(sum(extra_cost(graph, node) for node in graph.nodes) // 512, 1)
    brute = []
    for chosen in product((False, True), repeat=len(names)):
        wide = frozenset(n for n, yes in zip(names, chosen, strict=True) if yes)
        if budget is not None and _live_bytes(graph, wide) > budget:
            continue
        nodes = [node for node in graph.nodes if runs_wide(graph, node, wide)]
        cost = sum(-(-extra_cost(graph, node) // grain) for node in nodes) * grain
        brute.append((cost, sum(one.noise for one in sets if one.names[0] not in wide)))
    front = [p for p in sorted(set(brute)) if not any(q[0] <= p[0] and q[1] < p[1] - 1e-12 for q in brute)]
    front_options = options(graph, sets, budget)
    assert [one.cost for one in front_options] == sorted({cost for cost, _ in front})
    np.testing.assert_allclose(
        [one.noise for one in front_options], [min(n for c, n in front if c == one.cost) for one in front_options]
    )


def _live_bytes(graph: Graph, wide: frozenset[str]) -> int:
    """Most bytes of values at one time; a view is its input's bytes."""
    producers = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    needed = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    needed |= dict.fromkeys(graph.outputs, len(graph.nodes))
    views = {node.outputs[0]: node.inputs[0] for node in graph.nodes if all_ops()[node.op].view}
    for view in reversed(list(views)):
        needed[views[view]] = max(needed[views[view]], needed[view])
    values = [n for n in graph.values if is_activation(graph, n) and n not in views]
    size = {n: graph.values[n].elements * (2 if n in wide else 1) for n in values}
    return max(
        sum(size[n] for n in values if producers.get(n, -1) <= i <= needed.get(n, -1)) for i in range(len(graph.nodes))
    )


@pytest.mark.parametrize("good", range(9))
def test_first_good(good: int) -> None:
    choices = [WidthChoice(frozenset(), cost, 1.0 / (cost + 1)) for cost in range(9)]
    assert first_good(choices, lambda option: option.cost >= good) is choices[good]
    assert first_good(choices, lambda option: False) is None


@pytest.mark.parametrize("seed", [0, 3])
def test_for_an_aim(tmp_path: Path, seed: int) -> None:
    """More SQNR asks for more int16; the aim is met where it was measured, and what is out of reach is said."""
    graph, calibration = calibrated(random_network(seed), tmp_path)
    plain = db(graph, quantize(graph, calibration, fixed()).graph, calibration)
    best = quantize(graph, calibration, fixed(activations="auto", min_sqnr=0.0)).graph
    assert integers_of(best) == "int8"  # nothing asks for more
    aim = plain + 1
    integer = quantize(graph, calibration, fixed(activations="auto", min_sqnr=aim)).graph
    assert "int16" in integers_of(integer)
    assert db(graph, integer, calibration) > plain
    with pytest.raises(TinycError, match="out of reach"):
        quantize(graph, calibration, fixed(activations="auto", min_sqnr=190.0))
    lossless = quantize(graph, calibration, fixed(activations="auto", max_loss=0.0)).graph
    assert db(graph, lossless, calibration) > plain - 1


def test_for_memory(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(1), tmp_path)
    everything = sum(graph.values[n].elements * 2 for n in graph.values if is_activation(graph, n))
    wide = quantize(graph, calibration, fixed(activations="auto", ram_bytes=everything)).graph
    assert integers_of(wide).endswith("int16 activations")
    with pytest.raises(TinycError, match="bytes even in int8, the budget for them is 10"):
        quantize(graph, calibration, fixed(activations="auto", ram_bytes=10))


def test_every_value_names_what_has_no_int16(tmp_path: Path) -> None:
    for seed in SEEDS:
        graph = with_narrow(calibrated(random_network(seed), tmp_path)[0])
        if not all(is_a(node, Trait.INT16) for node in graph.nodes):
            with pytest.raises(TinycError, match="no int16 form here of absolute: '") as caught:
                every_value(graph)
            assert "--int16-layers" in (caught.value.hint or "")
            return
    raise AssertionError("no network has a sigmoid")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "mse", "activations": "int16"}, "--calibration-method mse with --activations int16"),
        ({"rounding": "nearest", "weights": "int4"}, "--rounding nearest with --weights int4"),
        ({"rounding": "nearest", "weights": "auto"}, "--rounding nearest with --weights auto"),
    ],
)
def test_an_option_that_another_one_silences_is_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(TinycError, match=message) as caught:
        Recipe(**asked)  # type: ignore[arg-type]
    assert caught.value.hint
    least = {"method": "minmax"} if "method" in asked else {"rounding": "learned"}
    assert Recipe(**{**asked, **least})  # type: ignore[arg-type]
