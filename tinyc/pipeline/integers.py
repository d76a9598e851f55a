# SPDX-License-Identifier: Apache-2.0
"""From the model file to integers: a list of stages, each of which makes another draft of the last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.names import some_of
from tinyc.base.numerics import Numerics
from tinyc.base.one_thread import one_thread
from tinyc.board import Board
from tinyc.frontend import Camera, Joined, join_camera, load_camera
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.load import is_onnx, is_own, load_model, other_signatures
from tinyc.load.states import Asked, said
from tinyc.ops import all_ops
from tinyc.ops.quantize import as_litert
from tinyc.options.build import Options
from tinyc.options.recipe import ActivationScales
from tinyc.passes import normalize
from tinyc.passes.attention import join_attention
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.passes.inputs import Perm, take_inputs_as_computed
from tinyc.passes.integer_ports import float_islands, has_scales, rounded_loops
from tinyc.passes.tables import join_tables
from tinyc.pipeline.changes import changes_of
from tinyc.pipeline.float_models import for_numerics, in_float, quantize_float
from tinyc.pipeline.joining import with_front_end
from tinyc.pipeline.precision import is_float, own_numerics, precision_of, stays_float
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.streaming import by_rows, check_stream_options
from tinyc.quantize import Calibration as CalibrationInputs
from tinyc.quantize.missing_scales import MissingScales
from tinyc.verify.report import Change


@dataclass(frozen=True, slots=True)
class IntegerModel:
    """A model as integers: what may be compiled for any board."""

    path: Path
    sha256: str
    graph: Graph
    float_graph: Graph | None = None  # what the integers are compared with; None where the file held integers
    calibration: CalibrationInputs | None = None
    perms: Mapping[str, Perm] = field(default_factory=dict)  # inputs whose axes differ from the file's
    numerics: Numerics = Numerics.OURS
    front: Joined | None = None  # the front end that is part of the graph before the model
    changes: tuple[Change, ...] = ()  # what of the file is no step
    quantized_from: Graph | None = None  # the float graph as its values were quantized, each channel in its own scale
    activations: ActivationScales | None = None  # of a float model: what others need to run on the same code
    camera: Camera | None = None  # what is part of the graph before the model


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """What a model is compiled from, and for. The board matters where weights of mixed width have to fit its flash."""

    path: Path
    board: Board
    options: Options
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDraft(IntegerModel):
    """A model on its way from the file to integers."""

    loaded: Graph  # what the file holds
    whole: Graph  # with what no output needs
    stays_float: bool = False  # it is to run in float32


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the way. The graph is checked behind it."""

    name: str  # as progress and messages have it
    work: Callable[[ModelDraft, CompileRequest], ModelDraft]
    is_needed: Callable[[ModelDraft, CompileRequest], bool] = lambda draft, request: True


@one_thread
def make_integers(path: Path, board: Board, options: Options, progress: Progress) -> IntegerModel:
    """The integer graph of a model file; a float model is quantized. Raises TinycError."""
    with progress.stage("load"):
        loaded = load_with_states(path, options, progress)
        check(loaded, "load", all_ops())
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        draft = ModelDraft(path, sha256, loaded, loaded=loaded, whole=loaded)
    options = replace(options, precision=precision_of(path, loaded, options, progress))
    request = CompileRequest(path, board, options, progress)
    for stage in STAGES:
        if stage.is_needed(draft, request):
            with progress.stage(stage.name):
                draft = stage.work(draft, request)
                check(draft.graph, stage.name, all_ops())
    return draft


def load_with_states(path: Path, options: Options, progress: Progress) -> Graph:
    """The graph of the file; inputs and outputs that are state are so there. Says which were found by their names, and
    what of a quantized file gets scales from the calibration data."""
    scales = MissingScales(path, options.calibration, options.pictures, options.sequence)
    if options.signature is None and (others := other_signatures(path)):
        progress.on_warning(others)
    graph = load_model(path, options.outputs, Asked(options.states, options.state_init), scales, options.signature)
    if scales.scaled:
        progress.on_warning(f"not quantized in the file, scales from the calibration data: {some_of(scales.scaled)}")
    if is_onnx(path) and (states := said(graph, Asked(options.states, options.state_init))):
        progress.on_warning(states)
    return graph


