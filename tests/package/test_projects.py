# SPDX-License-Identifier: Apache-2.0
"""The projects of examples/projects/, built as their pages say and run: they hear the words that were said."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.package import build_systems, csolution_stand_in
from tests.package.tools import debian_crates, emulated, needed, ran
from tests.shared_folder import SharedFolder
from tinyc.cli.main import main
from tinyc.package.kinds import kinds_of
from tinyc.package.make import DEFAULT_VERSION, write_packages

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ROOT / "examples" / "projects"
sys.path.insert(0, str(ROOT / "scripts"))

import project_clips  # noqa: E402  a script

HEARD = [
    "clip 1: yes, as expected",
    "clip 2: left, as expected",
    "clip 3: stop, as expected",
    "clip 4: go, as expected",
    "all clips as expected",
]
COMPARES = ("cmake", "cpp", "baremetal", "rust")
RIGHT = "clip_said[CLIP_COUNT] = {0, 4, 8, 9}", "SAID: [usize; 4] = [0, 4, 8, 9]"


@dataclass(frozen=True)
class Place:
    """A project as a reader has it: examples/ and what the first command of its page built, in a folder of their own.
    commands: those that follow on the page."""

    root: Path
    name: str
    commands: tuple[str, ...]

    @property
    def project(self) -> Path:
        return self.root / "examples" / "projects" / self.name


@dataclass(frozen=True)
class How:
    """How a project is built and run here; `build` gives what it says. needs: programs, without which it skips."""

    needs: tuple[str, ...]
    build: Callable[[Place], str]


def as_typed(place: Place, **env: str) -> str:
    """What the page's commands say, typed one after the other in the folder of the repository."""
    settings = {"MAKEFLAGS": "", **env}
    return "".join(ran("bash", "-c", command, cwd=place.root, env=settings) for command in place.commands)


def by_cargo(place: Place) -> str:
    """As typed, with Debian's crate `cc` in the place of the registry's."""
    return as_typed(place, **debian_crates(place.root / "cargo"))


def by_platformio(place: Place) -> str:
    pio = Path(needed("pio"))
    return as_typed(place, **build_systems.platformio(place.root), PATH=f"{pio.parent}:{os.environ['PATH']}")


def by_arduino(place: Place) -> str:
    return in_qemu(place, place.project / "words" / "words.ino")


def in_qemu(place: Place, sketch: Path) -> str:
    libraries = {"kws": place.root / "build" / "kws-arduino", "words": place.root / "examples" / "projects" / "shared"}
    return build_systems.arduino(sketch, libraries, place.root)


def by_zephyr(place: Place) -> str:
    return build_systems.zephyr(place.root / "build" / "kws-zephyr", place.project, place.root / "made")


def by_esp_idf(place: Place) -> str:
    return build_systems.esp_idf(place.root / "build" / "kws-esp-idf", place.project, place.root / "made")


def by_csolution(place: Place) -> str:
    elf = csolution_stand_in.build(place.project / "words.csolution.yml")
    assert f"-kernel {elf.relative_to(place.root)}" in place.commands[-1]
    return emulated(elf)


HOW = {
    "cmake": How(("cmake", "gcc"), as_typed),
    "cpp": How(("make", "g++", "gcc"), as_typed),
    "baremetal": How(("make", "arm-none-eabi-gcc", "qemu-system-arm"), as_typed),
    "rust": How(("cargo", "gcc"), by_cargo),
    "platformio": How(("pio", "g++"), by_platformio),
    "arduino": How(("arduino-builder", "arduino-ctags", "arm-none-eabi-g++", "qemu-system-arm"), by_arduino),
    "zephyr": How(("cmake", "gcc"), by_zephyr),
    "esp-idf": How(("cmake", "gcc", "riscv64-unknown-elf-gcc", "qemu-system-riscv32"), by_esp_idf),
    "csolution": How(("arm-none-eabi-gcc", "qemu-system-arm"), by_csolution),
}


