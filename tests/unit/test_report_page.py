# SPDX-License-Identifier: Apache-2.0
"""The report's page: complete, alone, well-formed, with names of any kind; and report.json read back."""

from __future__ import annotations

import functools
import html
import itertools
import json
import random
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile_names import HOSTILE
from tests.unit.reports import small_report
from tinyc.base.errors import TinycError
from tinyc.base.escape import visible
from tinyc.cli.main import main
from tinyc.explain.graph_drawing import BOX_HEIGHT, ROW, graph_drawing
from tinyc.explain.report_charts import numbered
from tinyc.explain.report_page import report_page
from tinyc.explain.treemap import treemap
from tinyc.verify.front import FrontPoint, ModelFront
from tinyc.verify.report import (
    Accuracy,
    Alternative,
    CalibrationReport,
    Change,
    EnergyReport,
    GroupReport,
    Integers,
    LayerReport,
    Report,
    UnprovedReport,
    Verify,
)
from tinyc.verify.report_file import read_report

pytest.importorskip("matplotlib")
EMPTY = {"meta", "path", "use", "rect", "line", "br"}  # elements without an end


class Page(HTMLParser):
    """Elements of a page; every one that begins has to end, and no id comes twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


FRONT = ModelFront(
    "kws.onnx",
    "cortex-m4",
    (FrontPoint(9100, 0.091, 1052, 128, by_rows=False, built=True), FrontPoint(12345, 0.123, 999, 96, by_rows=True)),
    0.0125,
    "Cortex-M4, zero wait states; error: small",
    "balanced",
    0.01,
)


def several_layers() -> Report:
    layers = [replace(small_report().layers[0], step=step, name=f"conv{step}") for step in range(60)]
    accuracy = Accuracy(20, 29.25, 0.995, 0.9, 0.875)
    return replace(
        small_report(),
        layers=(detailed(), *layers[1:]),
        accuracy=accuracy,
        calibration=CalibrationReport("x.npz", 5, True),
        cycle_model="Cortex-M4, zero wait states; error: small",
        energy=EnergyReport(3012.4, 2460.2, 3249.1, 4_850_000, "at 621 pJ per cycle"),
        changes=(Change("kws.onnx: node 3 'flat' (Flatten)", "the same bytes under another shape"),),
        front=FRONT,
    )


page_of = functools.cache(report_page)  # drawing takes as long as all else of the tests here


def several_page() -> str:
    return page_of(several_layers())


def detailed() -> LayerReport:
    """A layer of which everything is known."""
    kernels = (
        Alternative("tc_conv2d_s8", 9000, 13000, 300, 0),
        Alternative("tc_conv2d_s8_dsp", 4000, 6000, 400, 16),
        Alternative("tc_conv2d_s8_w4", asks="constant int4 weights"),
        Alternative("tc_conv2d_s8_w4_asm", asks="constant int4 weights"),
    )
    return replace(
        small_report().layers[0],
        cycles=13000,
        made_of=("kws.onnx: node 0 'conv' (Conv)", "kws.onnx: node 1 'act' (Relu)"),
        output=Integers("s8", 1, 0.0235, -128),
        weights=Integers("s8", 4),
        sqnr_db=31.25,
        why="the cheapest of 2 for size",
        alternatives=kernels,
    )


def unproved() -> UnprovedReport:
    given = {field: getattr(small_report(), field) for field in UnprovedReport.__dataclass_fields__}
    return UnprovedReport(**{**given, "flash": None, "toolchain": None, "layers": (_uncounted(),)})


def _uncounted() -> LayerReport:
    return replace(small_report().layers[0], instructions=None, cycles=None)


def test_the_page_says_what_the_report_does() -> None:
    page = Page(several_page())
    words = " ".join(" ".join(page.texts).split())
    for part in (
        "kws for cortex-m4",
        "Proved: 1,280 output bytes of 20 inputs on QEMU 7.2.22 mps2-an386 equal the integer reference",
        "9,100",
        "29.2 dB",
        "2,460 to 3,249 uJ an inference, estimated: 4,850,000 cycles at 621 pJ per cycle",
        "99.5 %",
        "90.0 % float, 87.5 % integers",
        "conv59",
        "tc_conv2d_s8",
        "21 others",
        "1 x 4 x 4 x 4, int8, scale 0.0235, zero point -128",
        "int8, 4 scales",
        "31.2 dB beside the float model",
        "node 0 'conv' (Conv)",
        "tc_conv2d_s8: the cheapest of 2 for size",
        "tc_conv2d_s8 (chosen)",
        "tc_conv2d_s8_w4, tc_conv2d_s8_w4_asm asks for: constant int4 weights",
        "node 3 'flat' (Flatten) the same bytes under another shape",
    ):
        assert part in words
    assert page.count["details"] == 62  # a layer each, what is fused, and the front
    assert page.count["svg"] == 8
    assert report_page(several_layers()) == several_page()


def test_the_page_needs_nothing_else_and_has_each_id_once() -> None:
    text = page_of(small_report())
    page = Page(text)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for name, value in page.attributes if name in ("src", "href", "xlink:href")]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", text))
    assert "@import" not in text
    roles = [value for name, value in page.attributes if name == "role"]
    assert roles.count("img") == 5  # charts; the graph is a group of links
    assert "currentColor" in text
    assert "#010203" not in text


def test_what_else_the_library_can_be_is_drawn_and_listed() -> None:
    text = several_page()
    assert "What else it can be" in text
    assert "but for 1.2 % in each figure" in text
    assert "<summary>2 libraries</summary>" in text
    assert '<td class="n" data-v="12345">12,345</td>' in text
    assert "whole, built</td>" in text
    assert "What else it can be" not in page_of(small_report())
    untimed = tuple(replace(point, milliseconds=None) for point in FRONT.points)
    counted = page_of(replace(several_layers(), front=replace(FRONT, points=untimed, cycle_error=None)))
    assert (
        '<button type="button">instructions</button></th>\n<th scope="col" class="n"><button type="button">flash'
        in counted
    )


def test_a_library_that_was_not_proved_is_said_to_be() -> None:
    text = page_of(unproved())
    assert "Not proved: nothing was run." in text
    assert Page(text).count["svg"] == 3  # nothing was counted or measured: there is a graph and a plan, in two pictures
    wrong = replace(small_report(), verify=Verify(20, 1280, 3, "integer reference", "step 0 'conv1'"))
    assert "Different: 3 of 1,280 output bytes" in page_of(wrong)
    assert "step 0 &apos;conv1&apos;" in page_of(wrong)


def test_hostile_names_are_text() -> None:
    """As names of layers, operators and kernels; and in every other place the most hostile."""
    names = [name for name in HOSTILE if len(name) < 100]
    most = "".join(name for name in names if set(name) & set("<&\"'$"))
    layers = tuple(replace(_uncounted(), step=i, name=x, op=x, kernel=x) for i, x in enumerate(names))
    plain = tuple(replace(layer, name="x", op="x", kernel="x") for layer in layers)
    most_of = replace(small_report(model=most), name=most, board=most, machine=most, toolchain=most)
    hostile_report = replace(most_of, layers=(*layers, _hostile(detailed(), most)), changes=(Change(most, most),))
    page = Page(report_page(hostile_report))
    harmless = (*plain, _hostile(detailed(), "x"))
    assert page.count == Page(report_page(replace(small_report(), layers=harmless, changes=(Change("x", "x"),)))).count
    words = "".join(page.texts)
    assert all(visible(name).strip() in words for name in (*names, most))


def _hostile(layer: LayerReport, name: str) -> LayerReport:
    kernels = (Alternative(name, 1, 1, 1, 1), Alternative(name, asks=name))
    number = Integers(name, 1, 0.5, 0)
    return replace(layer, step=999, made_of=(name,), output=number, weights=number, why=name, alternatives=kernels)


def test_layers_of_the_table_lead_to_what_is_said_of_them() -> None:
    page = Page(several_page())
    links = [value for name, value in page.attributes if name == "href" and value.startswith("#layer-")]
    assert links == [*2 * [f"#layer-{step}" for step in range(60)], "#layer-0"], "of table, graph, and what is fused"
    assert set(links) <= {f"#{value}" for name, value in page.attributes if name == "id"}


def branched() -> Report:
    """Inputs -> 0 -> 1 -> 2 -> 3; 2 also reads 0; 3 reads 1, 2 and the inputs; 1 to 2 run row by row."""
    reads = [(-1,), (0,), (1, 0), (2, 1, -1)]
    layers = tuple(replace(small_report().layers[0], step=step, reads=read) for step, read in enumerate(reads))
    return replace(small_report(), layers=layers, groups=(GroupReport(1, 2, 8),))


def test_the_graph_has_a_line_for_each_tensor_that_is_read() -> None:
    drawing = graph_drawing(branched())
    assert [box.step for box in drawing.boxes] == [None, 0, 1, 2, 3, None]
    straight = [line for line in drawing.lines if "H" not in line]
    assert len(straight) == 5, "inputs to 0, 0 to 1, 1 to 2, 2 to 3, 3 to the outputs"
    assert len(drawing.lines) == 5 + 3
    assert drawing.groups == ((2 * ROW, ROW + BOX_HEIGHT),)
    assert drawing.boxes[1].share == "25.0 %"
    assert graph_drawing(several_layers()).lines == (), "a report from before `reads`"


def test_lines_at_the_side_do_not_meet() -> None:
    """The lines of different tensors have different places as far as both lead; each ends at the box that reads."""
    rng = random.Random(0)
    for _ in range(20):
        layers = [replace(small_report().layers[0], step=step, reads=(step - 1,)) for step in range(30)]
        layers = [replace(n, reads=tuple({n.step - 1, rng.randrange(-1, n.step)})) for n in layers]
        drawing = graph_drawing(replace(small_report(), layers=tuple(layers)))
        taken: dict[tuple[str, int], int] = {}
        for line in (line for line in drawing.lines if "H" in line):
            start, place, end = re.fullmatch(r"M354 (\d+)H([\d.]+)q.*V(\d+)q.*", line).groups()  # type: ignore[union-attr]
            assert (int(end) + 6) % ROW == BOX_HEIGHT // 3
            assert float(place) + 6 < drawing.width
            for y in range(int(start), int(end)):
                assert taken.setdefault((place, y), int(start)) == int(start)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=40), st.floats(0.1, 20), st.floats(0.1, 20))
def test_tiles_have_their_areas_and_fill_the_map(sizes: list[int], width: float, height: float) -> None:
    tiles = treemap(sizes, width, height)
    assert sorted(tile.index for tile in tiles) == [i for i, size in enumerate(sizes) if size]
    for tile in tiles:
        assert tile.width * tile.height == pytest.approx(width * height * sizes[tile.index] / sum(sizes))
        assert -1e-6 <= tile.x <= tile.x + tile.width <= width + 1e-6
        assert -1e-6 <= tile.y <= tile.y + tile.height <= height + 1e-6
    for a, b in itertools.combinations(tiles, 2):
        across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
        down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
        assert min(across, down) < 1e-6


def test_the_tiles_of_the_paper() -> None:
    """Areas 6, 6, 4, 3, 2, 2, 1 in 6 by 4: the example that the layout's paper draws."""
    tiles = [(round(tile.width, 3), round(tile.height, 3)) for tile in treemap([6, 6, 4, 3, 2, 2, 1], 6, 4)]
    assert tiles[:4] == [(3, 2), (3, 2), (1.714, 2.333), (1.286, 2.333)]


