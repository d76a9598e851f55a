# SPDX-License-Identifier: Apache-2.0
"""The firmware of a compiled model, run on the board's machine and compared byte for byte."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyc import __version__
from tinyc.base.errors import Loc, Missed, TinycError
from tinyc.base.files import sha256_of_file
from tinyc.board import Board
from tinyc.emit.library import Proof, with_proof
from tinyc.emit.program import Program
from tinyc.explain.cycles import core_of, model_cycles, rules_in_words
from tinyc.explain.memory_map import map_of, memory_report
from tinyc.ir.graph import Graph
from tinyc.machine.cores import SLOW_FLASH_ERROR, SLOW_FLASH_SHARES
from tinyc.options.build import Options
from tinyc.options.words import build_arguments, files_of
from tinyc.passes.inputs import inputs_as_in_file
from tinyc.pipeline.choosing import cycles_within
from tinyc.pipeline.compiling import Compiled
from tinyc.pipeline.layer_reports import layer_reports, layer_sqnr
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.weights import ACTIVATIONS, activations_text
from tinyc.reference.pictures import pictured
from tinyc.reference.recording import recorded
from tinyc.reference.samples import SYNTHETIC, Samples, fit_samples, load_samples, moved, quantized, synthetic_samples
from tinyc.run import RunError, RunResult, Target, find_target, firmware_board
from tinyc.run.base import Inputs
from tinyc.run.flash_waits import counted_waits
from tinyc.run.slow_waits import slow_waits
from tinyc.run.unicorn import UnicornTarget
from tinyc.toolchain.compile import Checks, Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import OPTIMIZE_FLAGS, Toolchain, find_toolchain
from tinyc.toolchain.size import LibrarySize, check_fits, library_size
from tinyc.verify.accuracy import measure
from tinyc.verify.compare import Outputs, compare, expected_outputs, first_difference, reference_outputs
from tinyc.verify.report import (
    SCHEMA,
    Accuracy,
    CalibrationReport,
    EnergyReport,
    Flash,
    GroupReport,
    NamedFile,
    RamCodeReport,
    Report,
    SlowReport,
    UnprovedReport,
    Verify,
    reference_name,
)
from tinyc.verify.verdict import check_limits

NOISE_SAMPLES = 8  # where nobody gives inputs
_BESIDE_WINDOW = 4096  # bytes of variables of the test
_PAGE = 32768


def prove(compiled: Compiled, board: Board, options: Options, progress: Progress) -> Report:
    """The report of a model that `compile_model` has compiled for the board with these options."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        return prove_in(Path(folder), compiled, board, options, progress)


def prove_in(folder: Path, compiled: Compiled, board: Board, options: Options, progress: Progress) -> Report:
    graph, program = compiled.graph, compiled.program
    check_ram(compiled, options)
    check_program_fits(board, compiled, None)
    given = given_samples(compiled, options)
    originals = _first_of(given, options)
    samples = as_integers(originals, compiled)
    toolchain = find_toolchain(board, options.toolchain)
    board = with_window(board, compiled, options)
    target = find_target(board, options.emulator)
    board = firmware_board(board, options.emulator)
    with progress.stage("compile"):
        firmware = compile_library(folder, compiled, board, options, toolchain)
        firmware = replace(firmware, sequence=samples.sequence)
        size = library_size(firmware.library_object, toolchain, board, folder / "firmware")
        check_program_fits(board, compiled, size)
        check_compiled_flash(compiled, size, options)
    with progress.stage("reference"):
        counted = progress.counted("reference", len(samples))
        expected = reference_outputs(graph, program, samples, counted, samples.sequence)
        accuracy = measured_accuracy(compiled, options, given, expected, progress)
        if options.expect is not None:
            expected = expected_outputs(options.expect, graph, samples)
    with progress.stage("run"):
        ran = run_samples(target, firmware, compiled, samples, progress)
    if ran.damaged_guards:
        raise TinycError(f"the library wrote outside its arena: {'; '.join(ran.damaged_guards)}", exit_code=1)
    compared = compare(graph, ran.outputs, expected)
    with progress.stage("report"):
        difference = None
        if compared.first_input is not None:
            some = _leading_to(compared.first_input, samples, compiled)
            difference = _bisect(folder, compiled, firmware, target, some)
        verdict = Verify(
            compared.inputs,
            compared.output_bytes,
            compared.mismatches,
            options.expect or reference_name(program.kind),
            difference,
        )
        sqnr = layer_sqnr(compiled, originals, samples)
        report = Report(
            **_planned(compiled, board, options),
            **_counted(compiled, options, firmware, ran, sqnr),
            flash=Flash(size.code_bytes, size.const_bytes),
            ram_code=_ram_code(size, compiled.program),
            verify=verdict,
            accuracy=accuracy,
        )
        _tell_time(report, board, options, progress)
        first = input_bytes(graph, samples.slice(0, 1))
        return _with_energy(_with_counted_waits(report, target, firmware, first), firmware, first)


