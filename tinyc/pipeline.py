"""The stages in order; the only module that knows them all.

load -> normalize -> quantize -> select -> plan -> lower -> emit -> build -> run -> verify -> report
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyc import __version__
from tinyc.accuracy import measure
from tinyc.board import Board, load_board
from tinyc.build.compile import Firmware, compile_firmware
from tinyc.build.device import Protocol
from tinyc.build.size import LibrarySize, check_fits, library_size
from tinyc.build.toolchain import Toolchain, find_toolchain
from tinyc.cycles import ModelledCycles, Profile, core_of, model_cycles
from tinyc.cycles.profile import Cost, LayerFacts, function_costs, hot_blocks, layer_costs, source_costs
from tinyc.emit.library import Info, emit_library
from tinyc.errors import TinycError
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.load import is_onnx, load_model
from tinyc.lower import Program, Step, lower
from tinyc.lower_rows import lower_streamed
from tinyc.memory import plan_memory, plan_window
from tinyc.numerics import Numerics
from tinyc.onboard import RENODE, add_device, add_renode, check_request
from tinyc.ops import all_ops
from tinyc.output_folder import REPORT_FILE, replacing
from tinyc.passes import normalize
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.passes.inputs import Perm, inputs_as_in_file, take_inputs_as_computed
from tinyc.plan import Plan
from tinyc.quantize import UNPROVEN, Pictures, Quantized, Recipe, calibrate, quantize, weight_bytes
from tinyc.quantize import Calibration as CalibrationInputs
from tinyc.report import SCHEMA, Calibration, Flash, Group, Layer, Report, Verify
from tinyc.run import InferenceCount, Inputs, RunError, RunResult, Target, find_target
from tinyc.run.flash_waits import flash_waits
from tinyc.run.unicorn import find_unicorn
from tinyc.samples import Samples, fit_samples, load_samples, moved, quantized, synthetic_samples
from tinyc.select import Choice, Goal, Optimize, candidates, choose
from tinyc.shrink import Memory
from tinyc.stream import StreamPlan, without_time_padding
from tinyc.verify import Comparison, Outputs, compare, expected_outputs, first_difference, reference_outputs

NOISE_SAMPLES = 8  # where nobody gives inputs


@dataclass(frozen=True, slots=True)
class Options:
    """What a build may be asked for. Paths are the user's; None stands for the documented default."""

    board: str
    name: str | None = None
    numerics: Numerics | None = None
    optimize: Optimize = "speed"
    calibration: Path | None = None  # a file, a folder, or `module:function`
    recipe: Recipe | None = None  # how a float model is quantized; None: automatically
    pictures: Pictures | None = None  # how pictures become inputs, where the calibration is a folder of them
    toolchain: str | None = None
    emulator: str | None = None
    inputs: Path | None = None
    expect: str | None = None
    flash_budget: int | None = None  # bytes of constants and kernel code; None: half of the board's flash
    ram_budget: int | None = None  # bytes of arena; None: the board's RAM
    memory: Memory = "balanced"
    input_rows: bool = False  # the library takes its input row by row
    incremental: int | None = None  # axis of time: the library keeps what overlapping windows share
    hop: int = 1  # new rows per call of an incremental library
    stream_unpadded: bool = False  # nothing is padded in time: another function
    samples: int = 20  # at most so many inputs run on the board; 0: all
    harness: Protocol = "tinyc"  # what the firmware for the board itself speaks
    task: str | None = None  # of MLPerf Tiny, for its harness