def shown(page: Path) -> list[str]:
    """The lines of a page that are typed, or that a program says."""
    return re.findall(r"^ {4}(\S.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def spoken(text: str) -> list[str]:
    """What a project says of the clips, among what its tools say."""
    return re.findall(r"^(?:clip \d: .*|(?:NOT )?all clips .*)$", text.replace("\r", ""), re.MULTILINE)


@pytest.fixture(scope="session")
def library(shared_folder: SharedFolder) -> Callable[[str], Path]:
    """Builds the model for a board as the pages do, once in a run of tests, but with the integers of `--effort
    fast`: the folder of the library."""

    def build(board: str) -> Path:
        def make(out: Path) -> None:
            command = ["tinyc", "build", "examples/kws/kws.onnx", "--board", board, "--samples", "1"]
            out.mkdir(exist_ok=True)
            said = io.StringIO()
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(ROOT)
                patch.setattr(sys, "argv", [*command, "--effort", "fast", "--out", str(out / "kws")])
                with redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as end:
                    main()
            assert end.value.code == 0, said.getvalue()

        return shared_folder.folder_of(("the library of the projects", board), make) / "kws"

    return build


@pytest.fixture
def place(library: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Place]:
    """Makes the folder of a project; skips without its tools."""

    def make(name: str) -> Place:
        for program in HOW[name].needs:
            needed(program)
        first, *commands = [line for line in shown(PROJECTS / name / "README.md") if not spoken(line)]
        board, package = told(first)
        shutil.copytree(PROJECTS, tmp_path / "examples" / "projects")
        folder = shutil.copytree(library(board), tmp_path / "build" / "kws")
        if package:
            write_packages(folder, kinds_of(package), DEFAULT_VERSION)
        for named in re.findall(r"\b(?:examples/|build/kws-)[\w/.-]+", " ".join(commands)):  # some are not typed here
            assert (tmp_path / named).exists() or named == "build/kws-made", named
        return Place(tmp_path, name, tuple(commands))

    return make


def told(command: str) -> tuple[str, str]:
    """Board and package of the first command of a page."""
    tinyc, build, model, *options = shlex.split(command)
    assert (tinyc, build, model) == ("tinyc", "build", "examples/kws/kws.onnx")
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given.keys() <= {"--board", "--package"}
    return given["--board"], given.get("--package", "")


@pytest.mark.parametrize("name", HOW)
def test_a_project_hears_the_words(name: str, place: Callable[[str], Place]) -> None:
    """And programs that compare say a wrong word, and end in an error: the shared one in C, on both machines, and those
    of the other languages. What was built is built on, as a reader does who changes a file."""
    there = place(name)
    assert spoken(HOW[name].build(there)) == HEARD
    if name not in COMPARES:
        return
    for file in project_clips.FILES:
        held = there.root / file.relative_to(ROOT)
        text = held.read_text(encoding="utf-8")
        wrong = [text.replace(right, right.replace("4, 8", "5, 8")) for right in RIGHT if right in text]
        assert len(wrong) == 1
        held.write_text(wrong[0], encoding="utf-8")
    with pytest.raises(AssertionError, match="clip 2: left, expected right\n") as failed:
        HOW[name].build(there)
    assert spoken(str(failed.value))[-1] == "NOT all clips as expected"


def test_platformio_s_program_hears_them_on_a_board_too(place: Callable[[str], Place]) -> None:
    """The part for Arduino's functions, as a sketch of Arduino's builder: PlatformIO's platforms of boards are out of
    reach."""
    for program in HOW["arduino"].needs:
        needed(program)
    there = place("platformio")
    sketch = there.root / "main" / "main.ino"
    sketch.parent.mkdir()
    shutil.copy(there.project / "src" / "main.cpp", sketch)
    write_packages(there.root / "build" / "kws", kinds_of("arduino"), DEFAULT_VERSION)
    assert spoken(in_qemu(there, sketch)) == HEARD


@pytest.mark.parametrize("file", project_clips.FILES, ids=lambda file: file.name)
def test_the_clips_are_those_of_the_test_set(file: Path) -> None:
    written = project_clips.FILES[file](project_clips.read_clips())
    assert file.read_text(encoding="utf-8") == written, "run scripts/project_clips.py"
    assert len(written) < 50_000


def test_every_project_is_tested_and_linked() -> None:
    """Each has a page with the words, is in the list of projects, and is linked from the page about packages."""
    folders = {path.parent.name for path in PROJECTS.glob("*/README.md")}
    assert folders == set(HOW)
    for page, link in (
        (PROJECTS / "README.md", "{}/README.md"),
        (ROOT / "docs" / "integrate.md", "projects/{}/README.md"),
    ):
        text = page.read_text(encoding="utf-8")
        assert [name for name in folders if f"{link.format(name)})" not in text] == []
    for name in folders:
        assert [line for line in shown(PROJECTS / name / "README.md") if spoken(line)] == HEARD, name
