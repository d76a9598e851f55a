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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --slow-cases: leaves out slow cases, the same ones each time."""
    most = config.getoption("--slow-cases")
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if most and item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    spare = {case for found in cases.values() for case in set(found) - set(spread(found, most))}
    config.hook.pytest_deselected(items=[item for item in items if item in spare])
    items[:] = [item for item in items if item not in spare]


def spread(found: list[pytest.Item], most: int) -> list[pytest.Item]:
    """The middles of `most` parts of the list."""
    return [found[(2 * part + 1) * len(found) // (2 * most)] for part in range(most)]
