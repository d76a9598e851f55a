# SPDX-License-Identifier: Apache-2.0
"""All tests of this folder are slow: where none of these is asked for, nothing is imported for them."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if "not slow" in config.option.markexpr else None
