# SPDX-License-Identifier: Apache-2.0
"""Whether a model computes in integers or in float32, and whose integers they are."""

from __future__ import annotations

from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load import is_onnx
from tinyc.options.build import Options, Precision
from tinyc.passes.integer_ports import has_scales, trees_among_floats
from tinyc.pipeline.joining import takes_integers
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import ACTIVATIONS


def precision_of(path: Path, graph: Graph, options: Options, progress: Progress) -> Precision:
    """What a model computes in, where `auto` is asked for: models of classical learning, and decision trees among
    layers that compute with reals, in float32, unless options of quantizing, or what comes before the model, ask
    for integers; all others in integers."""
    unread = options.calibration is not None and options.inputs is None
    if options.precision != "auto":
        if options.precision == "float32" and unread:
            words = "with --precision float32 nothing is calibrated: give the data as --inputs to run on them"
            progress.on_warning(words)
        return options.precision
    like = options.like is not None and (options.like / ACTIVATIONS).is_file()  # else it was left in float32, too
    asked = options.asked_recipe is not None or options.float_layers or options.float_fallback or like
    computes_with_reals = is_float(graph) and (graph.classical or trees_among_floats(graph))
    if asked or not computes_with_reals or takes_integers(options):
        return "integer"
    progress.on_warning(
        f"{path.name} is a model of classical learning and computes in float32"
        + (": give the data as --inputs to run on them; " if unread else "; ")
        + "--precision integer --calibration FILE quantizes it"
    )
    return "float32"


def stays_float(path: Path, graph: Graph, options: Options) -> bool:
    """Whether the model is to run in float32. TinycError where it is quantized already, or options ask for integers."""
    if options.precision != "float32":
        return False
    if not is_float(graph):
        message = "the model is quantized already, and --precision float32 needs a float model"
        raise TinycError(message, Loc(path.name), "leave out --precision, or give the float model")
    if options.float_layers or options.float_fallback:
        message = "with --precision float32 every layer is float32"
        raise TinycError(message, hint="leave out --float-layers and --float-fallback")
    if options.asked_recipe is not None:
        message = "with --precision float32 nothing is quantized"
        raise TinycError(message, hint="leave out the options of quantizing, or --precision")
    return True


def is_float(graph: Graph) -> bool:
    """Whether the model computes in floats, and nothing but trees has integers with a scale of their own."""
    values = graph.values.values()
    return (not has_scales(graph) or trees_among_floats(graph)) and any(value.dtype == "f32" for value in values)


def own_numerics(path: Path, is_quantized_here: bool) -> Numerics:
    """The model's own where it came quantized: what the format's runtime computes."""
    if is_quantized_here:
        return Numerics.OURS
    return Numerics.ONNX if is_onnx(path) else Numerics.TFLM