def write_proof(folder: Path, compiled: Compiled, report: Report) -> Compiled:
    """Says in the library's banner, in the folder too, what the report says of it."""
    files = proved_files(compiled, report)
    source = f"{report.name}.c"
    (folder / source).write_text(files[source], encoding="utf-8")
    return replace(compiled, files=files)


def proved_files(compiled: Compiled, report: Report) -> Mapping[str, str]:
    """The files of a library whose banner says what the report says of it."""
    source, verdict = f"{report.name}.c", report.verify
    proof = Proof(
        toolchain=report.toolchain,
        flag=OPTIMIZE_FLAGS[report.optimize],
        machine=report.machine,
        code_bytes=report.flash.code_bytes,
        const_bytes=report.flash.const_bytes,
        stack_bytes=report.stack_bytes,
        instructions=report.instructions,
        calls=report.calls,
        inputs=verdict.inputs,
        output_bytes=verdict.output_bytes,
        mismatches=verdict.mismatches,
        by_reference=verdict.against == reference_name(compiled.program.kind),
        kind=compiled.program.kind,
    )
    return {**compiled.files, source: with_proof(compiled.files[source], proof)}


def write_unproved(
    folder: Path, compiled: Compiled, board: Board, options: Options, toolchain: Toolchain | None, progress: Progress
) -> UnprovedReport:
    """Writes the library into the folder, and what can be said without running it. It is compiled where there is a
    compiler, to tell its size. Raises TinycError, with exit code 1, where it does not fit the board."""
    check_ram(compiled, options)
    check_program_fits(board, compiled, None)
    size: LibrarySize | None = None
    with progress.stage("accuracy"):
        accuracy = measured_accuracy(compiled, options, given_samples(compiled, options), (), progress)
    with progress.stage("compile"):
        write_library(folder, compiled)
        if toolchain is not None:
            with tempfile.TemporaryDirectory(prefix="tinyc-") as work:
                firmware = compile_library(Path(work), compiled, board, options, toolchain)
                size = library_size(firmware.library_object, toolchain, board, Path(work) / "firmware")
            check_program_fits(board, compiled, size)
            check_compiled_flash(compiled, size, options)
    return UnprovedReport(
        **_planned(compiled, board, options),
        layers=layer_reports(compiled),
        toolchain=None if toolchain is None else str(toolchain),
        flash=None if size is None else Flash(size.code_bytes, size.const_bytes),
        ram_code=None if size is None else _ram_code(size, compiled.program),
        accuracy=accuracy,
    )


