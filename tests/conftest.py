# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compiled_once import CompiledOnce
from tests.forked import Forked
from tests.ops import sanitized
from tests.shared_folder import SharedFolder
from tinyc.board import Board
from tinyc.ir.graph import Graph
from tinyc.ops import has
from tinyc.options.build import Options
from tinyc.passes.rewrite import Pass, without_dead
from tinyc.pipeline import integers
from tinyc.pipeline.float_models import quantize_float
from tinyc.pipeline.progress import Progress
from tinyc.quantize import Calibration, Quantized, cached
from tinyc.toolchain.compilers import Toolchain

ROOT = Path(__file__).resolve().parents[1]
OBJECTS = ROOT / "build" / "objects"  # that tests have compiled


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of published models with reference outputs: TINYC_MODELS, or shared/models beside the checkout."""
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models"))
    if not folder.is_dir():
        pytest.skip(f"no published models in {folder}; set TINYC_MODELS")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_cache() -> Iterator[None]:
    """Nothing is read from, or left beside, models that tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYC_QUANTIZE_CACHE", "0")
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_width() -> Iterator[None]:
    """What commands print is not wrapped, however wide the terminal is that the tests run in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _left_out_passes_change_nothing() -> Iterator[None]:
    """Every graph of every test says so of the passes that begin with operators which it has none of: they run, too."""
    call = Pass.__call__

    def checked(own: Pass[...], graph: Graph, *rest: object, **named: object) -> Graph:
        if not has(graph, *own.kinds):
            assert own.work(graph, *rest, **named) in (graph, without_dead(graph)), own.__name__
        return call(own, graph, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pass, "__call__", checked)
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> SharedFolder:
    """What is made once for all processes of the run."""
    return SharedFolder.of_the_run(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> Iterator[None]:
    """What tests compile again is compiled once, for this run and those that follow."""
    objects = SharedFolder(OBJECTS)
    once = CompiledOnce(objects, Toolchain.run)

    def run(toolchain: Toolchain, arguments: Sequence[str | Path], what: str) -> None:
        once.run(toolchain, arguments, what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Toolchain, "run", run)
        patch.setattr(sanitized, "programs", objects)
        yield


@pytest.fixture(scope="module")
def quantized_once(shared_folder: SharedFolder) -> Iterator[None]:
    """For modules that build the same float model as others, and do not ask how it is quantized: that is done once in
    the run. tinyc's own cache knows by content whether it was; its folder is the run's."""
    folder = shared_folder.folder_of("what quantizing gave", Path.mkdir)

    def cached_once(
        path: Path, graph: Graph, board: Board | None, options: Options, progress: Progress
    ) -> tuple[Quantized, Calibration]:
        return quantize_float(path, graph, board, replace(options, cache=True), progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cached, "FOLDER", str(folder))
        patch.setattr(integers, "quantize_float", cached_once)
        yield


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """Runs command lines in processes of their own."""
    with Forked() as running:
        yield running


def pytest_configure() -> None:
    """Objects of texts that are no more are removed before there are workers."""
    SharedFolder(OBJECTS).forget(days=10)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The tests themselves are a million objects that live as long as the run: none is garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
    parser.addoption("--slow-cases", type=int, help="of each slow test at most so many cases, spread over all of them")
    parser.addoption(
        "--slow-part", type=part_of, default=(1, 1), help="I/N: of the slow tests every Nth, from the Ith on"
    )


def part_of(text: str) -> tuple[int, int]:
    """(I, N) of I/N; argparse prints the error of another text."""
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(text)
    return int(part), int(parts)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks cases as slow before pytest chooses by marks, and then leaves out what the command line does not want."""
    for cases in tests_of(items).values():
        if marker := cases[0].get_closest_marker("quick_cases"):
            quick = [case for case in cases if not case.get_closest_marker("slow")]
            for case in set(quick) - set(unlike(quick, *marker.args)):
                case.add_marker(pytest.mark.slow)
    yield
    leave_out(config, items)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --slow-cases and --slow-part: leaves out slow cases and slow tests, the same ones each time."""
    most = config.getoption("--slow-cases")
    part, parts = config.getoption("--slow-part")
    tests = list(tests_of([item for item in items if item.get_closest_marker("slow")]).values())
    spare = {case for own in tests for case in own} - {case for own in tests[part - 1 :: parts] for case in own}
    if most:
        spare |= {case for own in tests for case in set(own) - set(spread(own, most))}
    config.hook.pytest_deselected(items=[item for item in items if item in spare])
    items[:] = [item for item in items if item not in spare]


def tests_of(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each test, in their order."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return tests


def spread(cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    """The middles of `most` parts of the list."""
    return [cases[(2 * part + 1) * len(cases) // (2 * most)] for part in range(most)]


def unlike(cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    """So many cases, each with the parameters that the ones before had least often.

    Every value of every parameter is among them if so few can hold it. Which of equals is taken goes by the golden
    ratio, so that lists whose neighbors are alike are not taken from one end.
    """
    places = sorted(range(len(cases)), key=lambda place: place * (5**0.5 - 1) / 2 % 1)
    rest = [(cases[place], parameters(cases[place])) for place in places]
    chosen: list[pytest.Item] = []
    seen: Counter[tuple[str, str]] = Counter()
    while rest and len(chosen) < most:
        best = min(range(len(rest)), key=lambda place: sum(seen[value] for value in rest[place][1]))
        case, values = rest.pop(best)
        seen.update(values)
        chosen.append(case)
    return chosen


def parameters(case: pytest.Item) -> list[tuple[str, str]]:
    """Names and values, as text: not all values can be compared."""
    return [(name, repr(value)) for name, value in case.callspec.params.items()]  # type: ignore[attr-defined]
