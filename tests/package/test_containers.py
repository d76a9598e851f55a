# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile and the dev container: what they install exists, and is all that proofs need."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tinyc.board.instruction_set import INSTRUCTION_SETS

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"


def test_the_dockerfile_has_ten_lines_and_every_compiler() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 10
    packages = set(re.findall(r"[\w.+-]+", text.partition("recommends")[2].partition("&&")[0]))
    assert {"gcc", "qemu-system-arm", "qemu-system-misc"} | {
        each.gcc_package for each in INSTRUCTION_SETS.values() if each.gcc_package
    } <= packages
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (asked,) = re.findall(r"/tmp/tinyc\[(\w+)\]", text)
    named = set(re.search(r"\[([\w,]+)\]", extras[asked][0])[1].split(","))  # type: ignore[index]
    assert named >= {"onnx", "proof", "plot", "pictures"}
    assert named <= extras.keys()


def test_the_dev_container_makes_what_tests_need() -> None:
    held = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    program, *targets = held["postCreateCommand"].split()
    assert program == "make"
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


@pytest.mark.slow
def test_the_image_is_built_and_runs() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    ):
        pytest.skip("there is no Docker daemon here")
    subprocess.run(["docker", "build", "-q", "-t", "tinyc-test", str(ROOT)], check=True)
    subprocess.run(["docker", "run", "--rm", "tinyc-test", "doctor"], check=True)
