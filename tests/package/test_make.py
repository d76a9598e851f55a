# SPDX-License-Identifier: Apache-2.0
"""Packages as text: whole or not at all, of every kind of library, with names of any kind, by the formats' readers."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import tinyc
from tests.cli.test_cli import write_model
from tests.hostile_names import HOSTILE, INJECTED
from tests.package.tools import needed
from tinyc.base.errors import TinycError
from tinyc.base.escape import visible
from tinyc.cli.main import main
from tinyc.package.facts import Facts, PackagePort, read_facts
from tinyc.package.kinds import KINDS, kinds_of
from tinyc.package.make import check_version, package_files, write_packages
from tinyc.package.selftest import digest_of_run, synthetic
from tinyc.run.native import Port

CHANGED = {
    "plain": {},
    "rows": {"rows": 4},
    "state": {"state_bytes": 16},
    "sliding": {"rows": 4, "hop_rows": 3},
    "pushed": {"state_bytes": 16, "hop_samples": 160},
}  # facts of each kind of library


def several(facts: Facts) -> Facts:
    """Two inputs of other types, two outputs, one of them of floats."""
    x, y = facts.inputs[0], facts.outputs[0]
    floats = PackagePort(1, "f", 3, (1, 3), "float32", None, 0)
    return replace(facts, inputs=(replace(x, dtype="int16"), floats), outputs=(y, floats))


@pytest.mark.quick_cases(15)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
def test_every_kind_has_the_library_a_licence_and_a_page(facts: Facts, kind, changed) -> None:
    files = package_files(replace(facts, **changed), kind, "1.2.3")
    names = {Path(path).name for path in files}
    assert names >= {*facts.files, "LICENSE", "README.md", "sbom.cdx.json"}
    assert {text for path, text in files.items() if Path(path).name == "kws.c"} == {facts.files["kws.c"]}
    assert not any(mark in text for text in files.values() for mark in ("{{", "{%", "NAME_"))
    assert files == package_files(replace(facts, **changed), kind, "1.2.3")


@pytest.mark.parametrize("changed", CHANGED.values(), ids=CHANGED)
@pytest.mark.parametrize("ports", ["one", "several"])
def test_wrappers_of_every_kind_of_library_compile(facts: Facts, tmp_path: Path, changed, ports: str) -> None:
    """Against a header that declares what tinyc's header would."""
    if ports == "several" and "rows" in changed:
        pytest.skip("only libraries of one input take it by rows")
    compiler = needed("g++")
    changed_facts = replace(several(facts) if ports == "several" else facts, **changed)
    for path, text in package_files(changed_facts, kinds_of("cpp")[0], "1.0.0").items():
        (tmp_path / path).write_text(text)
    (tmp_path / "kws.h").write_text(_header(changed_facts))
    flags = ("-std=c++14", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only")
    done = subprocess.run([compiler, *flags, "example.cpp"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", CHANGED)
def test_what_is_constructed_has_forgotten_what_was_in_its_arena(facts: Facts, tmp_path: Path, kind: str) -> None:
    """Arenas are shared, and on a stack they hold anything: a session resets its own if the library has state."""
    compiler, changed_facts = needed("g++"), replace(facts, **CHANGED[kind])
    for path, text in package_files(changed_facts, kinds_of("arduino")[0], "1.0.0").items():
        if path.endswith("kws.hpp"):
            (tmp_path / "kws.hpp").write_text(text)
    (tmp_path / "kws.h").write_text(_header(changed_facts))
    (tmp_path / "session.cpp").write_text(_SESSION.replace("RESETS", "0" if kind in ("plain", "rows") else "1"))
    subprocess.run([compiler, "-std=c++14", "session.cpp", "-o", "session"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "session"], check=False).returncode == 0


_SESSION = """#include "kws.hpp"
static const void *last;
static int resets;
int kws_reset(void *arena)
{
    last = arena;
    ++resets;
    return KWS_OK;
}
int main()
{
    static kws_arena_t shared;
    tinyc::kws::Session session(shared);
    if (resets != RESETS || (RESETS && last != &shared)) {
        return 1;
    }
    tinyc::kws::Model model;
    return resets == 2 * RESETS && (!RESETS || last != &shared) ? 0 : 2;
}
"""


def _header(facts: Facts) -> str:
    lines = [
        "#pragma once",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "typedef struct { uint8_t bytes[64]; } kws_arena_t;",
    ]
    lines += ["enum { KWS_HOP_SAMPLES = 160, KWS_ARENA_BYTES = 64, KWS_INPUT_0_ROWS = 4, KWS_INPUT_0_ROW_SIZE = 2 };"]
    lines += ["#define KWS_NOT_PUSHED (-1)", "#define KWS_NOT_READY 3", "#define KWS_HOP_ROWS 3", "#define KWS_OK 0"]
    lines += ['extern "C" {', "const char *kws_version(void);", "int kws_run(void *a);", "int kws_reset(void *a);"]
    lines += ["int32_t kws_push(void *a, const int16_t *samples, int32_t n);"]
    lines += [f"int kws_push_rows(void *a, const {facts.inputs[0].ctype} *data);"]
    lines += [f"int kws_push_row(void *a, int32_t row, const {facts.inputs[0].ctype} *data);"]
    for kind, ports in (("input", facts.inputs), ("output", facts.outputs)):
        for port in ports:
            const = "const " if kind == "output" else ""
            lines += [f"enum {{ KWS_{kind.upper()}_{port.index}_SIZE = {port.size} }};"]
            lines += [f"enum {{ KWS_{kind.upper()}_{port.index}_BYTES = {port.size} }};"]
            lines += [f"{const}{port.ctype} *kws_{kind}_{port.index}({const}void *arena);"]
            lines += [f"{port.ctype} kws_quantize_{kind}_{port.index}(float x);"]
            lines += [f"float kws_dequantize_{kind}_{port.index}({port.ctype} x);"]
    return "\n".join([*lines, "}"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "float32"])
def test_the_made_up_input_is_the_same_in_c_and_in_python(tmp_path: Path, dtype: str) -> None:
    compiler = needed("gcc")
    port = PackagePort(3, "x", 600, (1, 600), dtype, None, 0)
    source = (
        "#include <stdint.h>\n#include <stdio.h>\nint main(void) { for (int32_t i = 0; i < 600; i++) {\n"
        "  const uint32_t byte = ((uint32_t)i * 37u + 3u * 101u + 11u) & 255u; (void)byte;\n"
        f"  const {port.ctype} x = {port.synthetic}; fwrite(&x, sizeof x, 1, stdout); }} return 0; }}\n"
    )
    (tmp_path / "x.c").write_text(source)
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror")
    subprocess.run([compiler, *flags, "x.c", "-o", "x"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "x"], capture_output=True, check=True).stdout
    assert said == synthetic(Port("x", (1, 600), np.dtype(dtype), None, 0), 3).tobytes()


def test_the_digest_is_that_of_the_library(facts: Facts, library: Path) -> None:
    assert facts.selftest == digest_of_run(tinyc.load(library)) != 2166136261


def hostile(facts: Facts, name: str) -> Facts:
    """The facts of a library whose model, board and tensors have the name."""
    ports = tuple(replace(port, name=name) for port in facts.inputs)
    return replace(facts, model=name, board_name=name, inputs=ports)


def test_manifests_with_hostile_names_say_them(facts: Facts) -> None:
    """By readers of the formats: the name is in the description, and nowhere else does anything change."""
    yaml = pytest.importorskip("yaml")
    read = {
        "rust": ("Cargo.toml", lambda text: tomllib.loads(text)["package"]["description"]),
        "platformio": ("library.json", lambda text: json.loads(text)["description"]),
        "esp-idf": ("idf_component.yml", lambda text: yaml.safe_load(text)["description"]),
        "zephyr": (
            "samples/selftest/sample.yaml",
            lambda text: yaml.safe_load(text)["sample"]["description"],
        ),
        "cmsis-pack": ("tinyc.kws.pdsc", lambda text: ElementTree.fromstring(text).findtext("description")),
        "arduino": (
            "library.properties",
            lambda text: dict(line.split("=", 1) for line in text.split("\n") if "=" in line)["sentence"],
        ),
    }
    for kind, (file, said) in read.items():
        for name in HOSTILE[::5]:
            text = package_files(hostile(facts, name), kinds_of(kind)[0], "1.0.0")[file]
            assert visible(name)[:900] in said(text), (kind, name)


@pytest.mark.parametrize("name", ["kws", "no", "null", "true"])
def test_module_descriptions(facts: Facts, name: str) -> None:
    """A name that is a word of YAML stays a name: Zephyr asks for a string."""
    yaml = pytest.importorskip("yaml")
    named = replace(facts, name=name)
    module = yaml.safe_load(package_files(named, kinds_of("zephyr")[0], "1.0.0")["zephyr/module.yml"])
    assert module == {"name": name, "build": {"cmake": ".", "kconfig": "Kconfig"}, "samples": ["samples"]}


@pytest.mark.parametrize("own", ["kws", "a", "model_quantized_of_the_second_training_" + "x" * 100])
def test_the_pack_describes_files_that_are_there(facts: Facts, own: str) -> None:
    facts = replace(facts, name=own, files={file.replace("kws", own): text for file, text in facts.files.items()})
    files = package_files(facts, kinds_of("cmsis-pack")[0], "1.2.0")
    pack = ElementTree.fromstring(files[f"tinyc.{own}.pdsc"])
    assert [pack.findtext(key) for key in ("vendor", "name", "license")] == ["tinyc", own, "LICENSE"]
    assert pack.find("url") is not None  # one that the schema asks for, and may be empty
    assert re.fullmatch(r"[-_A-Za-z0-9]+", pack.findtext("name") or "")
    (release,) = pack.findall("releases/release")
    (component,) = pack.findall("components/component")
    assert release.get("version") == component.get("Cversion") == "1.2.0"
    # Of PACK.xsd 1.7.32: CidPartType, CsubType, PackVersionType, and what a component has to have.
    for key in ("Cclass", "Cgroup"):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+()'/\-\s.]{1,31}", component.get(key) or "")
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+():/\- .]{0,31}", component.get("Csub") or "")
    assert {child.tag for child in component} == {"description", "files"}
    assert len(component.findtext("description") or "") <= 256
    named = [(file.get("category"), file.get("name") or "") for file in component.findall("files/file")]
    assert {category for category, _ in named} <= {"include", "header", "source", "other", "doc"}
    for category, name in named:
        assert any(path.startswith(name) for path in files) if category == "include" else name in files
    assert {name for _, name in named} >= {path for path in files if path.startswith("src/")}
    layer = files[f"layer/{own}.clayer.yml"]
    assert f"component: tinyc::{component.get('Cclass')}:{component.get('Cgroup')}:{component.get('Csub')}\n" in layer


def test_no_name_leaves_its_comment_or_string(facts: Facts) -> None:
    """In every text, what is no comment and no string is that of a harmless name."""
    harmless = {kind.name: package_files(hostile(facts, "x"), kind, "1.0.0") for kind in KINDS}
    for name in (name for name in HOSTILE if INJECTED in name or "\n" in name or "\r" in name):
        for kind in KINDS:
            files = package_files(hostile(facts, name), kind, "1.0.0")
            for path, text in files.items():
                assert text.count("\n") == harmless[kind.name][path].count("\n"), (path, name)
                if path.endswith((".h", ".hpp", ".cpp", ".c", ".ino")) and text != harmless[kind.name][path]:
                    assert INJECTED not in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def test_a_crate_has_no_name_that_means_something_in_rust(facts: Facts) -> None:
    files = package_files(replace(facts, name="match"), kinds_of("rust")[0], "1.0.0")
    assert tomllib.loads(files["Cargo.toml"])["package"]["name"] == "match_model"
    assert "use match_model::{Arena, Model};" in files["tests/selftest.rs"]
    keywords = (  # The Rust Reference, Keywords: those that are no keywords of C
        "as async await abstract become box crate dyn final fn gen impl in let loop match mod move mut override priv "
        "pub ref self super trait type unsafe unsized use where yield"
    )
    assert {replace(facts, name=word).crate for word in keywords.split()} == {
        f"{word}_model" for word in keywords.split()
    }


def test_words() -> None:
    assert [kind.name for kind in kinds_of("rust, cmake,rust")] == ["rust", "cmake"]
    with pytest.raises(TinycError, match="no package 'conda'") as caught:
        kinds_of("cmake,conda")
    assert all(kind.name in caught.value.hint for kind in KINDS)
    check_version("0.10.2")
    for bad in ("1", "1.0", "1.0.0-rc1", "01.0.0", "v1.0.0", "1.0.0\n", "\u0661.0.0"):
        with pytest.raises(TinycError, match="no version"):
            check_version(bad)


def test_bad_folders(library: Path, tmp_path: Path) -> None:
    kinds = kinds_of("cmake,rust")
    with pytest.raises(TinycError, match=r"there is no report\.json"):
        write_packages(tmp_path, kinds, "1.0.0")
    copy = tmp_path / "kws"
    copy.mkdir()
    for file in library.glob("*.*"):
        if file.is_file():
            (copy / file.name).write_bytes(file.read_bytes())
    report = json.loads((copy / "report.json").read_text())
    report["verify"]["mismatches"] = 1
    unproved = json.dumps({**report, "verify": None})
    for text, message, code in (
        (json.dumps(report), "not proved: bytes differ", 1),
        (unproved, "not proved: it was built", 1),
        ("[1]", "not that of a build", 2),
    ):
        (copy / "report.json").write_text(text)
        with pytest.raises(TinycError, match=message) as caught:
            write_packages(copy, kinds, "1.0.0")
        assert caught.value.exit_code == code
    assert not list(tmp_path.glob("kws-*"))


def test_what_others_put_there_is_not_deleted(library: Path) -> None:
    (place, _) = write_packages(library, kinds_of("cmake,rust"), "1.0.0")
    assert place == library.parent / "kws-cmake"
    (place / "mine.txt").write_text("work")
    with pytest.raises(TinycError, match=r"what tinyc did not write: mine\.txt"):
        write_packages(library, kinds_of("rust,cmake"), "2.0.0")
    assert 'version = "1.0.0"' in (library.parent / "kws-rust" / "Cargo.toml").read_text()
    (place / "mine.txt").unlink()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["tinyc", *words])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "kws.onnx")
    assert run("build", "kws.onnx", "--board", "host", "--samples", "1", "--package", "cmake", "--json") == 0
    assert json.loads(capsys.readouterr().out)["packages"] == ["build/kws-cmake"]
    assert not (tmp_path / "build/kws-cmake/examples/baremetal").exists()  # it is no Cortex-M
    assert run("build", "kws.onnx", "--board", "host", "--package", "x") == 2
    assert "no package 'x'" in capsys.readouterr().err
    assert run("build", "kws.onnx", "--board", "host", "--package", "cmake", "--no-proof") == 2
    assert "proved library" in capsys.readouterr().err
    assert run("package", "build/kws", "--as", "rust", "-o", "crate", "--version", "2.0.1") == 0
    assert "package: crate" in capsys.readouterr().out
    assert tomllib.loads((tmp_path / "crate/Cargo.toml").read_text())["package"]["version"] == "2.0.1"
    assert run("package", "build/kws", "--as", "rust,cmake", "-o", "both") == 2
    assert "one kind" in capsys.readouterr().err


