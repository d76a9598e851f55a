# SPDX-License-Identifier: Apache-2.0
"""Each package and its example, built by the build system that it is for, and run: outputs are those of the proof."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.package import build_systems
from tests.package.conftest import Packed
from tests.package.tools import debian_crates, emulated, needed, needed_module, ran

EQUAL = "tinyc 0.1.0: equal"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


def test_cmake_installs_and_is_found(packed: Packed, tmp_path: Path) -> None:
    cmake = needed("cmake")
    package = packed("cmake")
    build_folder, app = tmp_path / "made", tmp_path / "app"
    ran(cmake, "-S", package, "-B", build_folder, f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}", cwd=tmp_path)
    assert "-O3" in ran(cmake, "--build", build_folder, "--verbose", cwd=tmp_path)
    ran(cmake, "--install", build_folder, cwd=tmp_path)
    shutil.move(package / "examples" / "find_package", tmp_path / "source")
    shutil.rmtree(package)  # what is installed stands alone
    ran(cmake, "-S", "source", "-B", app, f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}", cwd=tmp_path)
    ran(cmake, "--build", app, cwd=tmp_path)
    assert EQUAL in ran(app / "selftest", cwd=tmp_path)


def test_cmake_without_an_operating_system(packed: Packed, tmp_path: Path) -> None:
    cmake, _ = needed("cmake"), needed("arm-none-eabi-gcc")
    example = packed("cmake") / "examples" / "baremetal"
    ran(cmake, "-S", example, "-B", tmp_path / "made", "-DCMAKE_TOOLCHAIN_FILE=core.cmake", cwd=tmp_path)
    ran(cmake, "--build", tmp_path / "made", cwd=tmp_path)
    assert EQUAL in emulated(tmp_path / "made" / "firmware.elf")


def test_cmake_as_a_subdirectory_without_an_optimization_of_its_own(packed: Packed, tmp_path: Path) -> None:
    cmake = needed("cmake")
    packed("cmake")
    (tmp_path / "main.c").write_text('#include "kws_selftest.h"\nint main(void) { static kws_arena_t a; '
                                     "return kws_selftest(&a); }\n")  # fmt: skip
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nset(TINYC_KWS_OPTIMIZE \"\")\n"
        "add_subdirectory(kws-cmake)\nadd_executable(app main.c)\ntarget_link_libraries(app PRIVATE tinyc::kws)\n"
    )  # fmt: skip
    ran(cmake, "-S", tmp_path, "-B", tmp_path / "made", cwd=tmp_path)
    assert "-O3" not in ran(cmake, "--build", tmp_path / "made", "--verbose", cwd=tmp_path)
    ran(tmp_path / "made" / "app", cwd=tmp_path)


def test_arduino(packed: Packed, tmp_path: Path) -> None:
    package = packed("arduino")
    sketch = Path("libraries", "kws", "examples", "kws_selftest", "kws_selftest.ino")
    assert EQUAL in build_systems.arduino(tmp_path / sketch, {"kws": package}, tmp_path)


def test_platformio(packed: Packed, tmp_path: Path) -> None:
    """`pio` finds, builds and runs it."""
    pio, settings = needed("pio"), build_systems.platformio(tmp_path)
    said = ran(pio, "run", "-t", "exec", "-v", cwd=packed("platformio") / "examples" / "selftest", env=settings)
    assert "kws @ 1.0.0 (License: 0BSD" in said
    assert "\nequal\n" in said


def test_rust(packed: Packed, tmp_path: Path) -> None:
    """Debian's cargo, and its `cc` in the place of the registry's."""
    _cargo_tests(packed("rust"), tmp_path)


@pytest.mark.quick_cases(1)
def test_rust_of_a_stream(packed_stream: Packed, tmp_path: Path) -> None:
    _cargo_tests(packed_stream("rust"), tmp_path)


def _cargo_tests(package: Path, tmp_path: Path) -> None:
    cargo = needed("cargo")
    settings = {**debian_crates(tmp_path / "home"), "CARGO_TARGET_DIR": str(tmp_path / "made")}
    said = ran(cargo, "test", "--tests", cwd=package, env=settings)
    assert "outputs_are_those_of_the_proof ... ok" in said


@pytest.mark.parametrize("standard", ["c++14", "c++20"])
def test_cpp(packed: Packed, tmp_path: Path, standard: str) -> None:
    _run_cpp(packed("cpp"), tmp_path, standard)


def test_cpp_of_a_stream(packed_stream: Packed, tmp_path: Path) -> None:
    _run_cpp(packed_stream("cpp"), tmp_path, "c++14")


def _run_cpp(package: Path, tmp_path: Path, standard: str) -> None:
    compiler, c = needed("g++"), needed("gcc")
    ran(c, "-std=c99", "-O1", "-c", "kws.c", "-o", tmp_path / "kws.o", cwd=package)
    flags = (f"-std={standard}", "-fno-exceptions", "-fno-rtti", "-fsanitize=undefined", *STRICT)
    ran(compiler, *flags, "example.cpp", tmp_path / "kws.o", "-o", tmp_path / "app", cwd=package)
    assert EQUAL in ran(tmp_path / "app", cwd=tmp_path)


def test_zephyr(packed: Packed, tmp_path: Path) -> None:
    package = packed("zephyr")
    assert "kws: equal" in build_systems.zephyr(package, package / "samples" / "selftest", tmp_path / "made")


@pytest.mark.parametrize(
    ("chosen", "section"),
    [((), ".noinit"), (("zephyr,ccm",), ".ccm_noinit"), (("zephyr,ccm", "zephyr,dtcm"), ".dtcm_noinit")],
)
def test_zephyr_puts_the_arena_where_the_board_has_memory(
    chosen: tuple[str, ...], section: str, packed: Packed, tmp_path: Path
) -> None:
    """A section that no region of the board's linker script holds is an error of its linker."""
    root = tmp_path / "Kconfig"
    root.write_text(
        (build_systems.HERE / "zephyr_stand_in" / "Kconfig").read_text() + f'source "{packed("zephyr")}/Kconfig"\n'
    )
    config = build_systems.kconfig(root, *chosen)
    config.syms["TINYC_KWS"].set_value("y")
    config.syms["TINYC_KWS_ARENA_IN_SECTION"].set_value("y")
    assert config.syms["TINYC_KWS_ARENA_SECTION"].str_value == section
    assert config.warnings == []


