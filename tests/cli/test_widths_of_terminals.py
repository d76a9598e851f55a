# SPDX-License-Identifier: Apache-2.0
"""What commands print fits terminals of 60, 80, 100 and 160 columns: no name is cut, no word is broken."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from rich.cells import cell_len
from rich.text import Text

from tinyc.cli.app import COMMANDS as NAMES
from tinyc.cli.listing import SENTENCE, FactList, Listing, figures, lines_of, text, wrapped
from tinyc.cli.main import main
from tinyc.cli.output import Output

WIDTHS = (60, 80, 100, 160)
CAMERA = Path(__file__).resolve().parents[2] / "examples" / "camera"
SEEN = ("--picture", f"{CAMERA}/camera.toml", "--image", f"{CAMERA}/pictures", "--effort", "fast")
ENDLESS = 1 << 20
LONG = "a_block_of_a_network/whose_layers_have_names/that_exporters_made_up/of_all_modules_that_they_are_in/Conv_"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with layers of long names, calibration data, and a build of it."""
    place = tmp_path_factory.mktemp("widths")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2, 6, 5)).astype(np.float32)
    np.savez(place / "net.calib.npz", x=x)
    np.savez(place / "test.npz", x=x, y=np.arange(40) % 3)
    consts = {
        "w": rng.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "v": rng.standard_normal((4, 4, 1, 1)).astype(np.float32),
        "fc": rng.standard_normal((4, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], [f"{LONG}0:c"], f"{LONG}0", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [f"{LONG}0:c"], [f"{LONG}0:r"], "act"),
        helper.make_node("Conv", [f"{LONG}0:r", "v"], [f"{LONG}1:d"], f"{LONG}1"),
        helper.make_node("GlobalAveragePool", [f"{LONG}1:d"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "fc"], ["g"], "dense"),
        helper.make_node("Softmax", ["g"], ["y"], "soft"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(array, name) for name, array in consts.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), place / "net.onnx")
    for name in ("built", "another"):
        assert (
            run("build", place / "net.onnx", "-b", "host", "--effort", "fast", "--name", name, "-o", place / name) == 0
        )
    (place / "sweep.toml").write_text(
        'models = ["net.onnx"]\nboards = ["host", "cortex-m0plus"]\nkind = "estimate"\n', encoding="utf-8"
    )
    return place


def run(*words: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tinyc", *map(str, words)])
        with pytest.raises(SystemExit) as leave:
            main()
    return int(leave.value.code or 0)


def printed(*words: object) -> list[Any]:
    """The blocks of a command's results, before they are laid out."""
    blocks: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Output, "result", lambda self, *given: blocks.extend(given))
        run(*words)
    return blocks


