# SPDX-License-Identifier: Apache-2.0
"""A small library for a Cortex-M4, built once, and packages of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tinyc
from tests.cli.test_cli import write_model
from tests.frontend.pushing import window_model
from tests.frontend.test_recordings import FRONT
from tinyc.ir.graph import Quant
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


@pytest.fixture(scope="session")
def sliding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an incremental library, whose window is no whole number of hops: 8 rows, 3 a call."""
    folder = tmp_path_factory.mktemp("sliding")
    options = {"incremental": 2, "hop": 3, "stream_unpadded": True}
    with pytest.warns(tinyc.TinycWarning):
        built = tinyc.build(write_model(folder / "kws.onnx"), "cortex-m4", out=folder / "kws", samples=1, **options)
    assert built.report.passed
    return built.folder


@pytest.fixture(scope="session")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a library that takes samples."""
    folder = tmp_path_factory.mktemp("pushed")
    model = window_model(folder / "kws.tflite", 3, Quant((0.5,), (30,)), 10)
    built = tinyc.build(model, "cortex-m4", out=folder / "kws", samples=1, frontend=str(FRONT))
    assert built.report.passed
    return built.folder


@pytest.fixture(params=["sliding", "pushed"])
def packed_stream(request: pytest.FixtureRequest, tmp_path: Path) -> Packed:
    """Makes a package of a library that takes a stream: of rows, or of samples."""
    facts = read_facts(request.getfixturevalue(request.param))

    def pack(kind: str) -> Path:
        folder = tmp_path / f"kws-{kind}"
        write_package(facts, kinds_of(kind)[0], DEFAULT_VERSION, folder)
        return folder

    return pack


@pytest.fixture
def packed(facts: Facts, tmp_path: Path) -> Packed:
    """Makes a package of a kind, in a folder of its own."""

    def pack(kind: str) -> Path:
        folder = tmp_path / f"kws-{kind}"
        write_package(facts, kinds_of(kind)[0], DEFAULT_VERSION, folder)
        return folder

    return pack
