# SPDX-License-Identifier: Apache-2.0
"""docs/extend.md does what it says: its blocks go into a copy of tinyc, nothing else does, and emulators prove it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extend.md"
COPIED = ("tinyc", "runtime_c", "templates", "boards", "tests", "scripts")
BLOCK = re.compile(r"^( *)```\w+\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"(?:# |/\* )(\S+): (new file|above|below|instead of)(.*?)(?: \*/)?")

# Instructions of the tile in a layer of 125 pixels, 64 to 64 channels: a call for three pixels and four channels.
POINTWISE = """
from tinyc.kernels.scalar.loops import a64, products
tile = a64.A64Products(products.DOT).write()
turn, around = tile.work("turn").instructions, tile.work().instructions
print(-(-125 // 3) * 64 // 4 * (around + 64 // products.DOT.taps * turn))
"""


class House:
    """A copy of tinyc in a folder, to be changed as a section of the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("golden"))
        shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")

    def follow(self, section: str) -> None:
        """Put every block of the section where its first line says."""
        text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
        blocks = [_as_it_stands(*match.groups()) for match in BLOCK.finditer(text)]
        assert blocks, section
        for block in blocks:
            first, _, rest = block.partition("\n")
            place = PLACE.fullmatch(first.strip())
            assert place is not None, first
            self._put(self.folder / place[1], place[2], re.findall(r"`([^`]+)`", place[3]), rest)

    def _put(self, file: Path, where: str, lines: list[str], text: str) -> None:
        if where == "new file":
            assert not file.exists(), file
            file.write_text(text, encoding="utf-8")
            return
        old, marked = file.read_text(encoding="utf-8"), "\n".join(lines)
        at = [match.start() for match in re.finditer(rf"^{re.escape(marked)}", old, re.MULTILINE)]
        assert len(at) == 1, f"{marked!r} stands {len(at)} times in {file}"
        end = old.index("\n", at[0] + len(marked)) + 1
        before, after = {"above": (at[0], at[0]), "below": (end, end), "instead of": (at[0], end)}[where]
        gap = "\n\n" if where == "above" and text.startswith("def ") else ""
        file.write_text(old[:before] + text + gap + old[after:], encoding="utf-8")

    def python(self, *arguments: str) -> str:
        """What a Python of the copy prints; its exit code must be 0."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tinyc(self, *arguments: str) -> str:
        return self.python("-m", "tinyc.cli.main", *arguments)

    def network(self) -> None:
        """`net.onnx`, a convolution and a Shrink, and inputs to quantize it with."""
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(6, 3, 3, 3)).astype(np.float32)
        nodes = [op("Conv", "x w", "c", pads=[1, 1, 1, 1]), op("Shrink", "c", "y", lambd=1.5)]
        model = build(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": weights})
        onnx.save(model, str(self.folder / "net.onnx"))
        np.savez(self.folder / "inputs.npz", x=rng.normal(size=(16, 3, 8, 8)).astype(np.float32))

    def sums(self) -> None:
        """`net.onnx`, a sum and the larger of two, and inputs to quantize it with."""
        rng = np.random.default_rng(0)
        nodes = [op("Add", "x z", "s"), op("Max", "s z", "y")]
        onnx.save(build(nodes, {"x": [1, 3, 31, 29], "z": [1, 3, 31, 29]}, ["y"]), str(self.folder / "net.onnx"))
        data = {name: rng.normal(size=(16, 3, 31, 29)).astype(np.float32) for name in "xz"}
        np.savez(self.folder / "inputs.npz", **data)

    def built(self, board: str, prefer: str) -> dict[str, str]:
        """Kernel by operator, of `net.onnx` built for the board and proved on its emulators."""
        asked = ("--board", board, "--prefer", prefer, "--calibration", "inputs.npz", "--json")
        report = json.loads(self.tinyc("build", "net.onnx", *asked))
        assert report["verify"]["output_bytes"] > 0 == report["verify"]["mismatches"]
        return {layer["op"]: layer["kernel"] for layer in report["layers"]}

    def listener(self, scale: float) -> None:
        """`ears.onnx` with 640 samples as input and `ears.npz`, quantized so that its input has about this scale."""
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(640, 3)).astype(np.float32)
        onnx.save(
            build([op("MatMul", "x w", "y")], {"x": [1, 640]}, ["y"], {"w": weights}), str(self.folder / "ears.onnx")
        )
        sounds = rng.uniform(-127 * scale, 127 * scale, (16, 1, 640)).astype(np.float32)
        np.savez(self.folder / "ears.npz", x=sounds)

    def machines(self, board: str) -> set[str]:
        """On what a small model was built for the board and proved."""
        checks = json.loads(self.tinyc("boards", board, "--check", "--json"))["checks"]
        assert all(check["problem"] is None and check["instructions"] > 0 for check in checks), checks
        return {check["machine"].split()[0] for check in checks}


def _as_it_stands(indent: str, text: str) -> str:
    """A block within a list, without the list's indentation; the text's own stays."""
    return re.sub(rf"^{indent}", "", text, flags=re.MULTILINE) if indent else text


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "house")


@pytest.mark.slow
def test_an_operator_and_its_kernel(house: House) -> None:
    house.follow("An operator")
    house.python("scripts/importer_homes.py")  # of `make docs`
    house.network()
    house.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/ops/test_shrink.py")
    assert house.built("cortex-m4", "flash")["shrink"] == "tc_lut_s8"
    house.follow("A kernel")
    house.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/ops/test_shrink.py")
    chosen = {prefer: house.built("cortex-m4", prefer)["shrink"] for prefer in ("time", "flash")}
    assert chosen == {"time": "tc_lut_s8", "flash": "tc_shrink_s8"}


@pytest.mark.slow
def test_a_tile(house: House) -> None:
    house.follow("A tile")
    tests = ("tests/target/test_m4_kernels.py", "-m", "slow or not slow", "-k", "test_conv2d and w16_rolled")
    assert "2 passed" in house.python("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_a_board(house: House) -> None:
    house.follow("A board")
    assert house.machines("./small-m4.toml") == {"QEMU", "unicorn"}


def test_a_core(house: House) -> None:
    house.follow("A core")
    assert house.machines("./sc300.toml") == {"QEMU", "unicorn"}


def test_an_instruction_set(house: House) -> None:
    house.follow("An instruction set")
    house.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/target/test_a64.py")


@pytest.mark.slow
def test_networks_of_an_instruction_set(house: House) -> None:
    """Its tile and its loop target are what networks run, the tile as many instructions as it says."""
    for program in ("qemu-system-aarch64", "zig"):
        if shutil.which(program) is None and (program != "zig" or find_spec("ziglang") is None):
            pytest.skip(f"needs {program}")
    house.follow("An instruction set")
    assert house.machines("./a64.toml") == {"QEMU"}
    house.sums()
    assert house.built("./a64.toml", "time") == {"add": "tc_add_linear_s8_a64", "extremum": "tc_extremum_s8_a64"}
    kws = ROOT / "examples" / "kws"
    asked = (str(kws / "kws.onnx"), "--board", "./a64.toml", "--calibration", str(kws / "kws.calib.npz"))
    report = json.loads(house.tinyc("build", *asked, "--effort", "fast", "--samples", "2", "--json"))
    assert report["verify"]["output_bytes"] > 0 == report["verify"]["mismatches"]
    assert all(layer["instructions"] > 0 for layer in report["layers"])
    profile = json.loads(house.tinyc("profile", *asked, "--effort", "fast", "--prefer", "time", "--json"))  # no rows
    (pointwise,) = [layer for layer in profile["layers"] if layer["step"] == 2]
    (tile,) = [each for each in pointwise["functions"] if each["name"] == "tc_scalar_dot4"]
    assert tile["cost"]["instructions"] == int(house.python("-c", POINTWISE))


@pytest.mark.slow
def test_a_front_end(house: House) -> None:
    house.follow("A front end")
    house.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/frontend/test_waveform.py")
    house.listener(1 / 128)
    (house.folder / "wave.toml").write_text('kind = "waveform"\n')
    built = ("build", "ears.onnx", "--frontend", "wave.toml", "--board", "cortex-m4", "--calibration", "ears.npz")
    report = json.loads(house.tinyc(*built, "--json"))
    assert report["verify"]["output_bytes"] > 0 == report["verify"]["mismatches"]
    assert [layer["op"] for layer in report["layers"]][:2] == ["slice", "integer_map"]
