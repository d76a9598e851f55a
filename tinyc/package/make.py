# SPDX-License-Identifier: Apache-2.0
"""From a proved library to the folder of a package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.base.output_folder import check_replaceable, replacing
from tinyc.base.templates import render
from tinyc.package.facts import Facts, read_facts
from tinyc.package.kinds import PackageKind
from tinyc.package.sbom import SBOM_FILE

_COMMON = "package/common"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


DEFAULT_VERSION = "1.0.0"


def package_folder(library: Path, kind: PackageKind) -> Path:
    """Where the package of a library's folder goes: beside it, `build/kws-cmake`."""
    place = library if library.name not in ("", "..") else library.resolve()
    return place.with_name(f"{place.name}-{kind.name}")


def write_packages(library: Path, kinds: Sequence[PackageKind], version: str, out: Path | None = None) -> list[Path]:
    """Packages of the library in an output folder of `tinyc build`, each a folder beside it; out: of the only one.

    Raises TinycError as `read_facts` and `write_package` do; a package is written as a whole or not at all.
    """
    check_version(version)
    targets = [out or package_folder(library, kind) for kind in kinds]
    for target in targets:
        check_replaceable(target)
    facts = read_facts(library)
    for kind, target in zip(kinds, targets, strict=True):
        write_package(facts, kind, version, target)
    return targets


def check_version(version: str) -> None:
    """Raises TinycError for what is no version: three numbers, as every kind of package takes them."""
    if not _VERSION.fullmatch(version):
        raise TinycError(f"'{version}' is no version of a package", hint="give three numbers: 1.2.0")


def write_package(facts: Facts, kind: PackageKind, version: str, target: Path) -> None:
    """The package in the folder `target`, complete or not at all. Raises TinycError as `replacing` does."""
    with replacing(target) as folder:
        for name, text in package_files(facts, kind, version).items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def package_files(facts: Facts, kind: PackageKind, version: str) -> dict[str, str]:
    """Path in the package -> text of every file. Same facts, same bytes."""
    values = {"f": facts, "kind": kind.name, "version": version, "sources": sorted(facts.files)}
    files = {f"{_place(kind, facts, name)}/{name}": text for name, text in facts.files.items()}
    files |= {SBOM_FILE: facts.sbom, "LICENSE": library_licence()}
    if kind.name != "rust":
        files |= {f"{kind.headers}/{path}": text for path, text in _rendered(_COMMON, facts, values)}
    files |= dict(_rendered(f"package/{kind.name}", facts, values, () if _is_cortex_m(facts) else kind.cortex_m))
    return {str(PurePosixPath(path)): text for path, text in sorted(files.items())}


def library_licence() -> str:
    """The text of the licence of what is generated."""
    return _text("package/LICENSE")


def selftest_header(facts: Facts) -> str:
    """The text of `<name>_selftest.h`."""
    return render(f"{_COMMON}/NAME_selftest.h.j2", {"f": facts})


def _place(kind: PackageKind, facts: Facts, name: str) -> str:
    return kind.headers if name == f"{facts.name}.h" else kind.sources


def _is_cortex_m(facts: Facts) -> bool:
    board = facts.board
    return board is not None and board.startup == "cortex-m" and "gcc" in board.cflags


def _rendered(
    folder: str, facts: Facts, values: Mapping[str, Any], without: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Path and text of a folder's files, but for those of the subfolders `without`; NAME in a path is the library's."""
    root = paths.templates_dir() / folder
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        path = file.relative_to(root).as_posix()
        if any(path.startswith(f"{place}/") for place in without):
            continue
        text = render(f"{folder}/{path}", values) if path.endswith(".j2") else file.read_text(encoding="utf-8")
        yield path.removesuffix(".j2").replace("NAME", facts.name), text


def _text(template: str) -> str:
    return (paths.templates_dir() / template).read_text(encoding="utf-8")