def test_a_report_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    for report in (small_report(), several_layers(), unproved()):
        file.write_text(json.dumps(report.to_json()))
        assert read_report(file) == report


def test_the_command_that_repeats_the_build() -> None:
    assert "<pre>tinyc build kws.onnx --board cortex-m4 --samples 20</pre>" in page_of(unproved())
    odd = replace(unproved(), model="my $(model).onnx", arguments=("--outputs", "a;b"))
    shown = re.search(r"<pre>(.*)</pre>", report_page(odd))
    assert shown is not None
    assert shlex.split(html.unescape(shown[1])) == ["tinyc", "build", "my $(model).onnx", "--outputs", "a;b"]


def test_what_is_dropped_and_fused() -> None:
    words = " ".join(" ".join(Page(several_page()).texts).split())
    assert "step 0 kws.onnx: node 0 &apos;conv&apos; (Conv) kws.onnx: node 1" in words.replace("'", "&apos;")
    assert "Dropped and fused" not in page_of(small_report())


def test_numbered_names_keep_their_number() -> None:
    assert numbered("2", "/blocks/blocks.0/blocks.0.3/Conv", 16) == "2 …ocks.0.3/Conv"
    assert len(numbered("2", "/blocks/blocks.0/blocks.0.3/Conv", 16)) <= 16
    assert numbered("12", "/classify", 7) == "12"
    assert numbered("code", "", 9) == "code"


