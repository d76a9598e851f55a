# SPDX-License-Identifier: Apache-2.0
"""What Python shows of results: ten lines, tables in a notebook, and a bar while it works; models in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from test_estimate import network

import tinyc
from tests.unit.reports import small_report
from tinyc.base.shown import Shown, Summary, SummaryTable
from tinyc.cli.main import main
from tinyc.pipeline.notebook_bar import notebook_bar


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Any]:
    """By name, of one network."""
    model = tmp_path / "m.onnx"
    onnx.save(network(8, 16), model)
    x = np.random.default_rng(0).normal(size=(40, 3, 16, 16)).astype(np.float32)
    return {
        "build": tinyc.build(model, "host", out=tmp_path / "b", calibration=x, effort="fast"),
        "unproved": tinyc.build(model, "host", out=tmp_path / "c", calibration=x, effort="fast", proof=False),
        "estimate": tinyc.estimate(model, "cortex-m4"),
        "memory_map": tinyc.memory_map(model, "cortex-m4"),
        "quantize": tinyc.quantize(model, calibration=x, effort="fast"),
        "inspect": tinyc.inspect(model),
        "report": small_report(),
    }


@pytest.mark.filterwarnings("ignore")
def test_a_result_is_ten_lines_and_tables(results: dict[str, Any]) -> None:
    said = {"build": "all equal", "unproved": "nothing was run", "estimate": "instructions", "memory_map": "arena of"}
    said |= {"quantize": "SQNR", "inspect": "operators", "report": "flash"}
    for name, result in results.items():
        lines = repr(result).splitlines()
        assert 2 <= len(lines) <= 10, name
        assert max(map(len, lines)) <= 120, name
        assert said[name] in repr(result), name
        html = result._repr_html_()
        assert html.count("<table>") == html.count("</table>") >= 2, name
        assert html.count("<tr>") > 4, name


class _Named(Shown):
    def summary(self) -> Summary:
        name = "<b>\x1b[31m" + "x" * 200
        return Summary(name, [(name, "1")] * 20, [SummaryTable((name,), [(name,)])])


def test_names_of_a_model_mean_nothing_to_a_terminal_or_a_browser() -> None:
    assert len(_Named().text().splitlines()) == 10
    for text in (_Named().text(), _Named()._repr_html_()):
        assert "\x1b" not in text
    assert "<b>x" not in _Named()._repr_html_()
    assert _Named()._repr_html_().count("&lt;b&gt;") == 1 + 20 + 2


class _Notebook:
    """IPython, as far as the bar knows it."""

    def __init__(self, *, kernel: bool) -> None:
        self.drawn: list[str] = []
        self.display = SimpleNamespace(HTML=lambda text: text, display=self._display)
        self._shell = SimpleNamespace(kernel=1) if kernel else SimpleNamespace()

    def get_ipython(self) -> Any:
        return self._shell

    def _display(self, text: str, display_id: bool) -> Any:
        assert display_id
        return SimpleNamespace(update=self.drawn.append)


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_shows_a_bar_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = _Notebook(kernel=True)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    tinyc.build(network(8, 16), "host", out=tmp_path / "b", effort="fast")
    assert any("<progress></progress> quantize" in text for text in notebook.drawn)
    assert notebook.drawn[-1] == ""
    notebook.drawn.clear()
    with notebook_bar() as bar:
        assert bar is not None
        bar.share("round <weights>", 0.25)
        bar.share("round <weights>", 0.26)  # too soon
    assert notebook.drawn == ['<progress value="0.250"></progress> round &lt;weights&gt; 25%', ""]


def test_a_terminal_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", _Notebook(kernel=False))
    with notebook_bar() as bar:
        assert bar is None


@pytest.mark.filterwarnings("ignore")
def test_a_model_in_memory_is_built_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = network(8, 16)
    x = np.random.default_rng(0).normal(size=(40, 3, 16, 16)).astype(np.float32)
    built = tinyc.build(model, "host", inputs=x, effort="fast")
    assert built.report.passed
    assert (built.folder, built.report.name) == (Path("build/model"), "model")
    assert tinyc.verify(model, "host", inputs=x, effort="fast").passed
    assert tinyc.inspect(model).macs == built.report.macs
    monkeypatch.setattr(sys, "argv", ["tinyc", "verify", "build/model"])
    with pytest.raises(SystemExit) as leave:
        main()
    assert leave.value.code == 0
    named = tinyc.build(model, "host", out="out/words", name="words", proof=False)
    assert (named.folder / "words.h").is_file()
    assert Path("out/words.exported.onnx").is_file()
    with pytest.raises(tinyc.TinycError, match="a list is no model"):
        tinyc.build([1], "host")


def test_a_module_is_run_on_the_first_of_its_inputs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(8, 400)
    )  # weights that the exporter writes beside the file
    x = np.random.default_rng(0).normal(size=(40, 2, 4)).astype(np.float32)
    for data in (x, torch.tensor(x), {"x": torch.tensor(x, requires_grad=True), "y": np.zeros(40)}):
        built = tinyc.build(module, "host", out=tmp_path / "m", calibration=data, effort="fast", proof=False)
        assert built.report.calibration.samples == 40
    built = tinyc.build(module, "host", out=tmp_path / "m", inputs=x, calibration=x, effort="fast")
    assert built.report.passed
    assert built.report.accuracy.sqnr_db > 20
