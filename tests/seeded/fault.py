# SPDX-License-Identifier: Apache-2.0
"""A fault as `faults/*.toml` has it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("faults")


@dataclass(frozen=True, slots=True)
class Fault:
    """about: one sentence that says what is wrong. text: stands in the file exactly once; `instead` takes its place.
    tests: files of tests, or `file::function`, that have to fail."""

    name: str
    about: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def times(self, root: Path = ROOT) -> int:
        """How often the file has the text; 0 where there is no such file."""
        file = root / self.file
        return file.read_text(encoding="utf-8").count(self.text) if file.is_file() else 0

    def seed(self, root: Path) -> None:
        """Puts the fault into a checkout. The text is there once."""
        file = root / self.file
        file.write_text(file.read_text(encoding="utf-8").replace(self.text, self.instead), encoding="utf-8")


def all_faults() -> dict[str, Fault]:
    """By name, in the order of the files. ValueError where two have the same name."""
    faults: dict[str, Fault] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
            if name in faults:
                raise ValueError(f"{file.name}: '{name}' is there twice")
            faults[name] = Fault(name=name, **{**entry, "tests": tuple(entry["tests"])})
    return faults


def is_there(test: str, root: Path = ROOT) -> bool:
    """Whether a checkout has the file of tests, or the function in it."""
    name, _, function = test.partition("::")
    file = root / name
    if not file.is_file():
        return False
    return not function or re.search(rf"^def {function}\(", file.read_text(encoding="utf-8"), re.M) is not None