def test_labels_of_points_do_not_lie_over_each_other() -> None:
    """Three points at nearly one place: their labels go to different corners."""
    layer = replace(small_report().layers[0], cycles=13000)
    layers = [replace(layer, step=n, name=f"n{n}", instructions=9000 + n) for n in range(3)]
    page = report_page(replace(several_layers(), layers=tuple(layers)))
    drawn = page[page.index('aria-label="instructions per multiply-accumulate') :].partition("</svg>")[0]
    places = re.findall(
        r"<text [^>]*?(?:x=\"([\d.]+)\" y=\"([\d.]+)\"|translate\(([\d.]+) ([\d.]+)\))[^>]*>([012])</text>", drawn
    )
    assert {label[4] for label in places[-3:]} == {"0", "1", "2"}
    assert len({label[:4] for label in places[-3:]}) == 3, drawn


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": 2}, "no report of schema 1"),
        ({"name": 3}, r"report\.name is no str"),
        ({"macs": True}, r"report\.macs is no int"),
        ({"macs": 1 << 70}, r"report\.macs is no int"),
        ({"layers": {}}, r"report\.layers is not the list"),
        ({"layers": [1]}, r"report\.layers\[0\] is no object"),
        ({"flash": {"code_bytes": 1}}, r"report\.flash\.const_bytes is not there"),
    ],
)
def test_damaged_reports(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps({**small_report().to_json(), **changed}))
    with pytest.raises(TinycError, match=message):
        read_report(file)


def test_files_that_are_no_report(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    with pytest.raises(TinycError, match="cannot be read"):
        read_report(file)
    for text in ("", "[", "[" * 100_000, "[1]", "\x00"):
        file.write_text(text)
        with pytest.raises(TinycError, match=r"no JSON|no report of schema"):
            read_report(file)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["tinyc", "report", *words])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    monkeypatch.chdir(tmp_path)
    Path("kws").mkdir()
    Path("kws/report.json").write_text(json.dumps(small_report().to_json()))
    assert run("kws") == 0
    assert capsys.readouterr().out == "page: kws.html\n"
    assert Path("kws.html").read_text(encoding="utf-8") == page_of(small_report())
    assert run("kws", "-o", "missing/x.html") == 2
    assert "choose -o" in capsys.readouterr().err
    assert run("nothing") == 2
