# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.firmware_objects import FirmwareObjects
from tests.shared_folder import SharedFolder
from tinyc.build.toolchain import Toolchain

ROOT = Path(__file__).resolve().parents[1]


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


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> SharedFolder:
    """What is made once for all processes of the run."""
    return SharedFolder.of_the_run(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def _firmware_objects(shared_folder: SharedFolder) -> Iterator[None]:
    """What all firmware shares is compiled once."""
    objects = FirmwareObjects(shared_folder, Toolchain.run)

    def run(toolchain: Toolchain, arguments: Sequence[str | Path], what: str) -> None:
        objects.run(toolchain, arguments, what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Toolchain, "run", run)
        yield


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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --slow-cases and --slow-part: leaves out slow cases and slow tests, the same ones each time."""
    most = config.getoption("--slow-cases")
    part, parts = config.getoption("--slow-part")
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    tests = list(cases.values())
    spare = {case for found in tests for case in found} - {case for found in tests[part - 1 :: parts] for case in found}
    if most:
        spare |= {case for found in tests for case in set(found) - set(spread(found, most))}
    config.hook.pytest_deselected(items=[item for item in items if item in spare])
    items[:] = [item for item in items if item not in spare]


def spread(found: list[pytest.Item], most: int) -> list[pytest.Item]:
    """The middles of `most` parts of the list."""
    return [found[(2 * part + 1) * len(found) // (2 * most)] for part in range(most)]
