# SPDX-License-Identifier: Apache-2.0
"""The numbers in the pages of examples/, from builds: `python scripts/example_numbers.py` writes them.

tests/models/test_example_numbers.py holds the pages to them.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tinyc
from tinyc.verify.report import Report

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KWS, CAMERA, LISTEN = (EXAMPLES / name for name in ("kws", "camera", "listen"))
RECORDING = KWS / "words.wav"


def accuracy() -> str:
    """The row of the keywords' table, from a build for this computer: the integers are the same on every board."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", tinyc.TinycWarning)
        out = Path(folder) / "kws"
        report = tinyc.build(KWS / "kws.onnx", "host", out=out, inputs=KWS / "kws.test.npz", samples=0).report
    assert isinstance(report, Report)
    measured = report.accuracy
    assert measured is not None
    assert measured.top1_int is not None
    assert measured.agreement is not None
    right = round(measured.top1_int * measured.inputs)
    return (
        f"| int8, tinyc | {right} of {measured.inputs} = {measured.top1_int:.2%}; {measured.agreement:.1%} of the "
        f"answers are those of the float model; output SQNR {measured.sqnr_db:.1f} dB |"
    ).replace("%", " %")


def colors() -> str:
    """How many of the scenes that make_camera.py draws to test are right, by the float model in the folder."""
    sys.path.insert(0, str(CAMERA))
    make_camera, onnxruntime = (importlib.import_module(name) for name in ("make_camera", "onnxruntime"))
    images, kinds = make_camera.scenes(make_camera.TESTED, make_camera.generator_of_tests(1))
    session = onnxruntime.InferenceSession(str(CAMERA / "colors.onnx"), providers=["CPUExecutionProvider"])
    classes = [session.run(None, {"image": image.transpose(2, 0, 1)[None]})[0].argmax() for image in images]
    return f"The float network finds the color of {int(np.sum(classes == kinds))} of {len(kinds)} new scenes"


def listen_programs(folder: Path) -> tuple[list[str], list[str]]:
    """Builds the listening example by the commands of its page, in a folder with the examples: the command that runs it
    on this computer, and that on the emulated board; both are run in that folder."""
    for name in ("kws", "listen"):
        shutil.copytree(EXAMPLES / name, folder / "examples" / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tinyc.TinycWarning)
        front = str(KWS / "mfcc.toml")
        tinyc.build(KWS / "kws.onnx", "cortex-m4", out=folder / "build" / "kws", frontend=front, samples=1)
    _ran(sys.executable, "-m", "tinyc.cli.main", "package", folder / "build" / "kws", "--as", "cmake")
    shown = re.findall(
        r"^ {4}((?:cmake|build|qemu).*)$", (LISTEN / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    for command in shown:
        if command.startswith("cmake"):
            _ran("bash", "-c", command, folder=folder)
    here, board = (shlex.split(command) for command in shown if not command.startswith("cmake"))
    return [str(folder / here[0]), *here[1:]], board


def heard() -> str:
    """What the listening example says of the recording, on the emulated board."""
    with tempfile.TemporaryDirectory() as folder:
        return as_block(_ran(*listen_programs(Path(folder))[1], folder=Path(folder)))


def as_block(text: str) -> str:
    """Lines as code of a page."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def _ran(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr  # QEMU prints what a program says to the second


@dataclass(frozen=True)
class Stated:
    """A passage of a page, and what makes it."""

    page: Path
    pattern: re.Pattern[str]
    computed: Callable[[], str]

    def stated(self) -> str:
        (passage,) = self.pattern.findall(self.page.read_text(encoding="utf-8"))
        return str(passage)

    def write(self) -> None:
        text = self.page.read_text(encoding="utf-8")
        self.page.write_text(self.pattern.sub(lambda _: self.computed(), text), encoding="utf-8")


STATED = {
    "accuracy": Stated(KWS / "README.md", re.compile(r"^\| int8, tinyc \|.*\|$", re.MULTILINE), accuracy),
    "colors": Stated(CAMERA / "README.md", re.compile(r"The float network finds .*? new scenes"), colors),
    "heard": Stated(LISTEN / "README.md", re.compile(r"(?:^    \d+\.\d\d s  .*\n)+", re.MULTILINE), heard),
}


if __name__ == "__main__":
    for stated in STATED.values():
        stated.write()
