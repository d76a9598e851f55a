# SPDX-License-Identifier: Apache-2.0
"""One model quantized and built into a folder, in a process whose surroundings the caller chooses: prints a hash of
every file that came of it.

    python -m tests.cli.reproduced MODEL CALIBRATION FOLDER COMMAND ...
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from unittest import mock

from tinyc.cli.main import main

COMMANDS = {
    "int8.tflite": ["quantize", "{model}", "-c", "{data}", "-o", "int8.tflite"],
    "int4.onnx": ["quantize", "{model}", "-c", "{data}", "--weights", "int4", "-o", "int4.onnx"],
    "host": ["build", "{model}", "-c", "{data}", "-b", "host", "--samples", "2", "-o", "host"],
    "rv32": ["build", "{model}", "-c", "{data}", "-b", "riscv32imc", "--samples", "2", "-o", "rv32"],
    "m4": ["build", "{model}", "-c", "{data}", "--weights", "int4", "-b", "cortex-m4", "--samples", "2", "-o", "m4"],
}


def tinyc(*words: str) -> None:
    """A command, whose figures the caller does not look at."""
    with mock.patch.object(sys, "argv", ["tinyc", *words]):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise


def hashes(folder: Path) -> list[str]:
    """`sha256  path` of every file below, sorted by path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}" for path in files]


if __name__ == "__main__":
    model, data, folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True)
    os.chdir(folder)
    said, sys.stdout = sys.stdout, sys.stderr
    for name in names:
        tinyc(*(word.format(model=model, data=data) for word in COMMANDS[name]))
    print(
        "\n".join(hashes(Path.cwd())), file=said, end="", flush=True
    )  # it is not what the interpreter flushes at its end
