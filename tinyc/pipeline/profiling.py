# SPDX-License-Identifier: Apache-2.0
"""Where an inference spends its time on the board's machine."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.board import load_board
from tinyc.explain.cycles import Profile, core_of, model_cycles
from tinyc.explain.cycles.profile import (
    InferenceCost,
    LayerFacts,
    function_costs,
    hot_blocks,
    layer_costs,
    source_costs,
)
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import (
    as_integers,
    check_program_fits,
    chosen_samples,
    compile_library,
    input_bytes,
    run_samples,
    with_window,
)
from tinyc.run import Inputs, RunResult, find_target, firmware_board
from tinyc.run.flash_waits import counted_waits
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.disassembly import check_disassembler


@one_thread
def profile_model(path: Path, options: Options, progress: Progress, source: bool, most: int) -> Profile:
    """Where an inference spends its time on the board's core; in a temporary folder of which nothing is kept.

    source: the dearest source lines and the hottest code as well, at most `most` of each. Raises TinycError
    when the board's machine does not count instructions.
    """
    board = load_board(options.board)
    if board.is_host:
        raise TinycError("the host counts no instructions", hint="choose another board: `tinyc boards`")
    toolchain = find_toolchain(board, options.toolchain)
    find_target(board, options.emulator)  # a missing tool is said now
    check_disassembler(board)
    compiled = compile_model(path, board, options, progress)
    check_program_fits(board, compiled, None)
    board = with_window(board, compiled, options)
    target = find_target(board, options.emulator)
    samples = as_integers(chosen_samples(compiled, options), compiled)
    board = firmware_board(board, options.emulator)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        folder = Path(name)
        with progress.stage("compile"):
            firmware = compile_library(folder, compiled, board, options, toolchain)
        with progress.stage("run"):
            ran = run_samples(target, firmware, compiled, samples, progress)
        with progress.stage("profile"):
            profile = _profile(compiled, firmware, ran, folder, most if source else 0)
        with progress.stage("flash"):
            return _with_flash_waits(profile, firmware, input_bytes(compiled.graph, samples))


def _with_flash_waits(profile: Profile, firmware: Firmware, inputs: Inputs) -> Profile:
    """The profile with the waits for slow flash, where the board describes one, the core has cycles and unicorn is
    there to watch its reads."""
    timing = firmware.board.flash_timing
    if timing is None or profile.core is None:
        return profile
    profile, waits = replace(profile, wait_states=timing.wait_states), counted_waits(firmware, inputs)
    if waits is None:
        return profile
    layers = (replace(layer, flash_waits=waits.get(layer.step, 0) // len(inputs)) for layer in profile.layers)
    return replace(profile, layers=tuple(layers))


def _profile(compiled: Compiled, firmware: Firmware, ran: RunResult, folder: Path, most: int) -> Profile:
    elf = firmware.read_elf()
    board = firmware.board
    core = core_of(board.core)
    modelled = model_cycles(ran, elf, core)
    if modelled is None:
        raise TinycError(
            f"{ran.machine} does not count instructions", hint="`pip install 'tinyc[proof]'`, or a C compiler"
        )
    steps, splits = compiled.program.steps, compiled.program.splits
    facts = [LayerFacts(s.index, s.node.layer, s.title, s.choice.kernel.name, s.macs) for s in steps]
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
        cost=InferenceCost(instructions, modelled.total if core else None),
        layers=layer_costs(modelled, elf, ran.jumps, facts),
        functions=function_costs(modelled, elf),
        energy=board.energy,
        cores=compiled.program.cores,
        cycles_on_cores=modelled.on_cores(splits) if core and splits else None,
        sources=source_costs(modelled, firmware.elf, folder, most) if most else (),
        blocks=hot_blocks(modelled, elf, most) if most else (),
    )
