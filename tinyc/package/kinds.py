# SPDX-License-Identifier: Apache-2.0
"""What packages there are: of each a folder of templates, templates/package/<name>/, and where the library goes."""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import check_word


@dataclass(frozen=True, slots=True)
class PackageKind:
    """A package. headers, sources: folders of the API's headers, and of everything else of the library.
    cortex_m: folders of files that are made for Cortex-M boards only."""

    name: str
    says: str
    headers: str
    sources: str
    cortex_m: tuple[str, ...] = ()


KINDS = (
    PackageKind("arduino", "Arduino library", "src", "src"),
    PackageKind(
        "cmake", "CMake package with the target tinyc::NAME", "include", "src", cortex_m=("examples/baremetal",)
    ),
    PackageKind("cmsis-pack", "CMSIS-Pack with a csolution layer", "include", "src"),
    PackageKind("cpp", "C++14 wrapper", ".", "."),
    PackageKind("esp-idf", "ESP-IDF component", "include", "src"),
    PackageKind("micropython", "MicroPython module, native or in the firmware", ".", "."),
    PackageKind("platformio", "PlatformIO library", "include", "src"),
    PackageKind("rust", "Rust crate without std", "c", "c"),
    PackageKind("zephyr", "Zephyr module", "include", "src"),
)


def kinds_of(names: str) -> tuple[PackageKind, ...]:
    """The kinds that `cmake,rust` names, each once. Raises TinycError, which lists all, for another name."""
    requested = dict.fromkeys(name.strip() for name in names.split(","))
    for name in requested:
        check_word("package", name, [kind.name for kind in KINDS])
    return tuple(kind for name in requested for kind in KINDS if kind.name == name)


def complete_kinds(begun: str) -> list[str]:
    """What a shell offers for the last of `cmake,ru`."""
    before, _, last = begun.rpartition(",")
    given = before.split(",")
    names = [kind.name for kind in KINDS if kind.name.startswith(last) and kind.name not in given]
    return [f"{before},{name}" if before else name for name in names]
