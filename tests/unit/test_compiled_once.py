# SPDX-License-Identifier: Apache-2.0
"""What `CompiledOnce` takes for the same object, and what not: tests would else see the firmware of other tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.compiled_once import CompiledOnce
from tests.shared_folder import SharedFolder
from tinyc.base.errors import TinycError
from tinyc.toolchain.compilers import Toolchain, host_compiler

TEXT = '#include "m.h"\n#include <stdint.h>\nint32_t f(void) { return M; }\n'
MAIN = "#ifdef TC_TWICE\n#define N 2\n#else\n#define N 1\n#endif\nint f(void);\nint main(void) { return N * f(); }\n"


class Compiling:
    """A run of tests in a folder: which sources were compiled or linked, in their order."""

    def __init__(self, folder: Path) -> None:
        chain = host_compiler()
        if chain is None:
            pytest.skip("no compiler for this computer")
        self.folder, self.chain, self.compiled = folder, chain, list[str]()
        self._run = Toolchain.run
        self._once = CompiledOnce(SharedFolder(folder / "shared"), self._noted)

    def _noted(self, chain: Toolchain, arguments: Sequence[str | Path], what: str) -> None:
        self.compiled += [Path(one).name for one in arguments if str(one).endswith((".c", ".S"))]
        self._run(chain, arguments, what)

    def run(self, *arguments: str | Path) -> None:
        self._once.run(self.chain, arguments, "compiling")

    def library(self, place: str, text: str = TEXT, header: str = "#define M 3\n", *flags: str) -> bytes:
        """The object of a library in a folder of this name."""
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        (folder / "m.h").write_text(header)
        (folder / "m.c").write_text(text)
        places = [f"-ffile-prefix-map={old}=." for old in (Path.cwd(), folder)]
        given = ["-std=c99", "-g", *flags, *places, "-c", folder / "m.c", "-o", folder / "m.o"]
        self._once.run(self.chain, given, "compiling m.c")
        return (folder / "m.o").read_bytes()

    def program(self, place: str, *flags: str) -> None:
        """The program around the library of the folder."""
        folder = self.folder / place
        (folder / "main.c").write_text(MAIN)
        places = [f"-ffile-prefix-map={old}=." for old in (Path.cwd(), folder)]
        given = ["-std=c99", *flags, *places, folder / "main.c", folder / "m.o", "-o", folder / "m.elf"]
        self._once.run(self.chain, given, "linking m.elf")
        assert (folder / "m.elf").is_file()


@pytest.fixture
def compiling(tmp_path: Path) -> Compiling:
    return Compiling(tmp_path)


def test_the_same_text_elsewhere_is_compiled_once(compiling: Compiling) -> None:
    assert compiling.library("a") == compiling.library("b")
    assert compiling.compiled == ["m.c"]


@pytest.mark.parametrize(("text", "times"), [("int f;\n", 1), ("const char *f = __FILE__;\n", 2)])
def test_a_shared_library_without_debug_information_is_the_same_in_each_folder(
    compiling: Compiling, text: str, times: int
) -> None:
    for place in ("a", "b"):
        folder = compiling.folder / place
        folder.mkdir()
        (folder / "m.c").write_text(text)
        compiling.run("-std=c99", "-fPIC", "-shared", folder / "m.c", "-o", folder / "m.so")
        assert (folder / "m.so").is_file()
    assert compiling.compiled == ["m.c"] * times


@pytest.mark.parametrize(
    "other",
    [
        lambda c: c.library("b", TEXT + "\n"),
        lambda c: c.library("b", TEXT, "#define M 4\n"),
        lambda c: c.library("b", TEXT, "#define M 3\n", "-O2"),
        lambda c: c.library("b", TEXT, "#define M 3\n", "-DM2"),
    ],
    ids=["text", "header", "flag", "macro"],
)
def test_what_differs_is_compiled(compiling: Compiling, other: Callable[[Compiling], bytes]) -> None:
    compiling.library("a")
    other(compiling)
    assert compiling.compiled == ["m.c", "m.c"]


def test_of_other_places_only_what_has_the_same_debug_information(compiling: Compiling) -> None:
    """Without a name for the folder the path is in the object."""
    for place in ("a", "b"):
        folder = compiling.folder / place
        folder.mkdir()
        (folder / "m.c").write_text("int f;\n")
        compiling._once.run(compiling.chain, ["-g", "-c", folder / "m.c", "-o", folder / "m.o"], "compiling m.c")
    assert compiling.compiled == ["m.c", "m.c"]


@pytest.mark.parametrize("line", ["#define NAME <stdint.h>\n#include NAME\n", "const char *made = __DATE__;\n"])
def test_what_the_text_does_not_tell_is_compiled_each_time(compiling: Compiling, line: str) -> None:
    compiling.library("a", line + TEXT)
    compiling.library("b", line + TEXT)
    assert compiling.compiled == ["m.c", "m.c"]


def test_programs_share_what_knows_no_other_macro(compiling: Compiling) -> None:
    for place, flags in (("a", []), ("b", ["-DTC_OF_NOBODY=3"]), ("c", ["-DTC_TWICE=1"])):
        compiling.library(place)
        compiling.program(place, *flags)
    assert compiling.compiled == ["m.c", "main.c", "main.c"]


def test_what_is_wrong_is_said_each_time(compiling: Compiling) -> None:
    for place in ("a", "b"):
        with pytest.raises(TinycError, match=r"compiling m\.c"):
            compiling.library(place, "int f(")
    assert compiling.compiled == ["m.c", "m.c"]


def test_what_nobody_asks_for_is_forgotten(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path / "shared")
    old, used = (shared.folder_of(name, lambda path: path.mkdir()) for name in ("old", "used"))
    file = shared.folder_of("file", lambda path: path.touch())
    for path in (tmp_path / "shared").iterdir():
        os.utime(path, (0, 0))
    assert shared.folder_of("used", lambda path: path.mkdir()) == used
    shared.forget(days=1)
    assert list((tmp_path / "shared").iterdir()) == [used]
    assert not old.exists()
    assert not file.exists()