def _normalized(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    options = request.options
    is_litert = options.numerics is Numerics.LITERT and not is_onnx(request.path)
    loaded = as_litert(draft.loaded) if is_litert else draft.loaded
    graph = normalize(loaded, options.precision == "float32")  # checks the graph after each pass
    stays = stays_float(request.path, graph, options)
    if options.calibration is not None and not stays and not is_float(graph):
        words = "the model is quantized already: --calibration is used for missing scales only"
        request.progress.on_warning(words)
    if has_scales(graph) and (islands := float_islands(graph)):
        layers = some_of(node.layer for node in islands)
        request.progress.on_warning(f"in float32, as the file has it: {layers}")
    numerics = options.numerics or own_numerics(request.path, is_float(graph) and not stays)
    return replace(draft, graph=graph, stays_float=stays, numerics=numerics)


def _is_to_be_quantized(draft: ModelDraft, request: CompileRequest) -> bool:
    return is_float(draft.graph) and not draft.stays_float


def _quantized(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    options = request.options
    quantized, calibration = quantize_float(request.path, draft.graph, request.board, options, request.progress)
    relaid = take_inputs_as_computed(normalize(for_numerics(quantized.graph, options)))
    return replace(
        draft,
        float_graph=draft.graph,
        graph=relaid.graph,
        perms=relaid.perms,
        calibration=calibration,
        quantized_from=quantized.float_graph,
        activations=quantized.activations,
    )


def _has_other_axes(draft: ModelDraft, request: CompileRequest) -> bool:
    return draft.float_graph is None and is_onnx(request.path)


def _with_inputs_as_computed(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    relaid = take_inputs_as_computed(draft.graph)
    return replace(draft, graph=relaid.graph, perms=relaid.perms)


def _takes_rows(draft: ModelDraft, request: CompileRequest) -> bool:
    """Or has options that only such libraries have."""
    o = request.options
    return o.input_rows or o.stream_unpadded or o.hop != 1 or (o.incremental, o.picture) != (None, None)


def _by_rows(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    check_stream_options(draft.graph, draft.perms, request.options)
    graph = by_rows(draft.graph, request.options)
    return replace(draft, graph=graph, float_graph=None if request.options.stream_unpadded else draft.float_graph)


def _with_camera(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    graph, camera = join_camera(draft.graph, load_camera(request.options.picture or ""))
    return replace(draft, graph=graph, camera=camera, float_graph=None, perms={})


def _with_front_end(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    front = with_front_end(draft.graph, request.options, draft.numerics)
    return replace(draft, graph=front.graph, front=front, float_graph=None, perms={})  # the model begins with features


def _reduced(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    """Without what no output needs."""
    graph = draft.graph if draft.stays_float else drop_dead_channels(draft.graph, draft.numerics)
    return replace(draft, graph=graph, whole=draft.graph)


def _has_float_layers(draft: ModelDraft, request: CompileRequest) -> bool:
    return not draft.stays_float and bool(request.options.float_layers or request.options.float_fallback)


def _with_float_layers(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    return replace(draft, graph=in_float(draft.graph, draft.quantized_from, draft.numerics, request.options))


def _with_changes(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    return replace(draft, changes=changes_of(draft.loaded, draft.whole, draft.graph))


def _is_integer(draft: ModelDraft, request: CompileRequest) -> bool:
    return not draft.stays_float


def _joined(draft: ModelDraft, request: CompileRequest) -> ModelDraft:
    if not is_own(request.path) and (loops := rounded_loops(draft.graph)):
        layers = some_of(node.layer for node in loops)
        request.progress.on_warning(
            "rows of weights for inputs and for states have scales of their own, where a loop of integers has one for"
            f" both, and rounds weights once more: {layers}; --float-layers computes what the file has"
        )
    graph = join_attention(draft.graph, draft.numerics)
    return replace(draft, graph=join_tables(graph, draft.numerics))


STAGES = (
    Stage("normalize", _normalized),
    Stage("quantize", _quantized, _is_to_be_quantized),
    Stage("inputs", _with_inputs_as_computed, _has_other_axes),
    Stage("rows", _by_rows, _takes_rows),
    Stage("picture", _with_camera, lambda draft, request: request.options.picture is not None),
    Stage("front end", _with_front_end, lambda draft, request: request.options.frontend is not None),
    Stage("reduce", _reduced),
    Stage("float layers", _with_float_layers, _has_float_layers),
    Stage("changes", _with_changes),
    Stage("join", _joined, _is_integer),
)
