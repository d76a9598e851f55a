# SPDX-License-Identifier: Apache-2.0
"""A float model becomes integers, but for the layers that stay in float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.one_thread import one_thread
from tinyc.board import Board
from tinyc.choose.select import candidates, least_flash
from tinyc.export import as_in_files
from tinyc.ir.graph import Graph, Node
from tinyc.ops import op_of
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.passes.inputs import take_inputs_as_computed
from tinyc.passes.integer_ports import trees_among_floats
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import read_activations
from tinyc.quantize import UNPROVEN, Quantized, calibrate, quantize, weight_bytes
from tinyc.quantize import Calibration as CalibrationInputs
from tinyc.quantize.cached import recalled
from tinyc.quantize.float_layers import nodes_named, with_float_layers
from tinyc.quantize.judge import is_own
from tinyc.quantize.recipe import FEW


@one_thread
def quantize_float(
    path: Path, graph: Graph, board: Board | None, options: Options, progress: Progress
) -> tuple[Quantized, CalibrationInputs]:
    """The normalized float graph of `path` in integers, by the options, and the calibration inputs.

    Weights of mixed width (`auto`) for a board: its flash budget less what code and other constants take with
    int8 weights. Without a board the flash budget is the weights' alone.
    """
    if trees_among_floats(graph):
        message = "the model has decision trees, and layers that compute with reals"
        raise TinycError(message, Loc(path.name), "build it with --precision float32: trees are integers there, too")
    data = calibrate(path, graph, options.calibration, options.pictures, options.sequence)
    if not data.proven:
        progress.on_warning(
            "no calibration data: activation ranges come from synthetic inputs, accuracy is unproven; "
            f"give --calibration FILE.npz or put {path.stem}.calib.npz beside the model"
        )
    elif data.samples < FEW:
        progress.on_warning(
            f"calibration inputs: {data.samples}, and fewer than {FEW} hardly say what ranges the values have; figures "
            "that are measured on them say little of others: give more with --calibration"
        )
    recipe = options.asked_recipe
    if options.like is not None:
        recipe = replace(recipe or Recipe(), like=read_activations(options.like))
    if recipe is not None and recipe.weights == "auto" and recipe.max_loss is None and options.flash is not None:
        spent = 0 if board is None else _flash_beside_weights(graph, data, board, options)
        recipe = replace(recipe, weight_bytes=max(options.flash - spent, 0))
    if recipe is not None and recipe.activations == "auto" and options.ram is not None:
        recipe = replace(recipe, ram_bytes=options.ram)

    def work() -> Quantized:
        return quantize(graph, data, recipe, progress.on_share)

    if not options.cache or (recipe is not None and is_own(recipe.metric)):  # what a function depends on nobody knows
        return work(), data
    runs = () if data.sequences is None else (data.sequences.inputs, data.sequences.starts)
    return recalled((graph, data.inputs, data.labels, runs, data.source, data.proven, recipe), Quantized, work), data


def _flash_beside_weights(graph: Graph, data: CalibrationInputs, board: Board, options: Options) -> int:
    """Bytes that the smallest kernels and all constants but the weights take, estimated with int8 weights."""
    numerics = options.numerics or Numerics.OURS
    plain = normalize(for_numerics(quantize(graph, data, UNPROVEN).graph, options))
    choices = candidates(take_inputs_as_computed(plain).graph, board.isa, numerics)
    return least_flash(choices) - weight_bytes(plain)


def for_numerics(graph: Graph, options: Options) -> Graph:
    """What tinyc quantized, with the scales that operators of the numerics asked for have: 1/255 is ours alone."""
    return graph if options.numerics in (None, Numerics.OURS) else as_in_files(graph)


def in_float(graph: Graph, floats: Graph | None, numerics: Numerics, options: Options) -> Graph:
    """The integer graph with the layers in float32 that are asked for, or that no integer kernel runs."""
    names = set(nodes_named(graph, options.float_layers))
    if options.float_fallback:
        able = [node for node in graph.nodes if op_of(node).float32 is not None]
        names |= {node.name for node in able if not _runs(graph, node, numerics)}
    return with_float_layers(graph, floats, names)


def _runs(graph: Graph, node: Node, numerics: Numerics) -> bool:
    """Whether portable kernels run the node."""
    try:
        candidates(replace(graph, nodes=(node,)), frozenset(), numerics)
    except TinycError:
        return False
    return True