def test_esp_idf(packed: Packed, tmp_path: Path) -> None:
    package = packed("esp-idf")
    assert EQUAL in build_systems.esp_idf(package, package / "examples" / "selftest", tmp_path / "made")


def test_esp_idf_s_settings(packed: Packed, tmp_path: Path) -> None:
    """By Espressif's own checker of style, and its own reader: what each choice makes of the component."""
    package = packed("esp-idf")
    ran(*needed_module("kconfcheck"), package / "Kconfig", cwd=tmp_path)
    example = package / "examples" / "selftest"
    external = ("CONFIG_SPIRAM_ALLOW_BSS_SEG_EXTERNAL_MEMORY=y", "CONFIG_TINYC_KWS_ARENA_EXTERNAL=y")
    assert EQUAL in build_systems.esp_idf(package, example, tmp_path / "external", *external)
    assert "#define CONFIG_TINYC_KWS_ARENA_EXTERNAL 1" in (tmp_path / "external" / "sdkconfig.h").read_text()
    with pytest.raises(AssertionError, match="kws_lock"):  # the example asks for the arena that is not there then
        build_systems.esp_idf(package, example, tmp_path / "without", "CONFIG_TINYC_KWS_ARENA=n")


def test_esp_idf_component_manager(packed: Packed, tmp_path: Path) -> None:
    """Espressif's own program reads the manifest and packs the component."""
    compote = needed("compote")
    settings = {"HOME": str(tmp_path), "IDF_COMPONENT_CHECK_NEW_VERSION": "0"}
    ran(compote, "component", "pack", "--name", "kws", "--dest-dir", tmp_path, cwd=packed("esp-idf"), env=settings)
    assert (tmp_path / "kws_1.0.0.tgz").is_file()
