# SPDX-License-Identifier: Apache-2.0
"""The numbers in the pages of examples/, from builds: `python scripts/example_numbers.py` writes them.

tests/models/test_example_numbers.py holds the pages to them.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tinyc

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KWS, CAMERA, LISTEN = (EXAMPLES / name for name in ("kws", "camera", "listen"))
RECORDING = KWS / "words.wav"
MACHINE = "mps2-an386"  # QEMU's board with a Cortex-M4


def accuracy() -> str:
    """The row of the keywords' table, from a build for this computer: the integers are the same on every board."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", tinyc.TinycWarning)
        out = Path(folder) / "kws"
        found = tinyc.build(KWS / "kws.onnx", "host", out=out, inputs=KWS / "kws.test.npz", samples=0).report.accuracy
    assert found is not None
    assert found.top1_int is not None
    assert found.agreement is not None
    right = round(found.top1_int * found.inputs)
    return (
        f"| int8, tinyc | {right} of {found.inputs} = {found.top1_int:.2%}; {found.agreement:.1%} of the answers are "
        f"those of the float model; output SQNR {found.sqnr_db:.1f} dB |"
    ).replace("%", " %")


def colors() -> str:
    """How many of the scenes that make_camera.py draws to test are right, by the float model in the folder."""
    sys.path.insert(0, str(CAMERA))
    make_camera, onnxruntime = (importlib.import_module(name) for name in ("make_camera", "onnxruntime"))
    images, kinds = make_camera.scenes(make_camera.TESTED, make_camera.generator_of_tests(1))
    session = onnxruntime.InferenceSession(str(CAMERA / "colors.onnx"), providers=["CPUExecutionProvider"])
    found = [session.run(None, {"image": image.transpose(2, 0, 1)[None]})[0].argmax() for image in images]
    return f"The float network finds the color of {int(np.sum(found == kinds))} of {len(kinds)} new scenes"


def listen_programs(folder: Path) -> tuple[list[str | Path], list[str | Path]]:
    """Builds the listening example as its page says: the command on this computer, and that on the emulated board."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tinyc.TinycWarning)
        front = str(KWS / "mfcc.toml")
        tinyc.build(KWS / "kws.onnx", "cortex-m4", out=folder / "kws", frontend=front, samples=1)
    _ran(sys.executable, "-m", "tinyc.cli.main", "package", folder / "kws", "--as", "cmake")
    package = folder / "kws-cmake"
    settings: dict[str, list[str | Path]] = {
        "listen": [],
        "listen-m4": [f"-DCMAKE_TOOLCHAIN_FILE={package / 'examples' / 'baremetal' / 'core.cmake'}"],
    }
    for name, more in settings.items():
        _ran("cmake", "-S", LISTEN, "-B", folder / name, f"-DKWS={package}", *more)
        _ran("cmake", "--build", folder / name)
    words = f"enable=on,target=native,arg=listen,arg={RECORDING}"
    emulator = ["qemu-system-arm", "-machine", MACHINE, "-nographic", "-semihosting-config", words, "-kernel"]
    return [folder / "listen" / "listen", RECORDING], [*emulator, folder / "listen-m4" / "listen.elf"]


def heard() -> str:
    """What the listening example says of the recording, on the emulated board."""
    with tempfile.TemporaryDirectory() as folder:
        return as_block(_ran(*listen_programs(Path(folder))[1]))


def as_block(text: str) -> str:
    """Lines as code of a page."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def _ran(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr  # QEMU prints what a program says to the second


@dataclass(frozen=True)
class Stated:
    """A passage of a page, and what makes it."""

    page: Path
    pattern: re.Pattern[str]
    made: Callable[[], str]

    def found(self) -> str:
        (passage,) = self.pattern.findall(self.page.read_text(encoding="utf-8"))
        return str(passage)

    def write(self) -> None:
        text = self.page.read_text(encoding="utf-8")
        self.page.write_text(self.pattern.sub(lambda _: self.made(), text), encoding="utf-8")


STATED = {
    "accuracy": Stated(KWS / "README.md", re.compile(r"^\| int8, tinyc \|.*\|$", re.MULTILINE), accuracy),
    "colors": Stated(CAMERA / "README.md", re.compile(r"The float network finds .*? new scenes"), colors),
    "heard": Stated(LISTEN / "README.md", re.compile(r"(?:^    \d+\.\d\d s  .*\n)+", re.MULTILINE), heard),
}


if __name__ == "__main__":
    for stated in STATED.values():
        stated.write()
