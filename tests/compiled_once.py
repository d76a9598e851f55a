# SPDX-License-Identifier: Apache-2.0
"""Hundreds of tests build the same libraries and the same firmware around them, and the next run builds most of them
again: what is compiled from the same text by the same compiler with the same flags is the object of the first process
that needed it."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.shared_folder import SharedFolder
from tinyc.toolchain.compilers import Toolchain

Words = Sequence[str | Path]
Run = Callable[[Toolchain, Words, str], None]

SOURCES = (".c", ".S")
TEXTS = (*SOURCES, ".h")
OBJECT = "made.o"  # zig goes by the name
LINKED = (".o", ".a")
PLACE = re.compile(r"-f(?:file|debug)-prefix-map=(.+)=(.*)")  # what debug information calls a folder
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(.*))', re.MULTILINE)
UNKNOWN = (
    b".incbin",
    b"#embed",
    b"__has_include",
    b"__DATE__",
    b"__TIME",
    b"__FILE__",
)  # of these the text does not tell all


class CompiledOnce:
    """A `Toolchain.run` that does not compile twice."""

    def __init__(self, folder: SharedFolder, run: Run) -> None:
        self._folder, self._run = folder, run

    def run(self, toolchain: Toolchain, arguments: Words, what: str) -> None:
        """As Toolchain.run."""
        *given, dash, output = ["", "", *arguments]  # at least two
        sources = [one for one in arguments if str(one).endswith(SOURCES)]
        if not sources or dash != "-o":
            self._run(toolchain, arguments, what)
        elif "-c" in arguments or "-shared" in arguments:
            object_file = self._compiled(toolchain, given[2:], what)
            if object_file is None:
                self._run(toolchain, arguments, what)
            else:
                shutil.copyfile(object_file, output)
        elif str(output).endswith(".elf"):
            flags = [one for one in arguments[: arguments.index(sources[0])] if not str(one).endswith(LINKED)]
            objects = {one: self._compiled(toolchain, [*flags, "-c", one], what) or one for one in sources}
            self._run(toolchain, [objects.get(one, one) for one in arguments], what)
        else:
            self._run(toolchain, arguments, what)

    def _compiled(self, toolchain: Toolchain, arguments: Words, what: str) -> Path | None:
        """The object that these arguments compile; None where the text alone does not say what it is."""
        key = key_of(arguments)
        if key is None:
            return None

        def compile_into(folder: Path) -> None:
            folder.mkdir(exist_ok=True)  # of a try that failed
            self._run(toolchain, [*arguments, "-o", folder / OBJECT], what)

        return self._folder.folder_of((toolchain, *key), compile_into) / OBJECT


def key_of(arguments: Words) -> tuple[str, ...] | None:
    """What decides about the object: the flags, and every text that is read, with the name that debug information, if
    there is any, has for it. Not where the texts lie, and no macro of the harness that none mentions. None if that
    cannot be seen."""
    words = [str(one) for one in arguments]
    places = dict(match.groups() for word in words if (match := PLACE.fullmatch(word)))
    folders = [Path(word[2:]) for word in words if word.startswith("-I")]
    files = [Path(word) for word in words if word.endswith(TEXTS)]
    texts: dict[Path, bytes] = {}
    for file in files:
        if not all(_readable(text) for text in _read(file, folders, texts)):
            return None
    flags = [
        word
        for word in words
        if not word.startswith("-I")
        and not PLACE.fullmatch(word)
        and not word.endswith(TEXTS)
        and not (word.startswith("-DTC_") and not _spoken_of(word[2:].partition("=")[0], texts))
    ]
    debugged = any(word.startswith("-g") for word in words)
    read = (
        f"{_named(file, places) if debugged else file.name} {hashlib.sha256(text).hexdigest()}"
        for file, text in texts.items()
    )
    return *flags, "", *read


def _read(file: Path, folders: Sequence[Path], texts: dict[Path, bytes]) -> Iterator[bytes]:
    """The texts of a file and of what it includes, each once; kept in `texts`. Of the compiler's own there are none."""
    if file in texts:
        return
    texts[file] = text = file.read_bytes()
    yield text
    for quoted, angled, _ in INCLUDE.findall(text):
        name = (quoted or angled).decode()
        beside = [file.parent] if quoted else []
        file_there = next((folder / name for folder in [*beside, *folders] if (folder / name).is_file()), None)
        if name and file_there:
            yield from _read(file_there, folders, texts)


def _readable(text: bytes) -> bool:
    return not any(word in text for word in UNKNOWN) and not any(other for _, _, other in INCLUDE.findall(text))


def _spoken_of(macro: str, texts: Mapping[Path, bytes]) -> bool:
    return any(macro.encode() in text for text in texts.values())


def _named(file: Path, places: Mapping[str, str]) -> str:
    """The file's path as debug information has it: of several folders that hold it, the last one's name counts."""
    for old, new in reversed(places.items()):
        if str(file).startswith(old):
            return new + str(file)[len(old) :]
    return str(file)
