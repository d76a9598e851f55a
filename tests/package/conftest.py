# SPDX-License-Identifier: Apache-2.0
"""A small library for a Cortex-M4, built once, and packages of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tinyc
from tests.cli.test_cli import write_model
from tinyc.package.facts import Facts, read_facts
from tinyc.package.kinds import kinds_of
from tinyc.package.make import DEFAULT_VERSION, write_package

Packed = Callable[[str], Path]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a build."""
    folder = tmp_path_factory.mktemp("library")
    with pytest.warns(tinyc.TinycWarning):
        built = tinyc.build(write_model(folder / "kws.onnx"), "cortex-m4", out=folder / "kws", samples=1)
    assert built.report.passed
    return built.folder


@pytest.fixture(scope="session")
def facts(library: Path) -> Facts:
    return read_facts(library)


@pytest.fixture
def packed(facts: Facts, tmp_path: Path) -> Packed:
    """Makes a package of a kind, in a folder of its own."""

    def pack(kind: str) -> Path:
        folder = tmp_path / f"kws-{kind}"
        write_package(facts, kinds_of(kind)[0], DEFAULT_VERSION, folder)
        return folder

    return pack
