# SPDX-License-Identifier: Apache-2.0
"""Random networks at random options: integer reference, host with sanitizers and cores agree on every byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.fuzz.case import WrongError
from tests.fuzz.networks import network, pieces, samples
from tests.fuzz.quantized import in_qdq
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import Board, load_board
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import as_integers, check_ram, compile_library, run_samples, with_window
from tinyc.reference.samples import Samples, synthetic_samples
from tinyc.run import Target, find_target
from tinyc.run.host import HostTarget
from tinyc.toolchain.compile import Checks, Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain
from tinyc.verify.compare import compare, reference_outputs

CORES = ("cortex-m4", "cortex-m0plus", "cortex-m55", "riscv32imc")
OTHER_CORES = 0.2
RELATED = {"cortex-m4": ("cortex-m7", "cortex-m7-psram", "cortex-m33"), "cortex-m0plus": ("cortex-m3",)}
IN_PLACE = 0.25  # how often a related core is in a core's place
RUNS = 3  # inferences


@dataclass(frozen=True, slots=True)
class Wish:
    """What a case asks for beside its network."""

    options: Mapping[str, Any]
    recipe: Mapping[str, Any]
    qdq: bool = False


Choice = Callable[[np.random.Generator], dict[str, Any]]


def _of(key: str, *values: Any) -> Choice:
    return lambda rng: {key: values[rng.integers(len(values))]}


# Each may be left out, as the blocks of the network may.
CHOICES: tuple[tuple[float, Choice], ...] = (
    (0.7, _of("prefer", "time", "ram")),
    (0.5, _of("prefer", "flash", "balanced")),
    (0.1, _of("flash", 6_000, 12_000, 40_000)),
    (0.15, _of("ram", 700, 1_500, 4_000)),
    (0.2, _of("input_rows", True)),
    (0.2, lambda rng: {"incremental": 2, "hop": int(rng.integers(1, 6)), "stream_unpadded": bool(rng.random() < 0.7)}),
    (0.25, _of("weights", "int4", "int4", "auto")),
    (0.25, _of("activations", "int16", "int16", "auto")),
    (0.1, _of("numerics", Numerics.TFLM, Numerics.LITERT)),
    (0.2, _of("qdq", True)),
    (0.12, _of("precision", "float32")),
    (0.12, lambda rng: {"float_layers": (f"*{rng.integers(10)}*",)}),
    (0.1, _of("float_fallback", True)),
    (0.1, _of("weights_blob", True)),
    (0.12, _of("cores", 2, 2, 3)),
)
_RECIPE = ("weights", "activations")


def count(seed: int) -> int:
    """Blocks of the network, then choices, then cores."""
    return len(pieces(seed)) + len(CHOICES) + len(CORES)


def cores(seed: int, subset: frozenset[int]) -> list[str]:
    """One core, now and then others too: what is wrong on two cores is seen on one, and a network costs seconds."""
    rng = np.random.default_rng([seed, 999])
    first, others = rng.integers(len(CORES)), rng.random(len(CORES)) < OTHER_CORES
    at = len(pieces(seed)) + len(CHOICES)
    cores_drawn = [core for n, core in enumerate(CORES) if (n == first or others[n]) and at + n in subset]
    drawn = np.random.default_rng([seed, 998])
    instead = {core: str(drawn.choice(others)) for core, others in RELATED.items() if drawn.random() < IN_PLACE}
    return [instead.get(core, core) for core in cores_drawn]


def wish(seed: int, subset: frozenset[int]) -> Wish:
    """The options of a case: of every choice that is drawn and kept, what it draws."""
    drawn: dict[str, Any] = {}
    for index, (share, choice) in enumerate(CHOICES, len(pieces(seed))):
        rng = np.random.default_rng([seed, 1000 + index - len(pieces(seed))])
        if rng.random() < share and index in subset:
            drawn |= choice(rng)
    qdq = drawn.pop("qdq", False)
    recipe = {key: drawn.pop(key) for key in _RECIPE if key in drawn}
    if qdq or drawn.get("precision") == "float32":
        recipe = {}
    if recipe.get("weights") == "auto":
        recipe["max_loss"] = 5.0
    if recipe.get("activations") == "auto":
        recipe["min_sqnr"] = 40.0
    return Wish(drawn, recipe, qdq)


def model_of(seed: int, subset: frozenset[int]) -> onnx.ModelProto:
    return network(seed, {piece for piece in subset if piece < len(pieces(seed))})


def describe(seed: int, subset: frozenset[int]) -> str:
    asked = wish(seed, subset)
    nodes = "\n".join(f"  {onnx.helper.printable_node(node)}" for node in model_of(seed, subset).graph.node)
    where = ", ".join(cores(seed, subset))
    return f"{nodes}\n  {dict(asked.options)} {dict(asked.recipe)}{' QDQ' if asked.qdq else ''} on {where}"


def prepare(seed: int, subset: frozenset[int], folder: Path) -> tuple[Path, Options]:
    """The model and its calibration as files, and the options, but for the board."""
    asked = wish(seed, subset)
    model = model_of(seed, subset)
    path = folder / "net.onnx"
    data = samples(model, seed, 6)
    if asked.qdq:
        model = in_qdq(model, data, folder, seed)
    onnx.save(model, path)
    calibration = None
    if not asked.qdq:
        calibration = folder / "net.calib.npz"
        np.savez(calibration, **data)
    options = Options("", calibration=calibration, recipe=Recipe(**asked.recipe) if asked.recipe else None)
    return path, replace(options, **asked.options)


def check(seed: int, subset: frozenset[int], folder: Path) -> str:
    """`equal`, or `refused` where no core takes the model with these options."""
    path, options = prepare(seed, subset, folder)
    boards = {core: replace(load_board(core), cores=options.cores) for core in cores(seed, subset)}
    words = [check_on(seed, path, board, options, folder / core) for core, board in boards.items()]
    return "nothing to do" if not words else "equal" if "equal" in words else words[0]


def check_on(seed: int, path: Path, board: Board, options: Options, folder: Path) -> str:
    """One core: `equal`; `refused` by the options, `too large` for a budget."""
    asked = replace(options, board=board.name)
    try:
        compiled = compile_model(path, board, asked, Progress())
        check_ram(compiled, asked)
    except TinycError as error:
        return "too large" if error.exit_code == 1 else "refused"
    prove_twice(seed, compiled, board, asked, folder)
    return "equal"


def prove_twice(seed: int, compiled: Compiled, board: Board, options: Options, folder: Path) -> None:
    """The library on the board's emulator, and the same text on this computer with sanitizers."""
    given = inputs_of(compiled, seed)
    reference = reference_outputs(compiled.graph, compiled.program, given)
    folder.mkdir()
    wide = with_window(board, compiled, options)
    firmware = compile_library(folder, compiled, wide, options, find_toolchain(wide))
    compare_runs(find_target(wide), firmware, compiled, given, reference)
    host = load_board("host")
    compiler = find_toolchain(host, ("gcc", "clang")[seed % 2])
    name = compiled.program.name
    sane = compile_firmware(Sources(folder, name), host, compiler, "balanced", folder / "host", Checks(sanitize=True))
    compare_runs(HostTarget(), sane, compiled, given, reference)


def compare_runs(
    target: Target, firmware: Firmware, compiled: Compiled, given: Samples, reference: Sequence[Sequence[Any]]
) -> None:
    ran = run_samples(target, firmware, compiled, given)
    if ran.damaged_guards:
        raise WrongError("guards", f"{target.machine}: {ran.damaged_guards}")
    comparison = compare(compiled.graph, ran.outputs, reference)
    if comparison.mismatches:
        share = f"{comparison.mismatches} of {comparison.output_bytes} bytes"
        message = f"{target.machine}: {share}, sample {comparison.first_input}"
        raise WrongError(f"bytes on {firmware.board.name}", message)


def inputs_of(compiled: Compiled, seed: int) -> Samples:
    """Noise as the model takes it; the last of them all at the ends of the range."""
    graph = compiled.float_graph or compiled.graph
    drawn = synthetic_samples(graph, RUNS, seed)
    if compiled.float_graph is None:
        return drawn
    return as_integers(drawn, compiled)
