# SPDX-License-Identifier: Apache-2.0
"""As much of CMSIS-Toolbox as a project with one layer uses: its files are read and followed, and gcc builds firmware.

A key that this does not know is an error, so that no line of a project goes by unread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.package.tools import needed, ran

OPTIMIZE = {"speed": "-O3", "balanced": "-O2", "size": "-Os"}
DEVICES = {"ARMCM4": ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")}  # of ARM::Cortex_DFP
ARM = ({"pack": "ARM::CMSIS"}, {"pack": "ARM::Cortex_DFP"})


@dataclass(frozen=True)
class Source:
    """A file to be compiled; optimize: of the toolbox's words."""

    file: Path
    optimize: str


def read(file: Path, kind: str, keys: Iterable[str]) -> Mapping[str, Any]:
    """What is below the only key of a file, which has these keys and no others."""
    yaml = pytest.importorskip("yaml")
    held = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert list(held) == [kind], file
    assert set(held[kind]) == set(keys), file
    assert isinstance(held[kind], dict)
    return held[kind]


def component(layer: Path) -> tuple[list[Source], list[Path]]:
    """Sources and folders of headers of the one component of a layer, from the pack that it names by its path."""
    held = read(layer, "layer", ("type", "description", "packs", "components"))
    (pack,), (named,) = held["packs"], held["components"]
    assert set(pack) == {"pack", "path"}
    assert set(named) == {"component", "optimize"}
    vendor, _, name = pack["pack"].partition("::")
    root = (layer.parent / pack["path"]).resolve()
    package = ElementTree.parse(root / f"{vendor}.{name}.pdsc").getroot()
    assert (package.findtext("vendor"), package.findtext("name")) == (vendor, name)
    components = [
        each
        for each in package.iter("component")
        if f"{vendor}::{each.get('Cclass')}:{each.get('Cgroup')}:{each.get('Csub')}" == named["component"]
    ]
    assert len(components) == 1, named["component"]
    files = [(each.get("category"), root / str(each.get("name"))) for each in components[0].iter("file")]
    assert [str(file) for _, file in files if not file.exists()] == []
    sources = [Source(file, named["optimize"]) for category, file in files if category == "source"]
    return sources, [file for category, file in files if category == "include"]


def build(solution: Path) -> Path:
    """The firmware of the only project of a solution, where the solution puts it."""
    keys = ("created-for", "compiler", "packs", "target-types", "build-types", "output-dirs", "projects")
    held = read(solution, "solution", keys)
    assert (held["compiler"], tuple(held["packs"])) == ("GCC", ARM)
    (target,), (kind,), (project,) = held["target-types"], held["build-types"], held["projects"]
    assert [set(each) for each in (target, kind)] == [{"type", "device"}, {"type", "optimize"}]
    out = (solution.parent / held["output-dirs"]["outdir"]).resolve()
    out.mkdir(parents=True)
    elf = out / f"{project['project'].removesuffix('.cproject.yml')}.elf"
    compiled(solution.parent / project["project"], DEVICES[target["device"]], kind["optimize"], elf)
    return elf


def compiled(project: Path, core: tuple[str, ...], optimize: str, elf: Path) -> None:
    """Compiles the files of a project and of its layer for a core, and links them."""
    gcc, there = needed("arm-none-eabi-gcc"), project.parent
    held = read(project, "project", ("output", "layers", "groups", "add-path", "linker", "misc"))
    (layer,), (linker,), (misc,) = held["layers"], held["linker"], held["misc"]
    assert held["output"] == {"type": "elf"}
    assert {linker["for-compiler"], misc["for-compiler"]} == {"GCC"}
    sources, folders = component(there / layer["layer"])
    sources += [Source(there / each["file"], optimize) for group in held["groups"] for each in group["files"]]
    folders += [there / folder for folder in held["add-path"]]
    objects = []
    for number, source in enumerate(sources):
        objects.append(elf.parent / f"{number}.o")
        flags = ("-std=c99", OPTIMIZE[source.optimize], *core, *misc["C"], *(f"-I{folder}" for folder in folders))
        ran(gcc, *flags, "-c", source.file, "-o", objects[-1], cwd=there)
    ran(gcc, *core, *misc["Link"], f"-T{there / linker['script']}", *objects, "-o", elf, cwd=there)