def test_a_library_that_takes_rows_passes_its_selftest(tmp_path: Path) -> None:
    compiler, c = needed("g++"), needed("gcc")
    model = write_model(tmp_path / "kws.onnx")
    with pytest.warns(tinyc.TinycWarning):
        built = tinyc.build(model, "host", out=tmp_path / "kws", samples=1, input_rows=True)
    assert read_facts(built.folder).rows > 1
    (package,) = write_packages(built.folder, kinds_of("cpp"), "1.0.0")
    subprocess.run([c, "-std=c99", "-c", "kws.c"], cwd=package, check=True)
    subprocess.run([compiler, "example.cpp", "kws.o", "-o", "example"], cwd=package, check=True)
    assert "equal" in subprocess.run([package / "example"], capture_output=True, text=True, check=True).stdout


def test_packages_say_what_stack_a_call_takes(facts: Facts) -> None:
    """Zephyr's sample has it, on cores that run the library in C too; its default has not."""
    assert facts.stack_bytes is not None
    for kind in KINDS:
        assert f"{facts.stack_bytes:,} bytes of stack" in package_files(facts, kind, "1.0.0")["README.md"]
    config = package_files(facts, kinds_of("zephyr")[0], "1.0.0")["samples/selftest/prj.conf"]
    assert "CONFIG_MAIN_STACK_SIZE=2048\n" in config
    assert (
        "\nCONFIG_MAIN_STACK_SIZE=4608\n"
        in package_files(replace(facts, stack_bytes=3500), kinds_of("zephyr")[0], "1.0.0")["samples/selftest/prj.conf"]
    )
    assert "not measured" in package_files(replace(facts, stack_bytes=None), KINDS[0], "1.0.0")["README.md"]
