# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md as a reader would type them, in its order: with a model, data and boards of our own behind
the names that it uses."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from stm32_simulator import Stm32
from test_flash import Tinyc, tinyc, write_model  # noqa: F401  `tinyc` is a fixture

from tinyc.board import load_board

sys.path.append(str(Path(__file__).resolve().parents[1] / "target"))
from serial_board import board_at_port

README = Path(__file__).resolve().parents[2] / "README.md"
PORT = "/dev/ttyUSB0"


def commands() -> list[list[str]]:
    """The arguments of every `tinyc` line of the section that says how to use it."""
    section = re.search(r"\n## Use it on your model\n(.*?)\n## ", README.read_text(), re.DOTALL)
    assert section is not None
    lines = re.findall(r"^    tinyc (.*)$", section[1], re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def test_the_readme_has_the_whole_way() -> None:
    names = [arguments[0] for arguments in commands()]
    assert names == ["inspect", "quantize", "build", "build", "verify", "build", "flash", "run"]
    assert sum(PORT in arguments for arguments in commands()) == 2


def foreign_outputs(model: Path, x: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="pip install tflite-micro")
    interpreter = runtime.Interpreter.from_file(str(model))
    scale, zero = (interpreter.get_input_details(0)["quantization_parameters"][k][0] for k in ("scales", "zero_points"))
    outputs = []
    for sample in x:
        interpreter.set_input(np.clip(np.round(sample / scale) + zero, -128, 127).astype(np.int8), 0)
        interpreter.invoke()
        outputs.append(interpreter.get_output(0))
    return np.stack(outputs)


def test_the_commands_of_the_readme(tmp_path: Path, tinyc: Tinyc, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    write_model(Path("model.onnx"))
    Path("model.calib.npz").rename("calib.npz")
    shutil.copy("calib.npz", "test.npz")
    assert tinyc("quantize", "model.onnx", "--calibration", "calib.npz", "--out", "model.tflite")[0] == 0
    np.savez("golden.npz", y=foreign_outputs(Path("model.tflite"), np.load("test.npz")["x"]))
    board = load_board("stm32f4-discovery")
    chip = Stm32(contents=b"\x00" * 40_000)
    for arguments in commands():
        if arguments[0] == "flash":
            with chip.at_port() as port:
                code, out, err = tinyc(*(port if word == PORT else word for word in arguments))
            assert "bytes flashed and checked" in out, err
            Path("flash.bin").write_bytes(bytes(chip.flash))
        elif arguments[0] == "run":
            with board_at_port(board, Path("flash.bin")) as port:
                code, out, err = tinyc(*(port if word == PORT else word for word in arguments))
            assert "all equal" in out, err
        else:
            code, out, err = tinyc(*arguments)
        assert code == 0, (arguments, out, err)
    assert chip.started == 0x0800_0000
