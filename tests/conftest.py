"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of published models with reference outputs: TINYC_MODELS, or shared/models beside the checkout."""
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models"))
    if not folder.is_dir():
        pytest.skip(f"no published models in {folder}; set TINYC_MODELS")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
