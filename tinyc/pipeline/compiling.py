# SPDX-License-Identifier: Apache-2.0
"""From the model file to the C text of the library; needs no tool."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.names import some_of
from tinyc.base.numerics import Numerics
from tinyc.base.one_thread import one_thread
from tinyc.board import Board
from tinyc.board.parts import FlashTiming
from tinyc.choose.select import FASTEST, Choice, Goal, candidates, choose, least_flash, made_small, repriced
from tinyc.choose.slow_flash import RamCode, SlowFlash
from tinyc.emit.blob import with_blob
from tinyc.emit.fetching import with_fetches
from tinyc.emit.in_ram import with_ram_code
from tinyc.emit.library import Info, blob_of, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.emit.push import with_push
from tinyc.explain.estimate import library_flash
from tinyc.export import as_in_files
from tinyc.frontend import Camera, Joined, join_camera, load_camera
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Node
from tinyc.kernels.scalar.loops.headers import cores_of
from tinyc.load import is_onnx, load_model, other_signatures
from tinyc.load.states import Asked, said
from tinyc.machine.target import written_for
from tinyc.ops import all_ops, op_of
from tinyc.options.build import Optimize, Options, Precision
from tinyc.options.recipe import KeptActivations, Recipe
from tinyc.options.words import shaping
from tinyc.passes import normalize
from tinyc.passes.attention import join_attention
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.passes.inputs import Perm, take_inputs_as_computed
from tinyc.passes.integer_ports import float_islands, has_scales, trees_among_floats
from tinyc.passes.phases import as_convolutions
from tinyc.passes.time_rows import time_as_rows
from tinyc.pipeline.changes import changes_of
from tinyc.pipeline.flash_budget import Tried, check_flash, in_flash, with_reserve
from tinyc.pipeline.joining import takes_integers, with_front_end
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import ACTIVATIONS, check_same_code, find_blob, read_activations
from tinyc.plan.answer import Plan
from tinyc.plan.layout import OF_TIME, WORTHWHILE, Aim, Kernels, plan_memory, plan_window
from tinyc.plan.parts import SlowPart
from tinyc.plan.rows import without_time_padding
from tinyc.plan.shrink import MEMORY_PRICE
from tinyc.quantize import UNPROVEN, Quantized, calibrate, quantize, weight_bytes
from tinyc.quantize import Calibration as CalibrationInputs
from tinyc.quantize.cached import kept
from tinyc.quantize.float_layers import nodes_named, with_float_layers
from tinyc.quantize.missing_scales import MissingScales
from tinyc.verify.report import Change

BESIDE_ARENA = 4096  # bytes of other variables, where the arena may take all of a RAM
_ESTIMATED = 50  # flash is estimated to one part of so many
_WORD = 4  # bytes that most accesses of kernels have
INTERPRETER_BYTES = 58 * 1024  # TensorFlow Lite Micro with CMSIS-NN and the operators of the MLPerf Tiny models
# What its model files hold beside constants: a scale and a zero point of each channel, and of an operator, with its
# tensors, 450 to 1,200 bytes.
_CHANNEL_BYTES = 12
_OPERATOR_BYTES = 700
_SYSTEM_BUS = 0x2000_0000  # where the addresses begin that an Armv7-M core fetches over the same bus as data
_MOST_FOR_A_BYTE = 64.0  # cycles that a byte of RAM may have to save; and prices that are tried
_PRICES = 9
_SLOW = 2  # times as long as what is nearly as small
APPLICATION_BYTES = 12 * 1024  # of flash that are left beside a library where it would fill it: our test firmware's


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model after the stages that need no tool: the integer graph, the program, and the library's text.

    choices: the kernels that may run each node. changes: what of the file is no step. quantized_from: the float graph
    as its values were quantized, each channel in a scale of its own where they were equalized. front, camera: the
    front end or camera that is part of the graph. blob: the constants, where they are apart from the code.
    activations: of a float model, what others need to run on the same code.
    """

    path: Path
    sha256: str
    float_graph: Graph | None
    graph: Graph
    program: Program
    files: Mapping[str, str]
    calibration: CalibrationInputs | None
    plan: Plan
    choices: Mapping[str, Sequence[Choice]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    quantized_from: Graph | None = None
    front: Joined | None = None
    blob: bytes | None = None
    activations: KeptActivations | None = None
    camera: Camera | None = None


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph as a board runs it, the steps of its library, how its memory is planned, and the kernels that may run
    each node."""

    graph: Graph
    program: Program
    plan: Plan
    choices: Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True)
class IntegerModel:
    """A model as integers: what may be compiled for any board. perms: inputs whose axes differ from the file's. front,
    camera: what is part of the graph before the model."""

    path: Path
    sha256: str
    graph: Graph
    float_graph: Graph | None
    calibration: CalibrationInputs | None
    perms: Mapping[str, Perm]
    numerics: Numerics
    front: Joined | None = None
    changes: tuple[Change, ...] = ()
    quantized_from: Graph | None = None
    activations: KeptActivations | None = None
    camera: Camera | None = None


@one_thread
def compile_model(path: Path, board: Board, options: Options, progress: Progress) -> Compiled:
    """Everything from the model file to the C text of the library. Runs no compiler, writes nothing."""
    return compile_integers(make_integers(path, board, options, progress), board, options, progress)


@one_thread
def make_integers(path: Path, board: Board, options: Options, progress: Progress) -> IntegerModel:
    """The integer graph of a model file; a float model is quantized. The board matters where weights of mixed width
    have to fit its flash."""
    with progress.stage("load"):
        loaded = load_with_states(path, options, progress)
        check(loaded, "load", all_ops())
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    options = replace(options, precision=precision_of(path, loaded, options, progress))
    with progress.stage("normalize"):
        graph = normalize(loaded, options.precision == "float32")  # checks the graph after each pass
    float_graph: Graph | None = None
    calibration: CalibrationInputs | None = None
    scaled: Graph | None = None
    activations: KeptActivations | None = None
    perms: Mapping[str, Perm] = {}
    stays = stays_float(path, graph, options)
    if is_float(graph) and not stays:
        with progress.stage("quantize"):
            float_graph = graph
            made, calibration = quantize_float(path, graph, board, options, progress)
            scaled, activations = made.float_graph, made.activations
            relaid = take_inputs_as_computed(normalize(_for_numerics(made.graph, options)))
            graph, perms = relaid.graph, relaid.perms
            check(graph, "quantize", all_ops())
    elif options.calibration is not None and not stays:
        progress.on_warning("the model is quantized already: --calibration is used for missing scales only")
    if float_graph is None and is_onnx(path):
        relaid = take_inputs_as_computed(graph)
        graph, perms = relaid.graph, relaid.perms
    numerics = options.numerics or _own_numerics(path, float_graph)
    check_stream_options(graph, perms, options)
    graph = _by_rows(graph, options)
    camera = None
    if options.picture is not None:
        graph, camera = join_camera(graph, load_camera(options.picture))
        check(graph, "picture", all_ops())
        float_graph, perms = None, {}
    if options.stream_unpadded:
        float_graph = None  # it is another function
    front = None if options.frontend is None else with_front_end(graph, options, numerics)
    if front is not None:
        float_graph, graph, perms = None, front.graph, {}  # the float model begins with features
    with progress.stage("reduce"):
        whole, graph = graph, graph if stays else drop_dead_channels(graph, numerics)
        check(graph, "reduce", all_ops())
    if not stays and (options.float_layers or options.float_fallback):
        graph = _in_float(graph, scaled, numerics, options)
        check(graph, "float layers", all_ops())
    changes = changes_of(loaded, whole, graph)
    if not stays:
        graph = join_attention(graph, numerics)
        check(graph, "join", all_ops())
    return IntegerModel(
        path, sha256, graph, float_graph, calibration, perms, numerics, front, changes, scaled, activations, camera
    )


def _by_rows(graph: Graph, options: Options) -> Graph:
    """The graph as rows of time go through it, where the options ask for that."""
    if options.incremental is not None or options.input_rows:
        graph = time_as_rows(graph)
        check(graph, "rows", all_ops())
    if options.stream_unpadded:
        graph = without_time_padding(graph)
        check(graph, "stream", all_ops())
    return graph


@one_thread
def compile_integers(made: IntegerModel, board: Board, options: Options, progress: Progress) -> Compiled:
    """From the integer graph to the C text of the library for a board."""
    lowered = lower_integers(made, board, options, progress)
    program = lowered.program
    with progress.stage("emit"):
        loops = cores_of(board.core, board.isa)
        info = Info(made.path.name, made.sha256, board.name, options=shaping(options), loops=loops)
        files = emit_library(program, info)
        constants = blob_of(program, info) if options.weights_blob else None
        if options.like is not None and constants is not None:
            check_same_code(options.like, program.name, files, constants)
    return Compiled(
        made.path,
        made.sha256,
        made.float_graph,
        lowered.graph,
        program,
        files,
        made.calibration,
        lowered.plan,
        lowered.choices,
        made.changes,
        made.quantized_from,
        made.front,
        constants,
        made.activations,
        made.camera,
    )


@one_thread
def lower_integers(made: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    """From the integer graph to the steps of the library for a board: all that says what it costs, and no text.

    Raises TinycError with exit code 1 where no library that is found takes as little flash as the user allows.
    """
    graph = as_convolutions(made.graph, grow=options.optimize != "size")
    check(graph, "phases", all_ops())
    if options.flash_budget is None:
        return _lowered(graph, made, board, options, progress)
    return _within(graph, made, board, options, progress)


def _within(graph: Graph, made: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    """The graph's steps, by kernels whose library keeps the budget of flash as it is estimated."""
    asked = options.flash_budget or 0

    def attempt(budget: int | None, optimize: Optimize = options.optimize) -> Tried[tuple[Lowered, list[str]]]:
        warnings: list[str] = []
        quiet = replace(progress, on_warning=warnings.append)
        lowered = _lowered(graph, made, board, replace(options, flash_budget=budget, optimize=optimize), quiet)
        said, taken = lowered.plan.flash_bytes, library_flash(lowered.program, board)
        return Tried((lowered, warnings), said, said if taken is None else with_reserve(taken))

    best = in_flash(attempt, asked)
    if options.optimize != "size":
        small = attempt(None, "size")  # does without the last bytes, which cost most
        times = [tried.made[0].plan.time for tried in (small, best)]
        if times[0] < times[1] and small.taken <= asked:
            best = small
        elif _SLOW * times[0] < times[1]:
            progress.on_warning("only slow kernels fit the flash budget: with --optimize size faster ones may")
    lowered, warnings = best.made
    for warning in warnings:  # of what was tried beside it nobody hears
        progress.on_warning(warning)
    check_flash(lowered.program, best.taken, asked)
    return lowered


def _lowered(graph: Graph, made: IntegerModel, board: Board, options: Options, progress: Progress) -> Lowered:
    """The graph's steps, by the kernels and plan that the options lead to."""
    laid = _lay_out(graph, made.numerics, board, options, progress)
    turned = time_as_rows(graph)
    if turned is not graph:
        check(turned, "rows", all_ops())
        with suppress(TinycError):  # where no kernel runs that form of a layer
            laid = better_of(laid, _lay_out(turned, made.numerics, board, options, progress), options)
    with progress.stage("lower"):
        program = _program(made, laid, _name(made.path, options))
        program = with_blob(program) if options.weights_blob else program
        if options.stream_weights is not None:
            program = with_fetches(program, options.stream_weights)
            if not program.fetches:
                words = f"no weights of layers that run whole fit half of --stream-weights {options.stream_weights}"
                progress.on_warning(f"{words}: all are read where they are")
        if options.ram_code is not None:
            program = with_ram_code(program, options.ram_code, board.flash_timing, runs_code_from_ram(board))
        return Lowered(laid.graph, program, laid.plan, laid.choices)


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A graph, the kernels that may run each node, and the plan of its memory. fits: the RAM."""

    graph: Graph
    choices: Mapping[str, Sequence[Choice]]
    plan: Plan
    fits: bool


def better_of(straight: LaidOut, turned: LaidOut, options: Options) -> LaidOut:
    """The faster of two, or the one with a smaller arena where that is worth its time; of equals the first."""
    if straight.fits != turned.fits:
        return straight if straight.fits else turned
    if options.optimize == "size":
        return min(straight, turned, key=lambda one: (one.plan.flash_bytes, one.plan.arena_bytes))
    fast, slow = sorted((straight, turned), key=lambda one: (one.plan.time, one.plan.arena_bytes))
    worth = slow.plan.arena_bytes < WORTHWHILE[options.memory] * fast.plan.arena_bytes
    price = MEMORY_PRICE[options.memory] * (OF_TIME if slow.plan.runs_by_rows else 1)
    return slow if worth and slow.plan.time <= fast.plan.time * (1 + price) else fast


def _lay_out(graph: Graph, numerics: Numerics, board: Board, options: Options, progress: Progress) -> LaidOut:
    with progress.stage("select"):
        timing = board.flash_timing
        choices: Mapping[str, Sequence[Choice]]
        flash = None if timing is None else SlowFlash(timing)
        choices = candidates(graph, board.isa, numerics, flash=flash, core=written_for(board.core, timing is not None))
        choices = made_small(choices) if options.optimize == "size" else choices
        if options.ram_code is not None and timing is not None:
            choices = _with_ram(graph, choices, timing, board, options)
        chosen = tuple(_chosen(graph, choices, board, options))
    with progress.stage("plan"):
        plan = _laid_out(graph, choices, chosen, board, options)
    for refused in plan.refused:
        progress.on_warning(f"a better plan was refused by its check, please report it as a bug of tinyc: {refused}")
    ram = _aim(board, options, None).ram_bytes
    return LaidOut(graph, choices, plan, ram is None or plan.arena_bytes <= ram)


def _name(path: Path, options: Options) -> str:
    """Of the library: as asked for, else that of the code that is there, else the file's."""
    if options.name is None and options.like is not None:
        return find_blob(options.like)[0]
    return options.name or path.stem


def load_with_states(path: Path, options: Options, progress: Progress) -> Graph:
    """The graph of the file; inputs and outputs that are state are so there. Says which were found by their names, and
    what of a quantized file gets scales from the calibration data."""
    scales = MissingScales(path, options.calibration, options.pictures, options.sequence)
    if options.signature is None and (others := other_signatures(path)):
        progress.on_warning(others)
    graph = load_model(path, options.outputs, Asked(options.states, options.state_init), scales, options.signature)
    if scales.scaled:
        progress.on_warning(f"not quantized in the file, scales from the calibration data: {some_of(scales.scaled)}")
    if has_scales(graph) and (islands := float_islands(graph)):
        layers = some_of(node.layer for node in islands)
        progress.on_warning(f"in float32, as the file has it: {layers}")
    if is_onnx(path) and (states := said(graph, Asked(options.states, options.state_init))):
        progress.on_warning(states)
    return graph


def _program(made: IntegerModel, laid: LaidOut, name: str) -> Program:
    program = lower(laid.graph, laid.plan, made.numerics, name, made.perms)
    front = made.front
    return program if front is None else with_push(program, front.samples, front.held, front.runs, front.primed)


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
    recipe = options.recipe
    if options.like is not None:
        recipe = replace(recipe or Recipe(), like=read_activations(options.like))
    if recipe is not None and recipe.weights == "auto" and recipe.max_loss is None and options.flash_budget is not None:
        spent = 0 if board is None else _flash_beside_weights(graph, data, board, options)
        recipe = replace(recipe, weight_bytes=max(options.flash_budget - spent, 0))
    if recipe is not None and recipe.activations == "auto" and options.ram_budget is not None:
        recipe = replace(recipe, ram_bytes=options.ram_budget)

    def work() -> Quantized:
        return quantize(graph, data, recipe, progress.on_share)

    if not options.cache:
        return work(), data
    runs = () if data.sequences is None else (data.sequences.inputs, data.sequences.starts)
    return kept((graph, data.inputs, runs, data.source, data.proven, recipe), Quantized, work), data


def _flash_beside_weights(graph: Graph, data: CalibrationInputs, board: Board, options: Options) -> int:
    """Bytes that the smallest kernels and all constants but the weights take, estimated with int8 weights."""
    numerics = options.numerics or Numerics.OURS
    plain = normalize(_for_numerics(quantize(graph, data, UNPROVEN).graph, options))
    choices = candidates(take_inputs_as_computed(plain).graph, board.isa, numerics)
    return least_flash(choices) - weight_bytes(plain)


def _for_numerics(graph: Graph, options: Options) -> Graph:
    """What tinyc quantized, with the scales that operators of the numerics asked for have: 1/255 is ours alone."""
    return graph if options.numerics in (None, Numerics.OURS) else as_in_files(graph)


def _own_numerics(path: Path, float_graph: Graph | None) -> Numerics:
    """The model's own where it came quantized: what the format's runtime computes."""
    if float_graph is not None:
        return Numerics.OURS
    return Numerics.ONNX if is_onnx(path) else Numerics.TFLM


def _with_ram(
    graph: Graph, choices: Mapping[str, Sequence[Choice]], timing: FlashTiming, board: Board, options: Options
) -> Mapping[str, Sequence[Choice]]:
    """The candidates at the price of a byte of RAM at which the best of them take what `--ram-code` allows."""
    budget, code = options.ram_code or 0, runs_code_from_ram(board)
    low, high, best = 0.0, _MOST_FOR_A_BYTE, choices
    for price in (0.0, *[None] * _PRICES):
        tried = (low + high) / 2 if price is None else price
        offered = repriced(choices, SlowFlash(timing, RamCode(tried, code)))
        chosen, _ = next(_chosen(graph, offered, board, options))
        taken = sum(choice.cost.ram_code + choice.cost.ram_consts for choice in chosen.values())
        if taken <= budget:
            best, high = offered, tried
        else:
            low = tried
        if best is offered and tried == 0:
            break
    return best


def runs_code_from_ram(board: Board) -> bool:
    """Whether the core fetches code from a RAM of the board without waiting: one that the board names, or the main one.
    Not from that of a Cortex-M3 or M4 at 0x2000_0000 and above, whose code comes over the bus of its data, a cycle
    later (their manuals, "Bus interfaces"), nor from the tightly coupled RAM for data of a Cortex-M7 or M55."""
    memory = board.memory
    if memory is None or board.startup != "cortex-m":
        return False
    shared = board.core in ("cortex-m3", "cortex-m4") and memory.ram_origin >= _SYSTEM_BUS
    return memory.code is not None or not (shared or board.core in ("cortex-m7", "cortex-m55"))


def _chosen(
    graph: Graph, choices: Mapping[str, Sequence[Choice]], board: Board, options: Options
) -> Iterator[tuple[dict[str, Choice], int | None]]:
    """The fastest kernels, and the bytes that constants and kernels may take: the user's.

    By default first those of the model's file and of an interpreter's code, so that no model takes more flash
    compiled than interpreted, where arena and time are not wanted before flash. Not where the flash is slow: forms that
    take less of it wait for more. Then kernels within half of the board's flash, since the application needs some, or,
    on a board that an interpreter would fill beyond that, within what it would take; where that is not enough, within
    all of the flash but what the smallest application needs, and at last the fastest of those that are estimated as
    small as can be.
    """
    is_slow = board.flash_timing is not None
    price = FASTEST if options.optimize == "speed" and (options.memory == "speed" or is_slow) else None
    if options.flash_budget is not None or board.flash_bytes is None:
        budget = options.flash_budget and max(options.flash_budget, least_flash(choices))
        yield choose(choices, Goal(options.optimize, budget, price)), budget
        return
    usual = interpreted_bytes(graph)
    room = max(board.flash_bytes // 2, min(usual, board.flash_bytes - APPLICATION_BYTES))
    if _wants_all_small(options) and not is_slow:
        with suppress(TinycError):
            budget = min(usual, room)
            yield choose(choices, Goal(options.optimize, budget)), budget
    for budget in (room, board.flash_bytes - APPLICATION_BYTES, board.flash_bytes):
        with suppress(TinycError):
            yield choose(choices, Goal(options.optimize, budget, price)), board.flash_bytes
            return
    least = least_flash(choices)
    yield choose(choices, Goal(options.optimize, least + least // _ESTIMATED, price)), board.flash_bytes


def interpreted_bytes(graph: Graph) -> int:
    """Flash that an interpreter would take for the model: its code, and the file."""
    quants = [graph.values[name].quant for name in graph.consts]
    channels = sum(len(quant.scale) for quant in quants if quant is not None)
    constants = sum(array.nbytes for array in graph.consts.values())
    return INTERPRETER_BYTES + constants + _CHANNEL_BYTES * channels + _OPERATOR_BYTES * len(graph.nodes)


def _wants_all_small(options: Options) -> bool:
    """Whether neither time nor arena nor a library that is called for every window is asked for before flash."""
    other = options.ram_budget is not None or options.by_calls
    return options.memory == "balanced" and options.optimize == "speed" and not other


def _laid_out(
    graph: Graph,
    choices: Mapping[str, Sequence[Choice]],
    chosen: Sequence[tuple[dict[str, Choice], int | None]],
    board: Board,
    options: Options,
) -> Plan:
    """Of the first of the chosen kernels that fit the RAM, else of the last."""

    def planned(kernels: dict[str, Choice], flash_bytes: int | None) -> Plan:
        aim = _aim(board, options, flash_bytes)
        if options.by_calls:
            return plan_window(graph, Kernels(choices, kernels), aim, options.hop)
        return plan_memory(graph, Kernels(choices, kernels), aim, options.input_rows)

    ram = _aim(board, options, None).ram_bytes
    for kernels, flash_bytes in chosen[:-1]:
        with suppress(TinycError):  # where less flash leaves no way for the input to come by rows
            plan = planned(kernels, flash_bytes)
            if ram is None or plan.arena_bytes <= ram:
                return plan
    return planned(*chosen[-1])


def _aim(board: Board, options: Options, flash_bytes: int | None) -> Aim:
    """What the user asks for, and else what the board has."""
    ram, slow = board.ram_bytes if options.ram_budget is None else options.ram_budget, _slow_part(board, options)
    if slow is not None and board.memory is not None and options.ram_budget is None:
        ram = board.memory.ram_bytes - board.memory.stack_bytes - BESIDE_ARENA
    return Aim(options.optimize, options.memory, ram, flash_bytes, slow)


def _slow_part(board: Board, options: Options) -> SlowPart | None:
    """The board's second RAM, for libraries that can have a part of their arena there: those that are called once for
    an inference, with all of the input."""
    ram = board.slow_ram
    if ram is None or options.input_rows or options.by_calls or options.frontend is not None:
        return None
    share = ram.accesses(_WORD) / _WORD
    return SlowPart(ram.bytes, ram.read_waits * share, ram.write_waits * share)


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
    asked = options.recipe is not None or options.float_layers or options.float_fallback or like
    if asked or takes_integers(options) or not is_float(graph) or not (graph.classical or trees_among_floats(graph)):
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
        raise TinycError(message, hint="leave out --float and --float-fallback")
    if options.recipe is not None:
        message = "with --precision float32 nothing is quantized"
        raise TinycError(message, hint="leave out the options of quantizing, or --precision")
    return True


def _in_float(graph: Graph, floats: Graph | None, numerics: Numerics, options: Options) -> Graph:
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


def is_float(graph: Graph) -> bool:
    """Whether the model computes in floats, and nothing but trees has integers with a scale of their own."""
    values = graph.values.values()
    return (not has_scales(graph) or trees_among_floats(graph)) and any(value.dtype == "f32" for value in values)


def check_stream_options(graph: Graph, perms: Mapping[str, Perm], options: Options) -> None:
    """Raises TinycError where the options of incremental libraries do not fit each other or the model."""
    if options.frontend is not None and options.input_rows:
        message = "a library with a front end takes samples, not rows"
        raise TinycError(message, hint="leave out --input-rows")
    if options.picture is not None and (options.frontend is not None or options.incremental is not None):
        message = "a library with a picture before its model takes frames of a camera"
        raise TinycError(message, hint="leave out --frontend and --incremental, or --picture")
    if options.incremental is None:
        if options.stream_unpadded or options.hop != 1:
            message = "--hop and --stream-unpadded are options of --incremental AXIS"
            raise TinycError(message, hint="give it too; docs/memory.md, Sliding windows")
        return
    if options.input_rows:
        raise TinycError("an incremental library takes rows anyway", hint="leave out --input-rows")
    if options.hop < 1:
        raise TinycError(f"a hop of {options.hop} rows: at least 1", hint="leave out --hop, for 1")
    first = graph.values[graph.inputs[0]]
    perm = perms.get(first.name)
    rows = perm[1] if perm else next((axis for axis, n in enumerate(first.shape) if axis and n > 1), 1)
    flat = options.frontend is not None and first.shape[-1] == first.elements  # the front end knows its frames
    if options.incremental == rows and len(first.shape) < 3 and not flat:
        message = f"input '{first.name}' {list(first.shape)} has no rows of numbers: [1, steps, numbers] is needed"
        raise TinycError(message, first.loc, "leave out --incremental, or give the input an axis of steps")
    if options.incremental != rows:
        raise TinycError(
            f"input '{first.name}' {list(first.shape)} has its rows on axis {rows}, not on axis {options.incremental}",
            first.loc,
            f"--incremental {rows}, if that is time; other axes cannot be streamed",
        )
