# SPDX-License-Identifier: Apache-2.0
"""Several libraries in one program: equal outputs in one arena, kernels once, states that survive other models."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.test_cli import write_model
from tests.load.onnx_models import build, op
from tests.package.tools import emulated, needed, ran
from tinyc.base.errors import TinycError
from tinyc.cli.main import main
from tinyc.package import link
from tinyc.package.facts import Facts, read_facts
from tinyc.package.kinds import KINDS
from tinyc.package.link import link_libraries
from tinyc.package.make import write_package

ROOT = Path(__file__).resolve().parents[2]

# A library with the functions and macros of one that tinyc writes: its output counts its runs since the last reset.
COUNTER_H = """
#ifndef COUNT_H
#define COUNT_H
#include <stddef.h>
#include <stdint.h>
#define COUNT_ARENA_BYTES 64
#define COUNT_STATE_OFFSET 56
#define COUNT_STATE_BYTES 8
#define COUNT_OK 0
typedef struct { uint8_t bytes[64]; } count_arena_t;
int count_run(void *arena);
int count_reset(void *arena);
#endif
"""
COUNTER_C = """
#include "count.h"
int count_reset(void *arena) { ((uint8_t *)arena)[56] = 0; return 0; }
int count_run(void *arena) { return ++((uint8_t *)arena)[56]; }
"""
DRIVER = """
#include <stdio.h>
#include <string.h>
#include "all.h"
static int turn(void)
{
    int n = count_run(all_count_enter());
    all_count_leave();
    memset(&all_arena, 0xA5, sizeof all_arena); /* another model */
    return n;
}
int main(void)
{
    memset(&all_arena, 0xA5, sizeof all_arena);
    printf("%d %d %d ", turn(), turn(), turn());
    all_count_forget();
    printf("%d %d %d\\n", turn(), (int)sizeof all_arena, ALL_STATE_BYTES);
    return 0;
}
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of four builds: a model, the same under another name, one with other options, and a larger one."""
    folder = tmp_path_factory.mktemp("libraries")
    write_model(folder / "kws.onnx")
    _write_larger(folder / "large.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, model, prefer in (
            *(("kws", "kws", "balanced"), ("twin", "kws", "balanced")),
            *(("small", "kws", "flash"), ("large", "large", "flash")),
        ):
            words = ("build", f"{model}.onnx", "--board", "cortex-m4", "--samples", "1", "--name", name)
            assert run(*words, "--prefer", prefer) == 0
    return [folder / "build" / name for name in ("kws", "twin", "small", "large")]


def _write_larger(path: Path) -> None:
    rng = np.random.default_rng(1)
    constants = {
        "w1": rng.standard_normal((4, 1, 3, 3)).astype(np.float32),
        "w2": rng.standard_normal((3, 144)).astype(np.float32) / 9,
    }
    nodes = [
        op("Conv", "x w1", "c", pads=[1] * 4, strides=[2, 2]),
        op("Flatten", "c", "flat"),
        op("Gemm", "flat w2", "g", transB=1),
        op("Softmax", "g", "y"),
    ]
    onnx.save(build(nodes, {"x": (1, 1, 12, 12)}, ["y"], constants), path)


def run(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["tinyc", *words])
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0)


def test_models_share_the_arena_and_kernels(libraries: list[Path], tmp_path: Path) -> None:
    kws, twin, small, large = libraries
    linked = link_libraries([small, large], "both", tmp_path / "both")
    sizes = [read_facts(folder).arena_bytes for folder in (small, large)]
    assert linked.units == ("both",)
    assert (linked.arena_bytes, linked.separate_arena_bytes) == (max(sizes), sum(sizes))
    assert linked.code_bytes is not None
    assert linked.code_bytes < linked.separate_code_bytes
    of_two = link_libraries([kws, twin], "twins", tmp_path / "twins")  # whose own kernels have the same names
    assert of_two.units == ("twins", "twins_2")
    assert of_two.code_bytes == of_two.separate_code_bytes


def test_a_model_that_differs_is_found(libraries: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "read_facts", lambda folder: replace(read_facts(folder), selftest=1))
    with pytest.raises(TinycError, match="something else in the shared arena") as caught:
        link_libraries([libraries[0], libraries[2]], "both", tmp_path / "both")
    assert caught.value.exit_code == 1
    assert not (tmp_path / "both").exists()


def test_a_user_compiles_what_is_said(
    libraries: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = needed("gcc")
    words = ("package", *map(str, libraries), "-o", str(tmp_path / "all"), "--name", "all")
    assert run(*words, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    sources = [f"{unit}.c" for unit in (*printed["units"], "all_arena", "all_selftest")]
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O1")
    subprocess.run([compiler, *flags, *sources, "-o", "all"], cwd=tmp_path / "all", check=True)
    assert subprocess.run([tmp_path / "all" / "all"], check=False).returncode == 0
    (tmp_path / "all" / "all").unlink()
    assert run(*words) == 0
    assert "each run twice in the shared arena: all equal" in capsys.readouterr().out


CORE = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")  # kernels hold values in its registers


def test_the_board_computes_what_the_proofs_did(libraries: list[Path], tmp_path: Path) -> None:
    """The core's own kernels, of several models in one unit, emulated: the proof of `link` is this computer's."""
    compiler = needed("arm-none-eabi-gcc")
    units = link_libraries(libraries, "all", tmp_path / "all").units
    (cmake,) = (kind for kind in KINDS if kind.name == "cmake")
    write_package(read_facts(libraries[0]), cmake, "1.0.0", tmp_path / "package")
    start = tmp_path / "package" / "examples" / "baremetal"
    said = (start / "main.c").read_text().replace("kws_selftest(&arena)", "selftest_of_all()")
    said = said.replace("static kws_arena_t arena;", "int selftest_of_all(void);")
    (tmp_path / "all" / "main.c").write_text(said)
    flags = ("-std=c99", "-O3", *CORE, "-ffunction-sections", "-fdata-sections")
    objects = []
    for name in (*units, "all_arena", "all_selftest", "main"):
        renamed = ["-Dmain=selftest_of_all"] if name == "all_selftest" else []
        call = (compiler, *flags, *renamed, "-c", f"{name}.c", "-o", f"{name}.o")
        ran(*call, cwd=tmp_path / "all")
        objects.append(f"{name}.o")
    placed = ("-nostartfiles", f"-T{start / 'memory.ld'}", "-Wl,--gc-sections")
    ran(compiler, *flags, *placed, *objects, start / "startup.c", "-o", "all.elf", cwd=tmp_path / "all")
    assert ": equal" in emulated(tmp_path / "all" / "all.elf")
    broken = (tmp_path / "all" / "large_selftest.h").read_text()
    wrong = re.sub(r"(_DIGEST \d*)(\d)u", lambda match: f"{match[1]}{9 - int(match[2])}u", broken)
    assert wrong != broken
    (tmp_path / "all" / "large_selftest.h").write_text(wrong)
    ran(
        compiler, *flags, "-Dmain=selftest_of_all", "-c", "all_selftest.c", "-o", "all_selftest.o", cwd=tmp_path / "all"
    )
    ran(compiler, *flags, *placed, *objects, start / "startup.c", "-o", "all.elf", cwd=tmp_path / "all")
    done = subprocess.run(
        [needed("qemu-system-arm"), "-machine", "mps2-an386", "-semihosting", "-nographic", "-kernel", "all.elf"],
        cwd=tmp_path / "all", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ": DIFFERENT" in done.stdout + done.stderr


def test_the_folder_has_a_licence_and_a_bill_of_all(libraries: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all"
    link_libraries(libraries, "all", out)
    assert (out / "LICENSE").read_text() == (ROOT / "templates" / "package" / "LICENSE").read_text()
    bill = json.loads((out / "sbom.cdx.json").read_text())
    files = {part["name"]: part["hashes"][0]["content"] for part in bill["components"] if part["type"] == "file"}
    there = {file.name for file in out.iterdir()} - {".tinyc", "LICENSE", "sbom.cdx.json"}
    assert files == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in there}
    models = [part["name"] for part in bill["components"] if part["type"] == "machine-learning-model"]
    assert sorted(models) == ["kws.onnx", "large.onnx"]  # of four libraries
    judge = pytest.importorskip("cyclonedx.validation.json").JsonStrictValidator
    version = pytest.importorskip("cyclonedx.schema").SchemaVersion.V1_6
    assert judge(version).validate_str(json.dumps(bill)) is None


def counter(facts: Facts) -> Facts:
    return replace(
        facts,
        name="count",
        arena_bytes=64,
        state_bytes=8,
        files={"count.h": COUNTER_H, "count.c": COUNTER_C},
    )


def test_states_survive_other_models(libraries: list[Path], tmp_path: Path) -> None:
    compiler = needed("gcc")
    models = [read_facts(libraries[0]), counter(read_facts(libraries[0]))]
    for name, text in link._files(models, [models], "all").items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.c").write_text(DRIVER)
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined")
    subprocess.run([compiler, *flags, "main.c", "all.c", "all_arena.c", "-o", "all"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(said[:3]) == ["1", "2", "3"]  # arguments of a call are computed in any order
    assert said[3:] == ["1", str(-(-models[0].arena_bytes // 16) * 16), "8"]


def test_what_cannot_be_linked(libraries: list[Path], tmp_path: Path) -> None:
    kws, twin, *_ = libraries
    old = tmp_path / "old"
    shutil.copytree(twin, old)
    (old / "tc_math.h").write_text((old / "tc_math.h").read_text() + "\n/* of another version */\n")
    other = tmp_path / "other"
    shutil.copytree(twin, other)
    report = json.loads((other / "report.json").read_text())
    (other / "report.json").write_text(json.dumps({**report, "board": "cortex-m7"}))
    for folders, name, message in (
        ([kws, kws], "all", "the same name"),
        ([kws, twin], "kws", "'kws' is one of the libraries"),
        ([kws, twin], "a b", "no name for C"),
        ([kws, old], "all", "different versions of tc_math"),
        ([kws, other], "all", "different boards: cortex-m4, cortex-m7"),
    ):
        with pytest.raises(TinycError, match=message):
            link_libraries(folders, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert run("package", str(kws)) == 2
