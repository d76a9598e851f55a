# SPDX-License-Identifier: Apache-2.0
"""Escaped text read back by the languages' own programs: compiler, Robot Framework, an XML parser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import jinja2
import numpy as np
import pytest

from tests.hostile_names import HOSTILE, INJECTED
from tinyc.base import escape, paths, templates
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.toolchain.compilers import find_toolchain

SHORT = tuple(name for name in HOSTILE if len(name) < 100)  # a line of CMake and of Rust each


@pytest.fixture(scope="module")
def compiler() -> tuple[str, ...]:
    try:
        return find_toolchain(load_board("host")).command
    except TinycError as error:
        pytest.skip(error.message)


def test_there_are_many() -> None:
    assert len(HOSTILE) >= 60


def test_visible_is_one_line_that_can_be_printed() -> None:
    for name in HOSTILE:
        assert escape.visible(name).isprintable()
        assert escape.visible(f"{name}\n").endswith("\\n")
        assert escape.visible_lines(f"a\n{name}").split("\n")[0] == "a"
    assert escape.visible("модель 模型 🐈 [red]") == "модель 模型 🐈 [red]"
    assert escape.visible("\x1b[31m\u202e\u2028\x00\ud800") == "\\x1b[31m\\u202e\\u2028\\x00\\ud800"


@pytest.mark.parametrize("flags", [("-std=c99",), ("-std=c99", "-trigraphs"), ("-std=gnu99", "-finput-charset=SJIS")])
def test_comments_of_c(compiler: tuple[str, ...], flags: tuple[str, ...]) -> None:
    """Every comment is a comment as a whole, whatever stands beside it, in every locale's encoding."""
    lines = [
        f"int a{i}; /* {text}{escape.c_comment(name)} */ int b{i};" for i, name in enumerate(HOSTILE) for text in "'/"
    ]
    source = "".join(f"{line}\n" for line in lines)
    assert source.isascii()
    command = [*compiler, *flags, "-E", "-P", "-Wall", "-Werror", "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if "charset" in " ".join(flags) and "conversion" in done.stderr:
        pytest.skip("this compiler reads one encoding only")
    assert done.returncode == 0, done.stderr
    declarations = [f"int {letter}{i};" for i in range(len(HOSTILE)) for _ in "'/" for letter in "ab"]
    assert re.findall(r"[^;]+;", done.stdout.replace("\n", " ").strip()) == [
        f" {text}" if number else text for number, text in enumerate(declarations)
    ]


def test_strings_of_c(compiler: tuple[str, ...], tmp_path: Path) -> None:
    """A program prints the bytes of every name."""
    names = [name for name in HOSTILE if "\0" not in name]
    rows = "".join(f'    puts("{escape.c_string(name)}"); putchar(0);\n' for name in names)
    (tmp_path / "x.c").write_text(f"#include <stdio.h>\nint main(void)\n{{\n{rows}    return 0;\n}}\n")
    flags = ("-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Werror")
    subprocess.run([*compiler, *flags, tmp_path / "x.c", "-o", tmp_path / "x"], check=True)
    said = subprocess.run([tmp_path / "x"], capture_output=True, check=True).stdout
    assert said == b"".join(name.encode() + b"\n\0" for name in names)


def test_words_and_files() -> None:
    assert escape.c_words((1, -2, "int8_t")) == "1, -2, int8_t"
    assert escape.c_include("tc_math.h") == "tc_math.h"
    assert escape.monitor_file("requests.bin") == "requests.bin"
    for bad in ("a b", "a;b", "x\n", True, 1.5):
        with pytest.raises(ValueError, match="no word"):
            escape.c_words([bad])
    for bad in ("", "../x", "-x", 'a"b', "x\n", ".hidden"):
        with pytest.raises(ValueError, match="no plain file name"):
            escape.c_include(bad)


def test_cells_and_comments_of_robot(tmp_path: Path) -> None:
    api = pytest.importorskip("robot.api", reason="Robot Framework is not installed: pip install robotframework")
    utils = pytest.importorskip("robot.utils")
    calls = "".join(f"    Log    {escape.robot_cell(name)}    # {escape.robot_comment(name)}\n" for name in HOSTILE)
    file = tmp_path / "x.robot"
    file.write_text(f"*** Test Cases ***\nAll\n{calls}", encoding="utf-8")
    (section,) = api.get_model(str(file)).sections
    (case,) = section.body
    assert len(case.body) == len(HOSTILE)
    for name, call in zip(HOSTILE, case.body, strict=True):
        assert not call.errors
        (cell,) = call.args
        assert (name == "" and cell == "${EMPTY}") or utils.unescape(cell) == name
        variables = pytest.importorskip("robot.variables")
        assert name == "" or not variables.contains_variable(cell, "$@&%")


def test_lines_of_renode() -> None:
    for name in HOSTILE:
        for text in (escape.monitor_line(name), escape.platform_comment(name), escape.platform_string(name)):
            assert text.isprintable()
        assert not re.search(r'(?<!\\)(\\\\)*"', escape.platform_string(name))


def test_text_of_xml() -> None:
    for name in HOSTILE:
        said = escape.xml_text(name)
        read = ElementTree.fromstring(f'<a b="{said}">{said}</a>')
        assert len(read) == 0
        assert (read.text or "", read.attrib) == (escape.visible(name), {"b": escape.visible(name)})


# --- templates ---


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """template(file name, text, **values) -> what it prints."""
    monkeypatch.setattr(paths, "templates_dir", lambda: tmp_path)
    templates._environment.cache_clear()

    def rendered(file: str, text: str, **values: object) -> str:
        (tmp_path / f"{file}.j2").write_text(text)
        templates._environment.cache_clear()
        return templates.render(f"{file}.j2", values)

    yield rendered
    templates._environment.cache_clear()


@pytest.mark.parametrize("file", ["x.c", "x.h", "x.ld", "x.robot", "x.resc", "x.repl"])
def test_a_template_prints_no_text_without_a_filter(template, file: str) -> None:
    assert template(file, "{{ n }} {{ name }} {{ '%08X' % n }}", n=7, name="tc_x") == "7 tc_x 00000007"
    for bad in ("a b", "*/", "é", "a.b", 1.5, None, True, ["x"], {"a": 1}, *(kind("x y") for kind in (escape.Text,))):
        with pytest.raises(ValueError, match="give it a filter"):
            template(file, "{{ bad }}", bad=bad)
    for expression in (
        "bad ~ 'x'",
        "bad | upper",
        "bad | replace('a', ' ')",
        "[bad] | join",
        "'%s' % bad",
        "bad | safe",
    ):
        with pytest.raises(ValueError, match="give it a filter"):
            template(file, f"{{{{ {expression} }}}}", bad="a; b")
    with pytest.raises(jinja2.UndefinedError):
        template(file, "{{ missing }}")


def test_text_of_one_language_is_none_of_another(template) -> None:
    assert template("x.c", "{{ a }}", a=escape.C("int x;")) == "int x;"
    for file in ("x.robot", "x.resc", "x.repl"):
        with pytest.raises(ValueError, match="give it a filter"):
            template(file, "{{ a }}", a=escape.C("int x;"))


def test_a_template_of_an_unknown_language_is_none(template) -> None:
    with pytest.raises(KeyError):
        template("x.odd", "{{ 1 }}")


def test_comments_in_templates_leave_room() -> None:
    """Beside an escaped text in a comment there is a space or a quote, so that the two make nothing new."""
    count = 0
    for file in paths.templates_dir().rglob("*.j2"):
        for match in re.finditer(r"(.)\{\{[^}]*\| comment \}\}(.?)", file.read_text()):
            count += 1
            assert match[1] in " '{", (file.name, match[0])
            assert match[2] in " ',.;:{\n", (file.name, match[0])
    assert count > 10
    assert INJECTED.isidentifier()


def test_cmake_reads_every_name(tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    comment, string = escape.FILTERS[escape.CMake]["comment"], escape.FILTERS[escape.CMake]["string"]
    rows = "".join(f'# {comment(name)}\nfile(APPEND said "{string(name)}\\n")\n' for name in SHORT)
    (tmp_path / "x.cmake").write_text(rows, encoding="utf-8")
    subprocess.run([cmake, "-P", "x.cmake"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "said").read_text(encoding="utf-8").split("\n")[:-1] == list(map(escape.visible, SHORT))


def test_formats_of_manifests_read_every_name() -> None:
    yaml = pytest.importorskip("yaml")
    for name in HOSTILE:
        shown = escape.visible(name)
        filters = {kind: escape.FILTERS[kind]["string"](name) for kind in (escape.Toml, escape.Json, escape.Yaml)}
        assert tomllib.loads(f'x = "{filters[escape.Toml]}"')["x"] == shown
        assert json.loads(f'"{filters[escape.Json]}"') == shown
        assert yaml.safe_load(f'x: "{filters[escape.Yaml]}"')["x"] == shown
        lines = f"# {escape.FILTERS[escape.Toml]['comment'](name)}\nx = 1\n"
        assert tomllib.loads(lines) == {"x": 1}
        assert yaml.safe_load(lines.replace(" = ", ": ").replace("Toml", "Yaml")) == {"x": 1}
        assert "\n" not in escape.FILTERS[escape.Properties]["string"](name)


def test_kconfig_reads_every_name(tmp_path: Path) -> None:
    kconfiglib = pytest.importorskip("kconfiglib")
    texts = [escape.kconfig_text(name) for name in HOSTILE]
    rows = [f'# {text}\nconfig N{number}\n\tstring\n\tdefault "{text}"\n' for number, text in enumerate(texts)]
    (tmp_path / "Kconfig").write_text("".join(rows), encoding="utf-8")
    config = kconfiglib.Kconfig(str(tmp_path / "Kconfig"), warn_to_stderr=False)
    assert [config.syms[f"N{number}"].str_value for number in range(len(HOSTILE))] == texts
    assert escape.kconfig_text('$(shell,x)"\\') == "<24>(shell,x)<22><5c>"


def test_rust_reads_every_name(tmp_path: Path) -> None:
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("rustc is not installed")
    comment, string = escape.FILTERS[escape.Rust]["comment"], escape.FILTERS[escape.Rust]["string"]
    rows = "".join(f'    // {comment(name)}\n    println!("{{}}", "{string(name)}");\n' for name in SHORT)
    (tmp_path / "x.rs").write_text(f"fn main() {{\n{rows}}}\n", encoding="utf-8")
    subprocess.run([rustc, "-D", "warnings", "x.rs", "-o", "x"], cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run([tmp_path / "x"], capture_output=True, check=True).stdout.decode()
    assert said.split("\n")[:-1] == list(map(escape.visible, SHORT))


@pytest.mark.parametrize("value", [0.1, 1e-30, 3.0, -128.0, 16777216.0, 1 / 3])
def test_floats_are_the_nearest_float32(value: float) -> None:
    text = escape.float_literal(value)
    assert np.float32(text) == np.float32(value)
    assert "." in text or "e" in text


def test_literals_tell_all_floats_apart() -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 31, 2000).astype(np.uint32)
    for value in bits.view(np.float32)[np.isfinite(bits.view(np.float32))]:
        assert np.float32(escape.float_literal(float(value))) == value


def test_markdown_has_no_markup_of_a_name() -> None:
    for name in HOSTILE:
        left = re.sub(r"&#\d+;", "", escape.FILTERS[escape.Markdown]["string"](name))
        assert all(not letter.isascii() or letter.isalnum() or letter == " " for letter in left)


def test_versions() -> None:
    version = escape.version_of(escape.Toml)
    assert version("1.20.3") == "1.20.3"
    for bad in ("1.0-a", '1"', "", "1."):
        with pytest.raises(ValueError, match="no version"):
            version(bad)