@dataclass
class Progress:
    """Seconds of each stage, and a callback that hears a stage begin. The pipeline's only mutable value."""

    on_stage: Callable[[str], None] = lambda stage: None
    on_warning: Callable[[str], None] = lambda message: None
    on_share: Callable[[str, float], None] = lambda what, share: None  # of a long stage: what, and how much is done
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.on_stage(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model after the stages that need no tool: the integer graph, the program, and the library's text."""

    path: Path
    sha256: str
    float_graph: Graph | None
    graph: Graph
    program: Program
    files: Mapping[str, str]
    calibration: CalibrationInputs | None
    plan: Plan | StreamPlan


def compile_model(path: Path, board: Board, options: Options, progress: Progress) -> Compiled:
    """Everything from the model file to the C text of the library. Runs no compiler, writes nothing."""
    with progress.stage("load"):
        loaded = load_model(path)
        check(loaded, "load", all_ops())
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    with progress.stage("normalize"):
        normal = normalize(loaded)  # checks the graph after each pass
    float_graph: Graph | None = None
    calibration: CalibrationInputs | None = None
    graph = normal
    perms: Mapping[str, Perm] = {}
    if is_float(normal):
        with progress.stage("quantize"):
            float_graph = normal
            quantized_model, calibration = quantize_float(path, normal, board, options, progress)
            relaid = take_inputs_as_computed(normalize(quantized_model.graph))
            graph, perms = relaid.graph, relaid.perms
            check(graph, "quantize", all_ops())
    elif options.calibration is not None:
        progress.on_warning("the model is quantized already: --calibration is not used")
    if float_graph is None and is_onnx(path):
        relaid = take_inputs_as_computed(graph)
        graph, perms = relaid.graph, relaid.perms
    numerics = options.numerics or _own_numerics(path, float_graph)
    check_stream_options(graph, perms, options)
    if options.stream_unpadded:
        float_graph, graph = None, without_time_padding(graph)  # the float model is another function
        check(graph, "stream", all_ops())
    with progress.stage("reduce"):
        graph = drop_dead_channels(graph, numerics)
        check(graph, "reduce", all_ops())
    with progress.stage("select"):
        found = candidates(graph, board.isa, numerics)
        choices = _choose(found, board, options)
    with progress.stage("plan"):
        flash = None if options.optimize == "size" else options.flash_budget or board.flash_bytes
        ram = options.ram_budget if options.ram_budget is not None else board.ram_bytes
        plan: Plan | StreamPlan
        if options.incremental is not None:
            plan = plan_window(graph, found, choices, options.optimize, options.memory, ram, flash, options.hop)
        else:
            choices, plan = plan_memory(
                graph, found, choices, options.optimize, options.memory, ram, flash, options.input_rows
            )
    with progress.stage("emit"):
        name = options.name or path.stem
        if isinstance(plan, StreamPlan):
            program = lower_streamed(graph, plan, numerics, name, perms)
        else:
            program = lower(graph, choices, plan, numerics, name, perms)
        files = emit_library(program, Info(path.name, sha256, board.name))
    return Compiled(path, sha256, float_graph, graph, program, files, calibration, plan)


def quantize_float(
    path: Path, graph: Graph, board: Board | None, options: Options, progress: Progress
) -> tuple[Quantized, CalibrationInputs]:
    """The normalized float graph of `path` in integers, by the options, and the calibration inputs.

    Weights of mixed width (`auto`) for a board: its flash budget less what code and other constants take with int8 weights.
    Without a board the flash budget is the weights' alone.
    """
    data = calibrate(path, graph, options.calibration, options.pictures)
    if not data.proven:
        progress.on_warning(
            "no calibration data: activation ranges come from synthetic inputs, accuracy is unproven; "
            f"give --calibration FILE.npz or put {path.stem}.calib.npz beside the model"
        )
    recipe = options.recipe
    if recipe is not None and recipe.weights == "auto" and recipe.max_loss is None and options.flash_budget is not None:
        spent = 0 if board is None else _flash_beside_weights(graph, data, board, options)
        recipe = replace(recipe, weight_bytes=max(options.flash_budget - spent, 0))
    return quantize(graph, data, recipe, progress.on_share), data


def _flash_beside_weights(graph: Graph, data: CalibrationInputs, board: Board, options: Options) -> int:
    """Bytes that the smallest kernels and all constants but the weights take, estimated with int8 weights."""
    numerics = options.numerics or Numerics.OURS
    plain = normalize(quantize(graph, data, UNPROVEN).graph)
    chosen = choose(candidates(take_inputs_as_computed(plain).graph, board.isa, numerics), Goal("size"))
    return sum(choice.cost.flash_bytes for choice in chosen.values()) - weight_bytes(plain)


def _own_numerics(path: Path, float_graph: Graph | None) -> Numerics:
    """The model's own where it came quantized: what the format's runtime computes."""
    if float_graph is not None:
        return Numerics.OURS
    return Numerics.ONNX if is_onnx(path) else Numerics.TFLM


def _choose(found: Mapping[str, Sequence[Choice]], board: Board, options: Options) -> dict[str, Choice]:
    """Within the user's flash budget; else within half of the board's flash, since the application needs some,
    or as small as can be where that is not enough."""
    if options.flash_budget is not None or board.flash_bytes is None:
        return choose(found, Goal(options.optimize, options.flash_budget))
    for budget in (board.flash_bytes // 2, board.flash_bytes):
        with suppress(TinycError):
            return choose(found, Goal(options.optimize, budget))
    return choose(found, Goal("size"))


def is_float(graph: Graph) -> bool:
    """Whether the model still has to be quantized: no value has a quantization."""
    return not any(value.quant for value in graph.values.values())


def build(path: Path, out: Path | None, options: Options, progress: Progress) -> tuple[Report, Path]:
    """The report of a model that was compiled, run on the board's machine and verified; and its folder.

    The folder (default `build/<name>`) holds the library, `firmware/` and `report.json`; it appears
    complete or not at all. With it come `device/`, firmware for the board itself where that has a UART, and
    `renode/` when that is the emulator: the proof is then another one's, and `run_renode` runs what was written. Raises
    TinycError, with exit code 1 when the model does not fit the board.
    """
    board = load_board(options.board)
    check_request(board, options.harness, options.task, options.emulator)
    compiled = compile_model(path, board, options, progress)
    target_folder = out or Path("build") / compiled.program.name
    proof = replace(options, emulator=None) if options.emulator == RENODE else options
    with replacing(target_folder) as folder:
        report = _build_in(folder, compiled, board, proof, progress)
        with progress.stage("device"):
            _add_for_board(folder, compiled, board, options, report)
        (folder / REPORT_FILE).write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    return report, target_folder


def _add_for_board(folder: Path, compiled: Compiled, board: Board, options: Options, report: Report) -> None:
    toolchain = find_toolchain(board, options.toolchain)
    program = compiled.program
    add_device(folder, program.name, board, toolchain, options.harness, options.task)
    if options.emulator == RENODE:
        _, samples = proof_samples(compiled, options)
        add_renode(folder, compiled.graph, program, samples, board, toolchain, report.instructions, report.machine)


def verify_model(path: Path, options: Options, progress: Progress) -> Report:
    """Like `build`, in a temporary folder of which nothing is kept."""
    board = load_board(options.board)
    return prove(compile_model(path, board, options, progress), board, options, progress)


def prove(compiled: Compiled, board: Board, options: Options, progress: Progress) -> Report:
    """The report of a model that `compile_model` has compiled for the board with these options."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        return _build_in(Path(folder), compiled, board, options, progress)


def proof_samples(compiled: Compiled, options: Options) -> tuple[Samples, Samples]:
    """What the proof runs on: as the model file takes it, and as the library does."""
    originals = _samples(compiled, options)
    return originals, _as_integers(originals, compiled)


def _build_in(folder: Path, compiled: Compiled, board: Board, options: Options, progress: Progress) -> Report:
    graph, program = compiled.graph, compiled.program
    check_ram_budget(compiled, options)
    _check_fits(board, compiled, None)
    originals, samples = proof_samples(compiled, options)
    toolchain = find_toolchain(board, options.toolchain)
    target = find_target(board, options.emulator)
    with progress.stage("compile"):
        firmware = _compile(folder, compiled, board, options, toolchain)
        size = library_size(firmware.library_object, toolchain, board, folder / "firmware")
        _check_fits(board, compiled, size)
    with progress.stage("reference"):
        wanted = reference_outputs(graph, program, samples)
        if options.expect is not None:
            wanted = expected_outputs(options.expect, graph, samples)
    with progress.stage("run"):
        ran = _run(target, firmware, compiled, samples)
    if ran.damaged_guards:
        raise TinycError(f"the library wrote outside its arena: {'; '.join(ran.damaged_guards)}", exit_code=1)
    compared = compare(graph, ran.outputs, wanted)
    with progress.stage("report"):
        found = _bisect(folder, compiled, board, options, toolchain, target, samples, compared)
        verdict = Verify(
            compared.inputs,
            compared.output_bytes,
            compared.mismatches,
            options.expect or "integer reference",
            found,
        )
        modelled = model_cycles(ran, firmware.read_elf(), core_of(board.core))
        return _report(compiled, board, options, toolchain, size, ran, modelled, verdict, originals, wanted)


def profile_model(path: Path, options: Options, progress: Progress, source: bool, most: int) -> Profile:
    """Where an inference spends its time on the board's core; in a temporary folder of which nothing is kept.

    source: the dearest source lines and the hottest code as well, at most `most` of each. Raises TinycError
    when the board's machine does not count instructions.
    """
    board = load_board(options.board)
    if board.is_host:
        raise TinycError("the host counts no instructions", hint="choose another board: `tinyc boards`")
    compiled = compile_model(path, board, options, progress)
    _check_fits(board, compiled, None)
    samples = _as_integers(_samples(compiled, options), compiled)
    toolchain = find_toolchain(board, options.toolchain)
    target = find_target(board, options.emulator)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        folder = Path(name)
        with progress.stage("compile"):
            firmware = _compile(folder, compiled, board, options, toolchain)
        with progress.stage("run"):
            ran = _run(target, firmware, compiled, samples)
        with progress.stage("profile"):
            found = _profile(compiled, firmware, ran, folder, most if source else 0)
        with progress.stage("flash"):
            return _with_flash_waits(found, firmware, _input_bytes(compiled.graph, samples))


def _with_flash_waits(profile: Profile, firmware: Firmware, inputs: Inputs) -> Profile:
    """The profile with the waits for slow flash, where the board describes one, the core has cycles and unicorn is
    there to watch its reads."""
    timing = firmware.board.flash_timing
    target = find_unicorn(firmware.board)
    if timing is None or target is None or profile.core is None:
        return profile
    waits = flash_waits(target, timing, firmware, inputs)
    layers = (replace(layer, flash_waits=waits.get(layer.step, 0) // len(inputs)) for layer in profile.layers)
    return replace(profile, layers=tuple(layers), wait_states=timing.wait_states)


def _compile(folder: Path, compiled: Compiled, board: Board, options: Options, toolchain: Toolchain) -> Firmware:
    """Writes the library into the folder, and builds the firmware in `firmware/` there."""
    for name, text in compiled.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return compile_firmware(folder, compiled.program.name, board, toolchain, options.optimize, folder / "firmware")


def _profile(compiled: Compiled, firmware: Firmware, ran: RunResult, folder: Path, most: int) -> Profile:
    elf = firmware.read_elf()
    board = firmware.board
    core = core_of(board.core)
    modelled = model_cycles(ran, elf, core)
    if modelled is None:
        raise TinycError(f"{ran.machine} does not count instructions", hint="`pip install unicorn`, or a C compiler")
    steps = compiled.program.steps
    facts = [LayerFacts(s.index, _layer_name(s), s.title, s.choice.kernel.name, s.macs) for s in steps]
    instructions = sum(line.executions for line in modelled.lines) // modelled.inferences
    return Profile(
        name=compiled.program.name,
        model=compiled.path.name,
        board=board.name,
        machine=ran.machine,
        toolchain=str(firmware.toolchain),
        core=core.name if core else None,
        error=core.error if core else None,
        clock_hz=board.clock_hz,
        inferences=modelled.inferences,
        macs=sum(step.macs for step in steps),
        cost=Cost(instructions, modelled.total if core else None),
        layers=layer_costs(modelled, elf, ran.jumps, facts),
        functions=function_costs(modelled, elf),
        sources=source_costs(modelled, firmware.elf, folder, most) if most else (),
        blocks=hot_blocks(modelled, elf, most) if most else (),
    )


def _layer_name(step: Step) -> str:
    """The user's own name of the layer."""
    return step.node.origin[0].name if step.node.origin else step.node.name


def _bisect(
    folder: Path,
    compiled: Compiled,
    board: Board,
    options: Options,
    toolchain: Toolchain,
    target: Target,
    samples: Samples,
    compared: Comparison,
) -> str | None:
    """The first step that differs from the integer reference, in words; None if the outputs are equal."""
    if compared.first_input is None:
        return None
    name = compiled.program.name
    firmware = compile_firmware(
        folder, name, board, toolchain, options.optimize, folder / "firmware" / "steps", dump_steps=True
    )
    one = samples.slice(compared.first_input, 1)
    ran = _run(target, firmware, compiled, one)
    found = first_difference(compiled.graph, compiled.program, one.sample(0, compiled.graph), ran.steps[0])
    return found or "every step equals the integer reference: the expected outputs come from other arithmetic"


def _run(target: Target, firmware: Firmware, compiled: Compiled, samples: Samples) -> RunResult:
    """What the machine gave; a run that broke off names the user's layer."""
    try:
        return target.run(firmware, _input_bytes(compiled.graph, samples))
    except RunError as error:
        step = error.step
        steps = compiled.program.steps
        raise error.located(steps[step].node.where if step is not None and step >= 0 else None) from error


def _input_bytes(graph: Graph, samples: Samples) -> list[list[bytes]]:
    rows = (samples.sample(index, graph) for index in range(len(samples)))
    return [[sample[name].tobytes() for name in graph.inputs] for sample in rows]


def _samples(compiled: Compiled, options: Options) -> Samples:
    """What the proof runs on, as the model file takes it: the user's inputs, else the calibration data, else noise."""
    graph = compiled.float_graph or inputs_as_in_file(compiled.graph, compiled.program.input_perms)
    if options.inputs is not None:
        found = load_samples(options.inputs, graph)
    elif compiled.calibration is not None and not options.stream_unpadded:  # that has a longer window
        found = fit_samples(compiled.calibration.inputs, graph, compiled.calibration.source)
    else:
        found = synthetic_samples(graph, min(options.samples, NOISE_SAMPLES) or NOISE_SAMPLES)
    return found.slice(0, options.samples or len(found))


def _as_integers(samples: Samples, compiled: Compiled) -> Samples:
    """The samples as the library takes them: quantized where the model came as floats."""
    if compiled.float_graph is None:
        return moved(samples, compiled.program.input_perms)
    return quantized(samples, compiled.graph, compiled.program.input_perms)


def check_stream_options(graph: Graph, perms: Mapping[str, Perm], options: Options) -> None:
    """Raises TinycError where the options of incremental libraries do not fit each other or the model."""
    if options.incremental is None:
        if options.stream_unpadded or options.hop != 1:
            raise TinycError("--hop and --stream-unpadded are options of --incremental AXIS")
        return
    if options.input_rows:
        raise TinycError("an incremental library takes rows anyway", hint="leave out --input-rows")
    if options.hop < 1:
        raise TinycError(f"a hop of {options.hop} rows: at least 1")
    first = graph.values[graph.inputs[0]]
    perm = perms.get(first.name)
    rows = perm[1] if perm else 1
    if options.incremental != rows or len(first.shape) < 3:
        raise TinycError(
            f"input '{first.name}' {list(first.shape)} has its rows on axis {rows}, not on axis {options.incremental}",
            first.loc,
            f"--incremental {rows}, if that is time; other axes cannot be streamed",
        )


def check_ram_budget(compiled: Compiled, options: Options) -> None:
    """Raises TinycError (exit code 1) when the arena is larger than the budget that the user gave, with what is
    missing, where, and what would help."""
    budget, plan = options.ram_budget, compiled.plan
    if budget is None or plan.arena_bytes <= budget:
        return
    steps = compiled.program.steps
    if isinstance(plan, StreamPlan):
        step, row = plan.turns[plan.peak]
        layer, moment = steps[step], f", row {row}," if row >= 0 else ""
    else:
        layer, moment = max(steps, key=lambda step: step.live_bytes), ""
    inputs = sum(compiled.graph.values[name].size_bytes for name in compiled.graph.inputs)
    helps = [f"the arena is fullest in step {layer.index} {layer.title} '{_layer_name(layer)}'{moment}".rstrip(",")]
    if plan.lower_bound_bytes > budget:
        helps.append(f"no placement of these layers takes less than {plan.lower_bound_bytes:,}")
    if not options.input_rows and len(compiled.graph.inputs) == 1:
        helps.append(f"the input takes {inputs:,} of them: try --input-rows")
    helps.append("`tinyc plan` shows what lies in the arena when")
    raise TinycError(
        f"the smallest arena found takes {plan.arena_bytes:,} bytes, the budget is {budget:,}: "
        f"{plan.arena_bytes - budget:,} too few",
        layer.node.where,
        "; ".join(helps),
        exit_code=1,
    )


def _check_fits(board: Board, compiled: Compiled, size: LibrarySize | None) -> None:
    """`check_fits`, with the layer that weighs most added to the hint."""
    program = compiled.program
    try:
        check_fits(board, size, program.arena_bytes)
    except TinycError as error:
        if size is not None:
            layer = max(program.steps, key=lambda step: step.const_bytes)
            worst = f"most constants: {layer.title} '{layer.node.name}' with {layer.const_bytes:,} bytes"
        else:
            layer = max(program.steps, key=lambda step: step.live_bytes)
            worst = f"most memory: {layer.title} '{layer.node.name}' with {layer.live_bytes:,} bytes in and out"
        raise TinycError(error.message, layer.node.where, f"{worst}; {error.hint}", error.exit_code) from error


def _report(
    compiled: Compiled,
    board: Board,
    options: Options,
    toolchain: Toolchain,
    size: LibrarySize,
    ran: RunResult,
    modelled: ModelledCycles | None,
    verdict: Verify,
    originals: Samples,
    outputs: Outputs,
) -> Report:
    program = compiled.program
    counted = ran.counts[0] if ran.counts else None
    core = modelled.core if modelled else None
    data = compiled.calibration
    return Report(
        schema=SCHEMA,
        tinyc=__version__,
        model=compiled.path.name,
        model_sha256=compiled.sha256,
        name=program.name,
        board=board.name,
        machine=ran.machine,
        toolchain=str(toolchain),
        optimize=options.optimize,
        numerics=program.numerics.value,
        macs=sum(step.macs for step in program.steps),
        arena_bytes=program.arena_bytes,
        arena_lower_bound_bytes=program.arena_lower_bound_bytes,
        stack_bytes=ran.stack_bytes,
        flash=Flash(size.code_bytes, size.const_bytes),
        instructions=counted.total if counted else None,
        overhead_instructions=counted.overhead if counted else None,
        layers=tuple(_layer(step, counted, modelled) for step in program.steps),
        verify=verdict,
        calibration=Calibration(data.source, data.samples, data.proven) if data else None,
        accuracy=measure(compiled.float_graph, compiled.graph, originals, outputs)
        if compiled.float_graph is not None
        else None,
        cycles=modelled.total if modelled and core else None,
        cycle_model=f"{core.name}, zero wait states; error: {core.error}" if core else None,
        groups=tuple(Group(stream.steps[0], stream.steps[-1], stream.turns) for stream in program.streams),
        calls=program.incremental.calls if program.incremental else 1,
        input_rows=program.row_input is not None,
    )


def _layer(step: Step, counted: InferenceCount | None, modelled: ModelledCycles | None) -> Layer:
    output = step.outputs[0]
    return Layer(
        step=step.index,
        name=_layer_name(step),
        op=step.title,
        kernel=step.choice.kernel.name,
        input_shapes=tuple(place.value.shape for place in step.inputs if place and place.offset is not None),
        output_shape=output.value.shape,
        macs=step.macs,
        const_bytes=step.const_bytes,
        arena=(output.offset or 0, output.end),
        scratch_bytes=step.scratch_bytes,
        instructions=counted.steps.get(step.index, 0) if counted else None,
        cycles=modelled.of_step(step.index) if modelled and modelled.core else None,
    )
