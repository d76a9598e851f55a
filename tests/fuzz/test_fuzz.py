# SPDX-License-Identifier: Apache-2.0
"""The fuzzer sees what it must see; and a short run of every target, the same cases each time, finds nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import builds, shadow
from tests.fuzz.__main__ import main
from tests.fuzz.case import Case, WrongError
from tests.fuzz.shrinking import smaller
from tests.fuzz.targets import TARGETS
from tests.fuzz.work import Worker, run_here
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import compile_library
from tinyc.run import find_target
from tinyc.toolchain.compilers import find_toolchain
from tinyc.verify.compare import reference_outputs

QUICK = {"networks": 1, "plans": 2, "tflite": 25, "onnx-files": 25, "tflite-files": 40, "arrays": 25, "boards": 15}
QUICK |= {"odd-tflite": 10, "odd-onnx": 2, "reports": 60, "frames": 100, "commands": 5}
LONGER = 15  # times as many, in the slow tests


@pytest.mark.parametrize("name", [target.name for target in TARGETS.values() if target.share])
def test_a_short_run_finds_nothing(name: str) -> None:
    run(name, range(QUICK.get(name, 10)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [target.name for target in TARGETS.values() if target.share])
def test_a_longer_run_finds_nothing(name: str) -> None:
    run(name, range(1000, 1000 + LONGER * QUICK.get(name, 10)))


def run(name: str, seeds: range) -> None:
    for seed in seeds:
        outcome = run_here(TARGETS[name], Case(name, seed))
        assert not outcome.failed, f"{outcome.case}\n{outcome.text}"


@pytest.fixture(scope="module")
def worker():
    process = Worker(TARGETS["self"])
    yield process
    process.close()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("seed", "signature"),
    [(1, "ValueError"), (2, "crash SIGABRT"), (3, "hang"), (4, "MemoryError"), (5, "exit")],
)
def test_what_misbehaves_is_a_defect(worker: Worker, seed: int, signature: str) -> None:
    outcome = worker.run(Case("self", seed))
    assert outcome.failed
    assert outcome.signature == signature
    assert worker.run(Case("self", 0)).word == "fine"  # others go on


def test_a_defect_is_made_smaller(worker: Worker) -> None:
    outcome = smaller(worker.run(Case("self", 1)), 8, worker.run)
    assert outcome.case.subset == (2, 5)


def test_cases_print_as_they_are_read() -> None:
    for case in (Case("networks", 17), Case("networks", 17, (0, 3)), Case("networks", 17, ())):
        assert Case.parse(str(case)) == case
    with pytest.raises(TinycError, match="no case"):
        Case.parse("networks:x")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path)]
    assert main(["--targets", "reports", "--cases", "3", *out]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["targets"]["reports"]["cases"] == 3
    assert main(["--targets", "self", "--cases", "2", "--seed", "0", *out]) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert [defect["case"] for defect in report["targets"]["self"]["defects"]] == ["self:1:2.5"]
    assert main(["--case", "self:1:2.5"]) == 1
    assert main(["--case", "self:1:2"]) == 0
    assert main(["--targets", "nothing"]) == 2
    assert "there is no target 'nothing'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Four steps on a Cortex-M4, the tensors between them in two places by turns."""
    path, _ = builds.prepare(9, frozenset(range(5)), tmp_path_factory.mktemp("net"))
    compiled = compile_model(path, load_board("cortex-m4"), Options("cortex-m4", prefer="time"), Progress())
    assert len(compiled.program.steps) == 4
    return compiled


def altered(compiled: Compiled, step: int, argument: str, by: int) -> Compiled:
    """The same model, but for a step whose input `x` or output `y` lies `by` bytes further on."""
    text = compiled.files["net.c"]
    start = text.index(f"void net_step_{step}_")
    match = re.compile(rf"\*{argument} = .*\(arena \+ (\d+)\)").search(text, start)
    assert match is not None
    moved = text[: match.start(1)] + str(int(match[1]) + by) + text[match.end(1) :]
    return replace(compiled, files={**compiled.files, "net.c": moved})


def watched(compiled: Compiled, folder: Path) -> None:
    board = load_board("cortex-m4")
    firmware = compile_library(folder, compiled, board, Options(board.name), find_toolchain(board))
    shadow.run_watched(firmware, compiled, seed=1)


def test_the_watcher_lets_a_right_plan_pass(model: Compiled, tmp_path: Path) -> None:
    watched(model, tmp_path)


def test_the_watcher_sees_a_read_of_bytes_that_belong_to_nobody(model: Compiled, tmp_path: Path) -> None:
    with pytest.raises(WrongError, match=r"read of poison: step 2 .* reads byte .* which step 0 has written"):
        watched(altered(model, 2, "x", -4), tmp_path)


def test_the_watcher_sees_a_step_that_writes_elsewhere(model: Compiled, tmp_path: Path) -> None:
    with pytest.raises(WrongError, match=r"read of poison: step 3 .* reads byte 0 of .* which step 0 has written"):
        watched(altered(model, 2, "y", 4), tmp_path)


def test_wrong_bytes_are_seen(model: Compiled, tmp_path: Path) -> None:
    board = load_board("cortex-m4")
    given = builds.inputs_of(model, 1)
    firmware = compile_library(tmp_path, model, board, Options(board.name), find_toolchain(board))
    right = reference_outputs(model.graph, model.program, given)
    wrong = [[np.asarray(array) ^ 1 for array in outputs] for outputs in right]
    with pytest.raises(WrongError, match="bytes on cortex-m4"):
        builds.compare_runs(find_target(board), firmware, model, given, wrong)


REMEMBERED = {
    "networks:300000058:0.2.10.21": "a step whose rows all lie at one place did not use its parameter",
    "networks:7000145:6.7.8.13.23.24": "a row of padding was made where the first row of the input had just come",
    "plans:300000001:0.2.3": "a call that makes fewer rows than its form reads rows that may be anything",
    "plans:300000017:1.3.5.10": "gcc 12 saw an overflow in the last bytes of a copy",
    "windows:1000001:1.4": "a row that nobody read any more moved to where others were",
    "windows:2000030:0": "nothing but moves of rows, whose header was not there",
    "windows:2000034:0.1": "a row of the input that nobody reads was written to where others were",
    "windows:2000087:0.1": "a window that is padded as a whole; an input whose rows are its third axis",
    "windows:2000220:2": "a window that is padded as a whole, and longer than the kernel sees",
    "windows:2000383:1": "an output with rows had those of the last call only",
    "windows:3000023:6": "an output with rows under another shape",
}


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", REMEMBERED)
def test_what_was_found_once(name: str, tmp_path: Path) -> None:
    case = Case.parse(name)
    target = TARGETS[case.target]
    assert target.check(case.seed, target.subset_of(case), tmp_path) in ("equal", "clean")
