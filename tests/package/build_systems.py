# SPDX-License-Identifier: Apache-2.0
"""Build systems that need more than their program: a platform, a registry, or stand-ins of a system that is not there.

Each function builds an application with a package and gives what it says; tests of packages and of examples/projects/
use them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.package.tools import emulated, needed, needed_module, ran

HERE = Path(__file__).resolve().parent


def arduino(sketch: Path, libraries: Mapping[str, Path], there: Path) -> str:
    """By Arduino's own builder, with a platform whose flags are those of Arduino's: C++, -fpermissive, -Os, -flto. Runs
    in QEMU until the first delay. libraries: by the names of their folders."""
    builder, ctags, _ = needed("arduino-builder"), needed("arduino-ctags"), needed("arm-none-eabi-g++")
    hardware, installed, build_folder = there / "hardware", there / "libraries", there / "made"
    shutil.copytree(HERE / "arduino_platform", hardware / "tinyc")
    for name, library in libraries.items():
        shutil.copytree(library, installed / name)
    build_folder.mkdir()
    pattern = (
        f'"{ctags}" -u --language-force=c++ -f - --c++-kinds=svpf --fields=KSTtzns --line-directives "{{source_file}}"'
    )
    said = ran(
        *(builder, "-compile", "-hardware", hardware, "-tools", there, "-libraries", installed),
        *("-fqbn", "tinyc:emulated:m4", "-build-path", build_folder, "-ide-version", "10819", "-verbose"),
        *(f"-prefs=tools.ctags.pattern={pattern}", "-prefs=compiler.path="),
        sketch,
        cwd=there,
    )
    assert "-flto" in said
    assert "-fpermissive" in said
    return emulated(build_folder / f"{sketch.name}.elf")


def platformio(there: Path) -> dict[str, str]:
    """The settings of a `pio` whose registry's SCons and platform are pip's SCons and a platform of ours."""
    core = there / "core"
    shutil.copytree(HERE / "platformio_core", core)
    for folder, kind, name in (
        ("packages/tool-scons", "tool", "tool-scons"),
        ("platforms/native", "platform", "native"),
    ):
        (core / folder / ".piopm").write_text(
            f'{{"type": "{kind}", "name": "{name}", "version": "{"4.41101.0" if kind == "tool" else "1.2.1"}", "spec": '
            f'{{"owner": "platformio", "id": null, "name": "{name}", "requirements": null, "uri": null}}}}'
        )
    return {
        "PLATFORMIO_CORE_DIR": str(core),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "9999",
    }


def kconfig(root: Path, *chosen: str) -> Any:
    """Zephyr's configuration of a board whose devicetree has chosen these."""
    kconfiglib = pytest.importorskip("kconfiglib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE / "zephyr_stand_in")  # where kconfiglib looks for functions
        patch.setenv("CHOSEN", " ".join(chosen))
        return kconfiglib.Kconfig(str(root), warn_to_stderr=False)


def zephyr(package: Path, application: Path, build_folder: Path) -> str:
    """Kconfig by Zephyr's own reader; CMake with stand-ins of Zephyr's functions, and of its kernel on a computer."""
    cmake, stand_in = needed("cmake"), HERE / "zephyr_stand_in"
    build_folder.mkdir()
    root = build_folder / "Kconfig"
    root.write_text((stand_in / "Kconfig").read_text() + f'source "{package}/Kconfig"\n')
    config = kconfig(root)
    config.load_config(str(application / "prj.conf"))
    assert config.warnings == []
    uses_fpu = "/tc_fpu.h" in "".join(map(str, package.rglob("*.h")))
    assert config.syms["FPU"].str_value == "ny"[uses_fpu]  # implied by a model whose kernels use it
    config.write_autoconf(str(build_folder / "autoconf.h"))
    config.write_config(str(build_folder / ".config"))
    settings = {"ZEPHYR_STAND_IN_MADE": str(build_folder)}
    ran(cmake, "-S", application, "-B", build_folder, f"-DZephyr_DIR={stand_in}", cwd=build_folder, env=settings)
    ran(cmake, "--build", build_folder, cwd=build_folder)
    return ran(build_folder / "app", cwd=build_folder)


def esp_idf(package: Path, application: Path, build_folder: Path, *settings: str) -> str:
    """Kconfig by ESP-IDF's own reader; CMake with stand-ins of ESP-IDF's functions, and of FreeRTOS on a computer.
    settings: lines of a project's sdkconfig.defaults."""
    cmake, stand_in = needed("cmake"), HERE / "esp_idf_stand_in"
    build_folder.mkdir()
    root, chosen = build_folder / "Kconfig", build_folder / "sdkconfig.defaults"
    root.write_text((stand_in / "Kconfig").read_text() + f'source "{package}/Kconfig"\n')
    chosen.write_text("".join(f"{line}\n" for line in settings))
    outputs = [word for form in ("header", "cmake") for word in ("--output", form, build_folder / f"sdkconfig.{form}")]
    said = ran(*needed_module("kconfgen"), "--kconfig", root, "--defaults", chosen, *outputs, cwd=build_folder)
    assert "warning" not in said.lower(), said
    (build_folder / "sdkconfig.header").rename(build_folder / "sdkconfig.h")
    idf = {"IDF_PATH": str(stand_in), "SDKCONFIG_FOLDER": str(build_folder)}
    ran(cmake, "-S", application, "-B", build_folder, cwd=application, env=idf)
    ran(cmake, "--build", build_folder, cwd=application)
    return ran(build_folder / "app", cwd=build_folder)
