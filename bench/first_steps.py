# SPDX-License-Identifier: Apache-2.0
"""From nothing to a proved library in each kind of project, in CPU seconds: `python bench/first_steps.py` writes the
table of docs/integrate.md.

A new user's way: an empty environment, `pip install` of the wheel, `tinyc build --package KIND` of the example model
for a Cortex-M4, and the package's own example built by the project's tool and run. The last step is that of the tests.
CPU seconds of all processes (user and system), since a clock would measure what else the computer does.
"""

from __future__ import annotations

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

from tests.package import test_with_tools as tools  # noqa: E402  the examples as tests build them
from tests.package.tools import ran  # noqa: E402

PAGE = ROOT / "docs" / "integrate.md"
MARK = "<!-- written by bench/first_steps.py -->"
KINDS: dict[str, Callable[..., None]] = {
    "cmake": tools.test_cmake_without_an_operating_system,
    "arduino": tools.test_arduino,
    "platformio": tools.test_platformio,
    "rust": tools.test_rust,
    "cpp": lambda packed, tmp: tools.test_cpp(packed, tmp, "c++14"),
    "zephyr": tools.test_zephyr,
    "esp-idf": tools.test_esp_idf,
}
HEAD = (
    "| kind | `pip install` | build, proof, package | its example built and run | all |",
    "|---|---:|---:|---:|---:|",
)
MODEL = ROOT / "examples" / "kws" / "kws.onnx"


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


def row(kind: str, program: Path, install: float) -> str:
    """A line of the table."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as name:
        folder = Path(name)
        for file in (MODEL, MODEL.with_suffix(".calib.npz")):  # what is found is kept beside the model
            shutil.copy(file, folder)
        command = (program, "build", MODEL.name, "--board", "cortex-m4", "--out", "kws", "--package", kind)
        built = seconds(lambda: ran(*command, cwd=folder, env={"PYTHONPATH": ""}))
        try:
            used = seconds(lambda: KINDS[kind](lambda _: folder / f"kws-{kind}", folder))
        except pytest.skip.Exception as missing:
            return f"| `{kind}` | {install:.0f} | {built:.0f} | not measured: {missing.msg} | |"
    return f"| `{kind}` | {install:.0f} | {built:.0f} | {used:.1f} | {install + built + used:.0f} |"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        program, install = installed(Path(folder))
        rows = [row(kind, program, install) for kind in KINDS]
    table = "\n".join([MARK, "", *HEAD, *rows])
    print(table)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(rf"{re.escape(MARK)}\n\n(\|.*\n)*", lambda _: table + "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