COMMANDS: dict[str, tuple[str, ...]] = {
    "build": ("build", "net.onnx", "-b", "cortex-m4", "-o", "out", "--inputs", "test.npz"),
    "build without a proof": ("build", "net.onnx", "-b", "cortex-m4", "-o", "unproved", "--no-proof"),
    "verify": ("verify", "net.onnx", "-b", "host"),
    "quantize": ("quantize", "net.onnx", "--effort", "fast"),
    "inspect": ("inspect", "net.onnx"),
    "inspect -v": ("inspect", "net.onnx", "-v"),
    "estimate --map": ("estimate", "net.onnx", "--map", "--width", "8"),
    "estimate --front": ("estimate", "net.onnx", "--front"),
    "estimate": ("estimate", "net.onnx", "-b", "cortex-m4,raspberry-pi-pico,host", "--layers"),
    "estimate of several": ("estimate", "net.onnx", "-b", "cortex-m4,cortex-m0plus", "--prefer", "all", "-v"),
    "sweep": ("sweep", "sweep.toml"),
    "profile": ("profile", "net.onnx", "-b", "cortex-m4", "--source", "--top", "2"),
    "bench": ("bench", "net.onnx", "-b", "host", "--seconds", "0.02"),
    "boards": ("boards", "-v"),
    "boards --check": ("boards", "--check", "host"),
    "doctor": ("doctor",),
    "inspect of a word": ("inspect", "tc_conv2d_s8_dsp"),
    "report": ("report", "built", "-o", "page.html"),
    "package": ("package", "built", "--as", "cmake,zephyr"),
    "package of two": ("package", "built", "another", "-o", "both"),
    "run": ("run", f"{CAMERA}/colors.onnx", "-b", "host", *SEEN),
    "flash --ports": ("flash", "--ports"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_is_cut_and_no_word_broken(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    blocks = printed(*COMMANDS[name])
    assert blocks
    whole = [line.plain for line in lines_of(blocks, ENDLESS)]
    plain = {line.plain for line in blocks if isinstance(line, Text)}  # printed as they are
    for width in WIDTHS:
        lines = [line.plain for line in lines_of(blocks, width)]
        check_width([line for line in lines if line not in plain], width)
        check_words(whole, lines, blocks)


def check_width(lines: Sequence[str], width: int) -> None:
    """A line that is too wide has a single word."""
    for line in lines:
        assert cell_len(line) <= width or len(line.split()) <= 2, line  # a step's number may stand before a name


def check_words(whole: Sequence[str], lines: Sequence[str], blocks: Sequence[Any]) -> None:
    """Every word of the one is a word of the other; figures that follow from others may be left out."""
    every, there = (set(" ".join(text).split()) for text in (whole, lines))
    assert there <= every
    spare = {word for words in spare_columns(blocks) for word in words}
    assert every - there <= spare


def spare_columns(blocks: Sequence[Any]) -> Iterator[list[str]]:
    for block in blocks:
        if isinstance(block, Listing):
            for index, column in enumerate(block.columns):
                if column.spare:
                    yield [*column.head.split(), *(cells[index] for cells, _ in block.rows)]


def test_every_command_is_looked_at() -> None:
    assert {words[0] for words in COMMANDS.values()} == set(NAMES)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_says_how_wide_it_is(
    width: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The console cuts nothing either, and the map of the arena fits."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("estimate", "net.onnx", "--map", "--color", "never") == 0
    lines = capsys.readouterr().out.splitlines()
    check_width(lines, width)
    assert f"{LONG}0:r:moved" in " ".join(lines).split()
    bars = [line for line in lines if re.match(r" *\d+  conv2d", line)]
    assert bars
    assert max(map(cell_len, bars)) > width // 2 or width > 100


def test_a_pipe_has_no_width(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert run("inspect", "net.onnx") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(LONG in line for line in lines) == len([line for line in lines if "conv2d" in line])


# The layouts themselves ----------------------------------------------------------------------------------------------


def table() -> Listing:
    rows = Listing(
        *figures("step"), *text("layer", "kernel"), *figures("MACs", "per MAC", spare=("per MAC",)), *SENTENCE
    )
    rows.add(0, "conv/first", "tc_conv2d_s8", "1,000", "0.50", "")
    rows.add(11, "dense", "tc_fully_connected_s8", "-", "", "too large for this board")
    return rows


def shown(lines: Callable[[int], Iterator[Text]], width: int) -> list[str]:
    return [line.plain for line in lines(width)]


def test_a_table_as_wide_as_it_likes() -> None:
    assert shown(table().lines, 90) == [
        "step  layer       kernel                  MACs  per MAC",
        "   0  conv/first  tc_conv2d_s8           1,000     0.50",
        "  11  dense       tc_fully_connected_s8      -           too large for this board",
    ]


def test_a_table_without_room_for_sentences_and_what_follows() -> None:
    assert shown(table().lines, 50) == [
        "step  layer       kernel                  MACs",
        "   0  conv/first  tc_conv2d_s8           1,000",
        "  11  dense       tc_fully_connected_s8      -",
        "      too large for this board",
    ]


def test_a_table_with_names_below() -> None:
    assert shown(table().lines, 30) == [
        "step  layer        MACs",
        "      kernel",
        "   0  conv/first  1,000",
        "      tc_conv2d_s8",
        "  11  dense           -",
        "      tc_fully_connected_s8",
        "      too large for this board",
    ]


def test_a_table_with_names_above() -> None:
    assert shown(table().lines, 20) == [
        "step  layer  kernel",
        "       MACs",
        "   0  conv/first",
        "      tc_conv2d_s8",
        "      1,000",
        "  11  dense",
        "      tc_fully_connected_s8",
        "          -",
        "      too large for",
        "      this board",
    ]


def test_sentences_are_cut_between_words() -> None:
    assert list(wrapped("it takes 12 % of /a/path/that/is/long", 12, "- ", "  ")) == [
        "- it takes",
        "  12 % of",
        "  /a/path/that/is/long",
    ]
    assert list(wrapped("first\n  second one here", 12, "", "")) == ["first", "  second one", "  here"]
    assert list(wrapped("", 10)) == [""]


def test_facts_stand_below_each_other() -> None:
    facts = FactList(4)
    facts.add("a", "one two three")
    facts.add("proved", "all equal", "yes", "bold")
    assert shown(facts.lines, 18) == [
        "a       one two",
        "        three",
        "proved  yes: all",
        "        equal",
    ]
