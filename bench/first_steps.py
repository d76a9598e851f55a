# SPDX-License-Identifier: Apache-2.0
"""From nothing to a model that works in each kind of project, in CPU seconds: `python bench/first_steps.py` writes the
table of docs/integrate.md.

A new user's way: an empty environment, `pip install` of the wheel, and then the commands of the project's page, word by
word, in a folder that holds nothing but examples/: `tinyc build`, which proves the library, and the application of
examples/projects/ built and run. Where a tool cannot be had, the last step is that of the tests. CPU seconds of all
processes (user and system), since a clock would measure what else the computer does.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.package.test_projects import HEARD, HOW, PROJECTS, Place, shown, spoken  # noqa: E402  as tests do it
from tests.package.tools import ran  # noqa: E402

PAGE = ROOT / "docs" / "integrate.md"
MARK = "<!-- written by bench/first_steps.py -->"
HEAD = (
    "| project | `pip install` | `tinyc build`: library, proof, package | its application built and run | all |",
    "|---|---:|---:|---:|---:|",
)


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the processes that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def installed(folder: Path) -> tuple[Path, float]:
    """The program in an empty environment, and what installing it took; the wheel is made before."""
    call = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(call, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    pip = folder / "env" / "bin" / "pip"
    took = seconds(lambda: ran(pip, "install", "--quiet", f"{wheel}[onnx,proof]", cwd=folder, seconds=1200))
    return folder / "env" / "bin" / "tinyc", took


def row(name: str, program: Path, install: float) -> str:
    """A line of the table."""
    build, *commands = [line for line in shown(PROJECTS / name / "README.md") if not spoken(line)]
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        place = Place(Path(folder), name, tuple(commands))
        shutil.copytree(ROOT / "examples", place.root / "examples")
        path = f"{program.parent}:{os.environ['PATH']}"
        built = seconds(
            lambda: ran(
                "bash",
                "-c",
                build,
                cwd=place.root,
                env={"PYTHONPATH": "", "PATH": path, "TINYC_CACHE": str(place.root / "cache")},
            )
        )
        said: list[str] = []
        try:
            used = seconds(lambda: said.append(HOW[name].build(place)))
        except pytest.skip.Exception as missing:
            return f"| `{name}` | {install:.0f} | {built:.0f} | not measured: {missing.msg} | |"
    if spoken(said[0]) != HEARD:
        raise SystemExit(f"{name}: {said[0]}")
    return f"| `{name}` | {install:.0f} | {built:.0f} | {used:.1f} | {install + built + used:.0f} |"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        program, install = installed(Path(folder))
        rows = [row(name, program, install) for name in HOW]
    table = "\n".join([MARK, "", *HEAD, *rows])
    print(table)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(rf"{re.escape(MARK)}\n\n(\|.*\n)*", lambda _: table + "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
