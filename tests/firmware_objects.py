# SPDX-License-Identifier: Apache-2.0
"""Hundreds of tests build firmware: what is the same in all of them is compiled once for each set of flags, by the
first process of the run that needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.shared_folder import SharedFolder
from tinyc.base import paths
from tinyc.build.toolchain import Toolchain

FIRMWARE = paths.templates_dir() / "firmware"
PROJECT = paths.templates_dir().parent
Run = Callable[[Toolchain, Sequence[str | Path], str], None]


class FirmwareObjects:
    """A `Toolchain.run` that links objects in place of sources of the harness that do not know the model."""

    def __init__(self, folder: SharedFolder, run: Run) -> None:
        self._folder, self._run = folder, run

    def run(self, toolchain: Toolchain, arguments: Sequence[str | Path], what: str) -> None:
        """As Toolchain.run. zig keeps objects by itself."""
        first = next((i for i, one in enumerate(arguments) if str(one).endswith((".c", ".S"))), len(arguments))
        links = toolchain.family != "zig" and "-c" not in arguments and str(arguments[-1]).endswith(".elf")
        flags = [one for one in arguments[:first] if not _of_one_build(str(one))]
        given = [self._object(toolchain, flags, one) if links else one for one in arguments]
        self._run(toolchain, given, what)

    def _object(self, toolchain: Toolchain, flags: Sequence[str | Path], argument: str | Path) -> str | Path:
        source = Path(argument)
        if source.parent != FIRMWARE or "model_glue.h" in (text := source.read_text()):
            return argument
        if "TC_MODEL_RUN" not in text:
            flags = [one for one in flags if not str(one).startswith("-DTC_MODEL_RUN=")]

        def make(output: Path) -> None:
            self._run(toolchain, [*flags, f"-I{FIRMWARE}", "-c", source, "-o", output], f"compiling {source.name}")

        return self._folder.made((toolchain, *map(str, flags), source.name), make)


def _of_one_build(flag: str) -> bool:
    """Whether the flag names folders of one build: where it includes from, and what its own folder is called."""
    return flag.startswith("-I") or ("-prefix-map=" in flag and str(PROJECT) not in flag)