def with_window(board: Board, compiled: Compiled, options: Options) -> Board:
    """The board as the test needs it: where the library takes its input by rows, with room behind its RAM for the whole
    window, which is the test's own. That the library and a stack fit the board's RAM is checked here."""
    if board.memory is None or not _by_rows(options):
        return board
    memory = board.memory
    check_fits(board, None, compiled.program.arena_bytes, memory.stack_bytes)
    more = -(-_window_bytes(compiled) // _PAGE) * _PAGE
    return replace(board, memory=replace(memory, ram_bytes=memory.ram_bytes + more))


def holds_window(board: Board, compiled: Compiled, options: Options) -> bool:
    """Whether firmware that keeps whole inputs for a library that takes rows fits the board's own RAM."""
    if board.memory is None or not _by_rows(options):
        return True
    needed = compiled.program.arena_bytes + board.memory.stack_bytes + _window_bytes(compiled)
    return needed <= board.memory.ram_bytes


def _by_rows(options: Options) -> bool:
    return options.input_rows or options.by_calls


def _window_bytes(compiled: Compiled) -> int:
    """Bytes of a whole input, with the test's other variables."""
    return sum(compiled.graph.values[name].size_bytes for name in compiled.graph.inputs) + _BESIDE_WINDOW


def proof_samples(compiled: Compiled, options: Options) -> tuple[Samples, Samples]:
    """What the proof runs on: as the model file takes it, and as the library does."""
    originals = chosen_samples(compiled, options)
    return originals, as_integers(originals, compiled)


def chosen_samples(compiled: Compiled, options: Options) -> Samples:
    """What the proof runs on, as the model file takes it: the first of `given_samples`."""
    return _first_of(given_samples(compiled, options), options)


def _first_of(given: Samples, options: Options) -> Samples:
    """As many as the proof runs on; a recording is heard to its end."""
    return given if options.wav is not None else given.slice(0, options.samples or len(given))


def given_samples(compiled: Compiled, options: Options) -> Samples:
    """All inputs that there are, as the model file takes them: the user's, else the calibration data, else noise."""
    graph = compiled.float_graph or inputs_as_in_file(compiled.graph, compiled.program.input_perms)
    if options.wav is not None:
        return _recorded(options.wav, compiled, options)
    if options.image is not None:
        return pictures_for(compiled, options)[0]
    data = compiled.calibration if begins_as_in_file(compiled, options) else None
    if options.inputs is not None:
        samples = load_samples(options.inputs, graph)
    elif data is not None and data.sequences is not None:
        samples = fit_samples(data.sequences.inputs, replace(graph, states=()), data.source)
        samples = replace(samples, starts=data.sequences.starts)
    elif data is not None:
        samples = fit_samples(data.inputs, graph, data.source)
    else:
        samples = synthetic_samples(graph, min(options.samples, NOISE_SAMPLES) or NOISE_SAMPLES)
    return replace(samples, starts=tuple(range(0, len(samples), options.sequence))) if options.sequence else samples


def measured_accuracy(
    compiled: Compiled, options: Options, given: Samples, proved: Outputs, progress: Progress
) -> Accuracy | None:
    """What the integers lose, on all inputs that were given. proved: the reference's outputs of the first of them.
    Raises TinycError where the user allows less (`check_limits`)."""
    accuracy = None
    if given.source != SYNTHETIC and (compiled.float_graph is not None or given.labels is not None):
        outputs, graph, sequence = proved, compiled.graph, given.sequence
        if len(proved) < len(given):
            counted, integers = progress.counted("accuracy", len(given)), as_integers(given, compiled)
            outputs = reference_outputs(graph, compiled.program, integers, counted, sequence)
        metric = None if options.recipe is None else options.recipe.metric
        accuracy = measure(compiled.float_graph, graph, given, outputs, progress.on_warning, metric)
    if accuracy is not None and takes_calibration(compiled, options):
        accuracy = replace(accuracy, on_calibration=True)
    check_limits(accuracy, options, compiled.path.name)
    return accuracy


def takes_calibration(compiled: Compiled, options: Options) -> bool:
    """Whether the inputs are those that the model was quantized with."""
    given = (options.inputs, options.wav, options.image)
    return compiled.calibration is not None and all(each is None for each in given)


def begins_as_in_file(compiled: Compiled, options: Options) -> bool:
    """Whether the library takes what the model's calibration is made of: no front end, and no longer window."""
    return compiled.front is None and compiled.camera is None and not options.stream_unpadded


def pictures_for(compiled: Compiled, options: Options) -> tuple[Samples, list[str]]:
    """The pictures of `options.image` as the library takes them. TinycError where it takes none, or they do not fit."""
    assert options.image is not None
    if compiled.camera is None:
        raise TinycError("a picture is for a library with a camera", Loc(str(options.image)), "give --picture too")
    if options.inputs is not None or options.wav is not None:
        raise TinycError("--image, --wav and --inputs are ways to give inputs", hint="leave out all but one")
    return pictured(options.image, compiled.camera, compiled.graph.values[compiled.graph.inputs[0]])


def _recorded(path: Path, compiled: Compiled, options: Options) -> Samples:
    if compiled.front is None:
        raise TinycError("a recording is for a library with a front end", Loc(str(path)), "give --frontend too")
    if options.inputs is not None:
        raise TinycError("--wav and --inputs are two ways to give inputs", hint="leave one out")
    return recorded(path, compiled.front.rate, compiled.front.axes, compiled.graph.values[compiled.front.samples])


def as_integers(samples: Samples, compiled: Compiled) -> Samples:
    """The samples as the library takes them: quantized where the model came as floats."""
    if compiled.float_graph is None:
        return moved(samples, compiled.program.input_perms)
    return quantized(samples, compiled.graph, compiled.program.input_perms)


def input_bytes(graph: Graph, samples: Samples) -> list[list[bytes]]:
    rows = (samples.sample(index, graph) for index in range(len(samples)))
    return [[sample[name].tobytes() for name in graph.inputs] for sample in rows]


def write_library(folder: Path, compiled: Compiled) -> None:
    for name, text in compiled.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    if compiled.blob is not None and compiled.activations is not None:
        (folder / ACTIVATIONS).write_text(activations_text(compiled.activations), encoding="utf-8")
    if compiled.blob is not None:
        (folder / f"{compiled.program.name}.blob").write_bytes(compiled.blob)


def compile_library(folder: Path, compiled: Compiled, board: Board, options: Options, toolchain: Toolchain) -> Firmware:
    """Writes the library into the folder, and builds the firmware in `firmware/` there."""
    write_library(folder, compiled)
    sources = Sources(folder, compiled.program.name)
    firmware = compile_firmware(sources, board, toolchain, compiled.program.optimize, folder / "firmware")
    return replace(firmware, sequence=options.sequence)


def run_samples(
    target: Target, firmware: Firmware, compiled: Compiled, samples: Samples, progress: Progress | None = None
) -> RunResult:
    """What the machine gave; a run that broke off names the user's layer."""

    def tell(done: int, of: int) -> None:
        if progress is not None:
            progress.on_share("run", done / of)

    try:
        return target.run(firmware, input_bytes(compiled.graph, samples), on_progress=tell)
    except RunError as error:
        step = error.step
        steps = compiled.program.steps
        raise error.located(steps[step].node.where if step is not None and step >= 0 else None) from error


def _leading_to(wrong: int, samples: Samples, compiled: Compiled) -> Samples:
    """The sample whose outputs are wrong, of a model with state with all that led to it."""
    first = wrong
    if compiled.graph.states:
        first -= first % samples.sequence if samples.sequence else first
    return samples.slice(first, wrong + 1 - first)


def _bisect(folder: Path, compiled: Compiled, built: Firmware, target: Target, samples: Samples) -> str | None:
    """The first step whose output for the last sample differs from the integer reference, in words."""
    sources, steps = Sources(folder, compiled.program.name), folder / "firmware" / "steps"
    optimize = compiled.program.optimize
    firmware = compile_firmware(sources, built.board, built.toolchain, optimize, steps, Checks(dump_steps=True))
    ran = run_samples(target, firmware, compiled, samples)
    rows = [samples.sample(index, compiled.graph) for index in range(len(samples))]
    difference = first_difference(compiled.graph, compiled.program, rows, ran.steps[-1])
    reference = reference_name(compiled.program.kind)
    return difference or f"every step equals the {reference}: the expected outputs come from other arithmetic"


# What goes with no library that takes its input by rows, and when that is asked for.
_NOT_BY_ROWS: Sequence[tuple[str, Callable[[Options], bool]]] = (
    ("with --cores 1", lambda options: options.cores > 1),
    ("without --stream-weights", lambda options: options.stream_weights is not None),
)


def check_ram(compiled: Compiled, options: Options) -> None:
    """Raises TinycError (exit code 1) when the arena is larger than the user allows, with what is
    missing, where, and what would help."""
    budget, plan, arena_bytes = options.ram, compiled.plan, compiled.program.arena_bytes
    if budget is None or arena_bytes <= budget:
        return
    steps = {step.node.name: step for step in compiled.program.steps}
    moments = [moment for moment in map_of(compiled.graph, plan).moments if moment.node in steps]
    fullest = max(moments, key=lambda moment: moment.live_bytes)
    layer, row = steps[fullest.node], "" if fullest.row is None else f", row {fullest.row},"
    inputs = sum(compiled.graph.values[name].size_bytes for name in compiled.graph.inputs)
    helps = [f"the arena is fullest in step {layer.index} {layer.title} '{layer.node.layer}'{row}".rstrip(",")]
    if plan.lower_bound_bytes > budget:
        helps.append(f"no placement of these layers takes less than {plan.lower_bound_bytes:,}")
    if not (options.input_rows or options.by_calls) and len(compiled.graph.inputs) == 1:
        other = [words for words, given in _NOT_BY_ROWS if given(options)]
        helps.append(f"the input takes {inputs:,} of them: try " + " ".join(["--input-rows", *other]))
    helps.append("`tinyc estimate --map` shows what lies in the arena when")
    raise TinycError(
        f"the smallest arena found takes {arena_bytes:,} bytes, --ram is {budget:,}: {arena_bytes - budget:,} too few",
        layer.node.where,
        "; ".join(helps),
        exit_code=1,
        missed=[Missed("RAM", "bytes", budget, arena_bytes)],
    )


def check_compiled_flash(compiled: Compiled, size: LibrarySize, options: Options) -> None:
    """Raises TinycError (exit code 1) when the compiled library is larger than the user allows: kernels
    were chosen by estimates of what a compiler makes of C."""
    budget, taken = options.flash, size.code_bytes + size.const_bytes
    if budget is None or taken <= budget:
        return
    layer = max(compiled.program.steps, key=lambda step: step.const_bytes)
    # Within a larger limit more code is chosen, by estimates: only without one a build is sure to say what it takes.
    smaller = "with the same limit takes less"
    if options.prefer == "flash":
        smaller = "without --flash builds a small library, and says how many bytes it takes"
    raise TinycError(
        f"the compiled library takes {taken:,} bytes of flash, --flash is {budget:,}: {taken - budget:,} too few",
        layer.node.where,
        f"kernels were chosen by estimates of their code; `--prefer flash` {smaller}; this layer has the most "
        f"constants, {layer.const_bytes:,} bytes",
        exit_code=1,
        missed=[Missed("flash", "bytes", budget, taken)],
    )


def _tell_time(report: Report, board: Board, options: Options, progress: Progress) -> None:
    """A warning where an inference takes longer than the user allows: kernels were chosen by estimates."""
    cycles = report.cycles if report.cycles_on_cores is None else report.cycles_on_cores
    if options.time is None or cycles is None or cycles <= (limit := cycles_within(options.time, board)):
        return
    progress.on_warning(
        f"--time {options.time} is missed: the run took {cycles:,} modelled cycles, {cycles - limit:,} too many; "
        "kernels were chosen by estimates of their time, and a smaller --time chooses faster ones"
    )


def check_program_fits(board: Board, compiled: Compiled, size: LibrarySize | None) -> None:
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
        raise error.but(where=layer.node.where, hint=f"{worst}; {error.hint}") from error


def _counted(
    compiled: Compiled, options: Options, firmware: Firmware, ran: RunResult, sqnr: Mapping[str, float | None]
) -> dict[str, Any]:
    """The fields of a report that a run measures."""
    counted = ran.counts[0] if ran.counts else None
    modelled = model_cycles(ran, firmware.read_elf(), core_of(firmware.board.core))
    core, splits = modelled.core if modelled else None, compiled.program.splits
    return {
        "machine": ran.machine,
        "toolchain": str(firmware.toolchain),
        "stack_bytes": ran.stack_bytes,
        "instructions": counted.total if counted else None,
        "overhead_instructions": counted.overhead if counted else None,
        "layers": layer_reports(compiled, counted, modelled, sqnr),
        "cycles": modelled.total if modelled and core else None,
        "cycles_on_cores": modelled.on_cores(splits) if modelled and core and splits else None,
        "cycle_model": rules_in_words(core) if core else None,
    }


def _planned(compiled: Compiled, board: Board, options: Options) -> dict[str, Any]:
    """The fields of a report that are known before anything runs."""
    program, data = compiled.program, compiled.calibration
    return {
        "schema": SCHEMA,
        "tinyc": __version__,
        "model": compiled.path.name,
        "model_sha256": compiled.sha256,
        "name": program.name,
        "board": board.name,
        "optimize": program.optimize,
        "numerics": program.arithmetic,
        "macs": sum(step.macs for step in program.steps),
        "cores": program.cores,
        "arena_bytes": program.arena_bytes,
        "arena_lower_bound_bytes": program.arena_lower_bound_bytes,
        "calibration": CalibrationReport(data.source, data.samples, data.proven) if data else None,
        "groups": tuple(GroupReport(stream.steps[0], stream.steps[-1], stream.turns) for stream in program.streams),
        "calls": program.incremental.calls if program.incremental else 1,
        "input_rows": program.row_input is not None,
        "state_bytes": program.arena_bytes - program.state_offset,
        "changes": compiled.changes,
        "slow": _slow_report(compiled, board),
        "memory": memory_report(map_of(compiled.graph, compiled.plan)),
        "arguments": build_arguments(replace(options, flash_reserve=compiled.flash_reserve)),
        "files": tuple(NamedFile(file.name, sha256_of_file(file)) for file in files_of(options)),
    }


def _ram_code(size: LibrarySize, program: Program) -> RamCodeReport | None:
    """What start-up code copies to RAM; None where nothing may be. TinycError where that is more than allowed."""
    if program.in_ram is None:
        return None
    budget = program.in_ram.budget
    if size.ram_bytes > budget:
        message = f"{size.ram_bytes:,} bytes would be copied to RAM, {budget:,} are there"
        raise TinycError(message, hint="a defect of tinyc's estimates: give --ram-code less, and tell its authors")
    return RamCodeReport(size.ram_code_bytes, size.ram_const_bytes, budget)


def _slow_report(compiled: Compiled, board: Board) -> SlowReport | None:
    """What lies in the board's second RAM; None where nothing does."""
    plan, ram = compiled.plan, board.slow_ram
    if ram is None or not plan.slow_bytes:
        return None
    return SlowReport(ram.name, plan.slow_bytes, plan.slow_waits, counted=False)


def _with_energy(report: Report, firmware: Firmware, inputs: Inputs) -> Report:
    """With what an inference takes, where the board's file says what a cycle does, and its flash's waits are known."""
    energy = firmware.board.energy
    waits = counted_waits(firmware, inputs) if energy is not None and report.cycles is not None else None
    if energy is None or report.cycles is None or waits is None:
        return report
    cycles = report.cycles + sum(waits.values())
    least, most = energy.between(cycles, SLOW_FLASH_SHARES)
    source = f"{SLOW_FLASH_ERROR}, at {energy.said}"
    figures = EnergyReport(round(energy.microjoules(cycles), 1), round(least, 1), round(most, 1), cycles, source)
    return replace(report, energy=figures)


def _with_counted_waits(report: Report, target: Target, firmware: Firmware, inputs: Inputs) -> Report:
    """With the waits of every access to the second RAM, where the emulator can tell."""
    ram = firmware.board.slow_ram
    if report.slow is None or ram is None or not isinstance(target, UnicornTarget):
        return report
    return replace(report, slow=replace(report.slow, waits=slow_waits(target, ram, firmware, inputs), counted=True))
