# SPDX-License-Identifier: Apache-2.0
"""docs/library.md: its example and its CMake lines build as they stand, and link without a C library."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tinyc
from tests.cli.test_cli import write_model

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
CORTEX_M4 = """
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -Wall -Wextra -Werror")
set(CMAKE_EXE_LINKER_FLAGS "-nostdlib -Wl,-e,main")
set(CMAKE_C_STANDARD_LIBRARIES -lgcc)
"""


def shown(language: str, holding: str) -> str:
    """The page's only block in the language that holds the words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (only_block,) = (block for block in blocks if holding in block)
    return only_block


@pytest.mark.parametrize("board", ["host", "cortex-m4"])
def test_cmake(tmp_path: Path, board: str) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    if board != "host" and shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    model = write_model(tmp_path / "kws.onnx")
    with pytest.warns(tinyc.TinycWarning):
        tinyc.build(model, board, out=tmp_path / "model" / "kws", samples=1)
    main = (
        "int main(void)\n{\n    static const float features[KWS_INPUT_0_SIZE];\n    return classify(features) < 0;\n}\n"
    )
    (tmp_path / "main.c").write_text(shown("c", "classify") + main)
    lists = "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_executable(app main.c)\n"
    (tmp_path / "CMakeLists.txt").write_text(lists + shown("cmake", "add_library"))
    (tmp_path / "core.cmake").write_text(CORTEX_M4 if board != "host" else "")
    build_folder = tmp_path / "made"
    for command in (
        ["cmake", "-S", str(tmp_path), "-B", str(build_folder), "-DCMAKE_TOOLCHAIN_FILE=core.cmake"],
        ["cmake", "--build", str(build_folder), "--verbose"],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "-O3" in ran.stdout
    if board == "host":
        assert subprocess.run([build_folder / "app"], check=False).returncode == 0
