# SPDX-License-Identifier: Apache-2.0
"""bench/tables.py, bench/desktop.py and scripts/peer_plot.py on made-up figures; bench/peers.toml is complete."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tinyc.bench.report import (
    BenchReport,
    BoardResult,
    Computer,
    Latency,
    Missing,
    ModelResult,
    Parity,
    ReferenceResult,
)
from tinyc.board import load_board
from tinyc.verify.report import Accuracy, Flash, Report, Verify

ROOT = Path(__file__).resolve().parents[2]
for folder in ("bench", "scripts"):
    sys.path.insert(0, str(ROOT / folder))

import board_estimates  # noqa: E402
import desktop  # noqa: E402
import estimates  # noqa: E402
import peer_plot  # noqa: E402
import peers  # noqa: E402
import tables  # noqa: E402


def measured(model: str, accuracy: Accuracy | None = None) -> tables.Measured:
    report = Report(
        schema=1,
        tinyc="0",
        model=f"{model}.tflite",
        model_sha256="",
        name=model,
        board="cortex-m4",
        machine="machine",
        toolchain="compiler 1",
        optimize="speed",
        numerics="tflm",
        macs=1000,
        arena_bytes=5000,
        arena_lower_bound_bytes=4000,
        stack_bytes=300,
        flash=Flash(7000, 9000),
        instructions=2_000_000,
        overhead_instructions=1,
        layers=(),
        verify=Verify(20, 240, 0, "x"),
        accuracy=accuracy,
        cycles=3_000_000,
    )
    return tables.Measured(model, report, 1.4)


GOOD = Accuracy(300, 33.0, 0.99, 0.92, 0.915)


@pytest.mark.parametrize(
    ("accuracy", "missed"),
    [
        (GOOD, []),
        (replace(GOOD, top1_int=0.905), ["top-1"]),
        (replace(GOOD, agreement=0.97, sqnr_db=26.9), ["agreement", "SQNR"]),
    ],
)
def test_gates(accuracy: Accuracy, missed: list[str]) -> None:
    assert [text.split()[0] for text in tables.gate_failures([measured("kws", accuracy)])] == missed


def test_section_has_every_figure() -> None:
    text = tables.section("cortex-m4", [measured(m) for m in peers.MODELS], [measured(m, GOOD) for m in peers.MODELS])
    for figure in ("2,000,000", "3,000,000", "5,000", "4,000", "300", "7,000", "9,000", "33.0 dB", "held"):
        assert figure in text
    assert "7,847,633 (3.92)" in text  # TFLite Micro's kws over ours
    assert "tinyc" in text


def test_another_board_has_only_its_own_figures() -> None:
    text = tables.section("cortex-m3", [measured("kws")], [measured("kws", GOOD)])
    assert "10,547,135" in text
    assert "7,847,633" not in text
    assert "TinyEngine" not in text
    assert "Published" not in text


def test_writing_replaces_one_section(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nby hand\n")
    tables.write_section(page, "m4", "first")
    tables.write_section(page, "m0", "other")
    before = page.read_text()
    tables.write_section(page, "m4", r"second \1")
    after = page.read_text()
    assert after == before.replace("first", r"second \1")
    assert after.startswith("# Title\n\nby hand\n\n## m4\n")


def test_figures_of_other_boards_stay(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    tables.write_figures(file, "m4", [measured("kws")])
    tables.write_figures(file, "m0", [measured("vww")])
    boards = json.loads(file.read_text())
    assert boards["m4"]["kws"]["flash_bytes"] == 16000
    assert boards["m0"]["vww"]["cycles"] == 3_000_000


def test_peers_are_complete() -> None:
    read, published = peers.read_peers()
    tflm = read[0]
    for figures in (tflm.arena_bytes, tflm.stack_bytes, tflm.code_bytes, tflm.flash_bytes, *tflm.instructions.values()):
        assert set(figures) == set(peers.MODELS)
    assert all(peer.how and peer.instructions["cortex-m4"].keys() <= set(peers.MODELS) for peer in read)
    assert all(row.keys() <= set(peers.MODELS) for row in published.cycles.values())


def test_board_estimates_stand_beside_what_was_published_for_that_board() -> None:
    _, published = peers.read_peers()
    own = {"kws": 4_000_000, "person": 9_300_000}
    asked = {board_estimates.PLAIN: own, "`--prefer time`": {model: cycles // 2 for model, cycles in own.items()}}
    by_board = {published.board: asked, "stm32f4-discovery": {board_estimates.PLAIN: {"kws": 3_000_000}}}
    text = board_estimates.section(by_board, published)
    mine, *others = [
        line for line in text.splitlines() if line.startswith("| ") and "---" not in line and "product" not in line
    ]
    assert mine == "| tinyc, estimated | 4 (3.7 to 4.35) | 9.3 (8.61 to 10.1) |"
    assert "| tinyc, estimated, uJ | 1,583 to 2,846 | 3,680 to 6,617 |" in others
    assert others[0] == "| tinyc, `--prefer time` | 2 (1.85 to 2.17) | 4.65 (4.31 to 5.05) |"
    assert "| ST X-CUBE-AI 9 (v1.2) | 5.18 | - |" in others
    assert text.count("X-CUBE-AI 9") == 1  # nothing was published for the other board
    assert "68.2 M cycles" in text
    assert "within 5 % of 4 published networks" in text


def test_every_published_result_names_a_board_and_a_source() -> None:
    _, published = peers.read_peers()
    assert load_board(published.board).flash_timing is not None
    for result in published.elsewhere:
        assert set(result) == {"product", "model", "board", "figure", "source"}
        assert any(result["model"].startswith(model) for model in peers.MODELS + peers.LIVE)


def test_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install tinyc[plot]")
    tables.write_figures(tmp_path / "f.json", "cortex-m4", [measured(m) for m in peers.MODELS])
    ours = json.loads((tmp_path / "f.json").read_text())["cortex-m4"]
    estimated = dict.fromkeys(peers.MODELS, 4000000)
    panels = peer_plot.panels(ours, estimated, *peers.read_peers())
    rows = peer_plot.desktop_rows([bench_report("kws_int8.tflite").to_json(), bench_report("kws_fp32.onnx").to_json()])
    for name in ("one", "two"):
        peer_plot.draw(panels, rows, tmp_path / f"{name}.svg")
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    for words in (
        "TFLite Micro + CMSIS-NN",
        "tinyc (estimated)",
        "2 M",
        "5 kB",
        "7 kB",
        "4 M",
        "tinyc on m4 (modelled)",
    ):
        assert words in text


def bench_report(file: str) -> BenchReport:
    """What `tinyc bench` states of one model."""
    parity = Parity(inputs=4, agreement=0.75, sqnr_db=30.0, different=None, top1_reference=0.5, top1_board=0.25)
    runs = [
        ReferenceResult(kind, name, "a CPU", "1.0", "int8", Latency(50.0, 60.0, 9), 1.5, 4000.0, 16, parity)
        for kind, name in (("c", "generated C"), ("cpu", "LiteRT"))
    ]
    board = BoardResult("m4", "QEMU", "gcc", 100, 240, 2.0, 1, 2, 3, 4, 5, 6, 0)
    model = ModelResult(
        file, "0" * 64, "kws", "tflm", 10, "x.npz", (board,), tuple(runs), (Missing("gpu", "no device"),)
    )
    return BenchReport(1, "0", Computer("a CPU", "a system", "3.11"), (model,))


def test_the_picture_of_peers_has_the_figures_of_the_page() -> None:
    """`python scripts/peer_plot.py` draws it anew."""
    figures = json.loads(peer_plot.FIGURES.read_text(encoding="utf-8"))
    all_peers, published = peers.read_peers()
    panels = peer_plot.panels(
        figures[peer_plot.BOARD], figures[peer_plot.ESTIMATES][published.board], all_peers, published
    )
    picture = peer_plot.PICTURE.read_text(encoding="utf-8")
    for panel in panels:
        own, baseline = list(panel.rows.values())[:2]
        for model in own.keys() & baseline.keys():
            assert f">{own[model] / panel.unit:.3g} {panel.unit_name}<" in picture, (panel.title, model)


def test_desktop_rows_hold_the_generated_c_once() -> None:
    rows = peer_plot.desktop_rows([bench_report("kws_int8.tflite").to_json(), bench_report("kws_fp32.onnx").to_json()])
    assert rows == {
        "tinyc on m4 (modelled)": {"kws": 2.0},
        "generated C, int8, a CPU": {"kws": 0.05},
        "LiteRT, int8, a CPU": {"kws": 0.05},
    }


def test_desktop_section_states_times_parity_and_what_did_not_run() -> None:
    report = bench_report("kws_int8.tflite")
    text = desktop.section([report])
    for words in (
        "| kws_int8.tflite | 2.00 | generated C, int8 | a CPU | 50 (1.50) | 60 | 4,000 (16) |",
        "| kws_int8.tflite | LiteRT | 75.0% | 30.0 dB | - | 50.0% | 25.0% |",
        "* not run: gpu: no device",
    ):
        assert words in text


def step(kernel: str, said: int, counted: int, own_stack: int = 8) -> dict[str, object]:
    features = [said, 1, 10 * said, 4, 4, 4, 1, 4, 0]
    return {
        "kernel": kernel,
        "op": "conv2d",
        "features": features,
        "cycle_features": [2 * said, *features[1:]],
        "same_scale": False,
        "stack": 8,
        "own_stack": own_stack,
        "counted": counted,
        "cycles": 2 * counted,
        "code": 100,
    }


def record(model: str, core: str, *steps: dict[str, object]) -> dict[str, object]:
    counted = sum(int(str(one["counted"])) for one in steps)
    said = {"arena_bytes": 64, "const_bytes": 10}
    sizes = {"code_bytes": 500, "const_bytes": 10, "arena_bytes": 64, "assembly_bytes": 100, "stack_bytes": 40}
    named = {"model": model, "precision": "integer", "board": core, "core": core}
    return named | sizes | {"instructions": counted, "cycles": 2 * counted, "said": said, "steps": list(steps)}


def test_assembly_knows_what_it_takes_but_for_the_step_around_it() -> None:
    """A ratio would take the share of a small layer that calls it for that of all."""
    own = [record("small_int8.tflite", "cortex-m4", step("k_asm", 140, 120), step("k_asm", 1000, 980))]
    fitted = estimates._fit_core(own)
    assert fitted.kernels["k_asm"] == (1.0, -20.0)
    assert fitted.cycles["k_asm"] == (1.0, -40.0)


def test_cores_and_kernels_that_were_not_measured_keep_what_is_known_of_them() -> None:
    earlier = {"kernels": {"cortex-m4": {"k_asm": (2.0,), "other": (3.0,)}, "cortex-m3": {"": (1.5,)}}}
    steps = [step("k_asm", 140, 120), step("k_asm", 1000, 980), step("k_asm", 2000, 1980)]
    fitted = estimates.fit([record(name, "cortex-m4", *steps) for name in ("a_int8.tflite", "b_int8.tflite")], earlier)
    assert fitted["kernels"]["cortex-m4"]["other"] == (3.0,)
    assert fitted["kernels"]["cortex-m4"]["k_asm"] == (1.0, -20.0)
    assert fitted["kernels"]["cortex-m3"] == {"": (1.5,)}
    assert "cortex-m3" not in fitted["cycles"]


def test_tables_keep_rows_and_columns_of_cores_that_were_not_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before = [("model", "cortex-m4", "cortex-m3"), ("a.tflite, integer", "+1.0", ""), ("b.tflite, integer", "", "-2.0")]
    tables.write_section(page, "estimates", tables.as_table(before[0], before[1:]), "bench/estimates.py")
    assert estimates._table_of(page, "estimates") == before
    steps = [step("k_asm", 140, 120), step("k_asm", 1000, 980), step("k_asm", 2000, 1980)]
    text = estimates._by_file([record("a.tflite", "cortex-m4", *steps)], before)
    assert "| model | cortex-m4 | cortex-m3 |" in text
    assert "| a.tflite, integer | +0.0 |  |" in text
    assert "| b.tflite, integer |  | -2.0 |" in text


def test_functions_beside_steps_count_for_the_kernels_that_call_them() -> None:
    """Of a library of one kernel all; of others that which is the kernel, or nothing where its steps have it."""
    alone = _compiled(360, {"helper": 40}, k=200)
    two = _compiled(760, {"k": 500, "helper": 60}, **{"k": 30, "k rows": 50})
    both = _compiled(920, {"helper": 400}, k=200, f=200)
    code = estimates._fit_code([alone, two, both])
    assert (code["k alone"], code["k alone helper"]) == (200, 20)
    assert "k alone k" not in code  # a table has no zeros
    assert (code["k shared"], code["k rows shared"]) == (30, 50)
    assert (code["k shared k"], code["k shared helper"], code["k rows shared helper"]) == (500, 60, 60)
    assert code["base"] == 100


def _compiled(code: int, functions: dict[str, int], **steps: int) -> dict[str, object]:
    """steps: bytes of each, by its kernel."""
    own = [step(kernel, 9, 9) | {"code": size} for kernel, size in steps.items()]
    sizes = {"code_bytes": code, "assembly_bytes": 20, "functions": functions}
    return record("net_int8.tflite", "cortex-m4", *own) | sizes
