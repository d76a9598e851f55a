# SPDX-License-Identifier: Apache-2.0
"""Benchmarks and scripts find what they import: nothing else runs them until their figures are wanted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import runpy, sys
from pathlib import Path
for file in sys.argv[1:]:
    sys.path.insert(0, str(Path(file).parent))
    try:
        runpy.run_path(file, run_name="imported")
    except ModuleNotFoundError as error:
        assert error.name.split(".")[0] not in ("tinyc", "tests"), file
    sys.path.pop(0)
"""


@pytest.mark.slow
def test_they_import_what_exists() -> None:
    """One process for all. A package that is not installed is an extra, or a reason to say so when the script runs."""
    files = sorted([*ROOT.glob("bench/*.py"), *ROOT.glob("scripts/*.py")])
    assert len(files) > 15
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
