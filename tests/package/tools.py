# SPDX-License-Identifier: Apache-2.0
"""Programs of other build systems: found, or the test skips and says what is missing. `make test-tools` installs them;
those of Python have an environment of their own beside ours, since they ask for other versions of what we use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OWN = Path(sys.prefix).resolve() / "tools" / "bin"


def tools_folder() -> Path:
    """Where the environment of those programs is: TINYC_TOOLS names its folder of programs."""
    return Path(os.environ.get("TINYC_TOOLS", OWN)).parent


def needed(program: str) -> str:
    """The path of a program."""
    path = shutil.which(program) or shutil.which(program, path=str(Path(os.environ.get("TINYC_TOOLS", OWN))))
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def needed_module(module: str) -> tuple[str, str, str]:
    """How a module of those environments is run as a program."""
    python = tools_folder() / "bin" / "python"
    if (
        not python.exists()
        or subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"{module} is not installed: make test-tools")
    return str(python), "-m", module


def ran(*command: str | Path, cwd: Path, env: dict[str, str] | None = None, seconds: int = 300) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def emulated(elf: Path) -> str:
    """What a program for QEMU's Cortex-M4 machine says by semihosting; it has to end well."""
    qemu = needed("qemu-system-arm")
    return ran(qemu, "-machine", "mps2-an386", "-semihosting", "-nographic", "-kernel", elf, cwd=elf.parent)


def debian_crates(home: Path) -> dict[str, str]:
    """The settings with which cargo takes Debian's crates for those of its registry, in the folder `home`."""
    crates = Path("/usr/share/cargo/registry")
    if not list(crates.glob("cc-*")):
        pytest.skip("librust-cc-dev is not installed")
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "debian"\n[source.debian]\ndirectory = "{crates}"\n'
    )
    return {"CARGO_HOME": str(home), "CARGO_NET_OFFLINE": "true", "RUSTFLAGS": "-D warnings"}
