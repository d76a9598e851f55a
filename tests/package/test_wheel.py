# SPDX-License-Identifier: Apache-2.0
"""tinyc as pip installs it: the wheel holds all that it reads, and an environment with nothing else builds a model
without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.cli.test_cli import write_model
from tests.load.tflite_models import network_bytes
from tests.package.tools import needed, ran

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 150_000_000  # of an installation for TFLite models
OFFLINE = """import socket
class _Refused(socket.socket):
    def __init__(self, *args, **kwargs):
        raise OSError("this installation has no network")
socket.socket = _Refused
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    call = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if "Could not find a version" in done.stderr or "No matching distribution" in done.stderr:
        pytest.skip("pip reaches no package index: hatchling, which builds the wheel, is not to be had")
    assert done.returncode == 0, done.stderr
    (wheel_file,) = folder.glob("*.whl")
    return wheel_file


def python(version: str) -> Path:
    """That version of Python: on PATH or pyenv's, or the test skips."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [shutil.which(f"python{version}"), *sorted(map(str, installed.glob(f"{version}.*/bin/python{version}")))]
    for name in filter(None, names):
        if subprocess.run([name, "-c", ""], capture_output=True, check=False).returncode == 0:  # pyenv's may be empty
            return Path(name)
    pytest.skip(f"Python {version} is not installed")


def install(folder: Path, interpreter: Path, *packages: str) -> Path:
    """An environment with the packages and what they ask for, pip itself not among it, that reaches no network."""
    ran(interpreter, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    own = folder / "bin" / "python"
    ran(sys.executable, "-m", "pip", "--python", own, "install", "--quiet", *packages, cwd=ROOT, seconds=1200)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(OFFLINE)
    return folder / "bin" / "tinyc"


def outside() -> dict[str, str]:
    """An environment in which only what is installed can be imported."""
    return {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}


def site_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("lib/python*/site-packages/**/*") if file.is_file())


@pytest.mark.slow
def test_the_wheel_holds_what_the_program_reads(wheel: Path) -> None:
    """Byte for byte what the repository does, and nothing of the tests."""
    tracked = ran(
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "runtime_c",
        "templates",
        "boards",
        "tinyc",
        cwd=ROOT,
    ).splitlines()
    with zipfile.ZipFile(wheel) as held:
        names = {name for name in held.namelist() if ".dist-info/" not in name}
        expected = {name if name.startswith("tinyc/") else f"tinyc/_data/{name}": name for name in tracked}
        assert names == set(expected)
        assert all(held.read(name) == (ROOT / source).read_bytes() for name, source in expected.items())
        licences = [name.rpartition("/")[2] for name in held.namelist() if "/licenses/" in name]
    assert {"LICENSE", "NOTICE", "0BSD.txt"} <= set(licences)


@pytest.mark.slow
def test_an_sdist_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """And has what its own pages link to."""
    ran(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=ROOT)
    own = tmp_path / "env" / "bin" / "python"
    ran(sys.executable, "-m", "pip", "--python", own, "install", "--quiet", "hatchling", cwd=ROOT, seconds=600)
    ran(own, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "out", cwd=ROOT)
    (sdist,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(sdist) as held:
        held.extractall(tmp_path / "src", filter="data")
    (source,) = (tmp_path / "src").iterdir()
    for name in ("LICENSE", "examples/kws/kws.onnx", "skills/tinyc/SKILL.md", "Dockerfile", "docs/install.md"):
        assert (source / name).read_bytes() == (ROOT / name).read_bytes()
    ran(own, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source)
    (again,) = (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(again) as new, zipfile.ZipFile(wheel) as old:
        names = {name for name in old.namelist() if ".dist-info/" not in name}
        assert names == {name for name in new.namelist() if ".dist-info/" not in name}
        assert all(new.read(name) == old.read(name) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_bare_environment_builds_a_model(wheel: Path, tmp_path: Path, version: str) -> None:
    """With the wheel and what it asks for: a library unproved, and one proved with this computer's C compiler."""
    needed("gcc")
    program = install(tmp_path / "env", python(version), str(wheel))
    (tmp_path / "net.tflite").write_bytes(network_bytes())
    told = ran(program, "build", "net.tflite", "-b", "cortex-m4", "--no-proof", cwd=tmp_path, env=outside())
    assert "NOT PROVED" in told
    command = (program, "build", "net.tflite", "-b", "host", "-o", "proved", "--package", "cmake")
    assert "all equal" in ran(*command, cwd=tmp_path, env=outside())
    report = json.loads((tmp_path / "proved" / "report.json").read_text())
    assert report["verify"]["mismatches"] == 0
    assert (tmp_path / "proved-cmake" / "CMakeLists.txt").exists()
    assert site_bytes(tmp_path / "env") < MOST_BYTES


@pytest.mark.slow
def test_with_its_extras_it_proves_an_onnx_model_on_a_board(wheel: Path, tmp_path: Path) -> None:
    """ONNX Runtime, unicorn, and a compiler, all from pip."""
    program = install(tmp_path / "env", Path(sys.executable), f"{wheel}[onnx,proof,zig]")
    write_model(tmp_path / "tiny.onnx")
    told = ran(
        program, "build", "tiny.onnx", "-b", "cortex-m4", "--toolchain", "zig", "--emulator", "unicorn",
        cwd=tmp_path, env=outside(), seconds=1200,
    )  # fmt: skip
    assert "all equal" in told
