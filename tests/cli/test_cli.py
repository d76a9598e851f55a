# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: results on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyc.base.errors import TinycError
from tinyc.cli import main as cli
from tinyc.cli.main import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


@pytest.fixture
def tinyc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """tinyc("build", ...) -> Ran."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*args: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["tinyc", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as leave:
            main()
        captured = capsys.readouterr()
        return Ran(int(leave.value.code or 0), captured.out, captured.err)

    return run


def write_model(path: Path, op: str = "Relu", channels: int = 4) -> Path:
    """conv 3x3 -> `op` -> global average pool -> flatten -> gemm -> softmax, [1,2,6,5] -> [1,3]."""
    rng = np.random.default_rng(0)
    consts = {
        "w": rng.standard_normal((channels, 2, 3, 3)).astype(np.float32),
        "b": rng.standard_normal(channels).astype(np.float32),
        "fc": rng.standard_normal((channels, 3)).astype(np.float32),
        "fcb": rng.standard_normal(3).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(op, ["c"], ["r"], "act"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "fc", "fcb"], ["g"], "dense"),
        helper.make_node("Softmax", ["g"], ["y"], "soft"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(array, name) for name, array in consts.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small float model with calibration data beside it."""
    path = write_model(tmp_path / "tiny.onnx")
    x = np.random.default_rng(1).standard_normal((16, 2, 6, 5)).astype(np.float32)
    np.savez(tmp_path / "tiny.calib.npz", x=x, y=np.arange(16) % 3)
    return path


def test_build_writes_a_proved_library(tinyc, model: Path, tmp_path: Path) -> None:
    ran = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--json", "-v")
    assert ran.code == 0, ran.err
    report = ran.json
    assert report["verify"] == {
        "inputs": 16,
        "output_bytes": 48,
        "mismatches": 0,
        "against": "integer reference",
        "first_difference": None,
    }
    assert report["calibration"] == {"source": "tiny.calib.npz", "samples": 16, "proven": True}
    assert report["macs"] > 0
    assert "conv2d + relu" in [layer["op"] for layer in report["layers"]]
    on_disk = json.loads((tmp_path / "out" / "report.json").read_text())
    assert on_disk == {key: value for key, value in report.items() if key != "folder"}
    assert {"tiny.h", "tiny.c", "tiny_weights.h", "report.json", "firmware"} <= set(os.listdir(tmp_path / "out"))
    assert "load" in ran.err
    assert "compile" in ran.err


def test_a_library_without_a_proof_needs_no_tool_and_says_so(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved, plain = tmp_path / "proved", tmp_path / "plain"
    assert tinyc("build", model, "--board", "host", "-o", proved).code == 0
    with_proof = json.loads((proved / "report.json").read_text())
    with monkeypatch.context() as nothing_installed:
        for place in ("building", "proving"):
            nothing_installed.setattr(f"tinyc.pipeline.{place}.find_toolchain", _no_tool)
            nothing_installed.setattr(f"tinyc.pipeline.{place}.find_target", _no_tool)
        ran = tinyc("build", model, "--board", "host", "-o", plain, "--no-proof", "--json")
    assert ran.code == 0
    assert "not proved" in ran.err
    report = json.loads((plain / "report.json").read_text())
    assert list(report) == list(with_proof)
    left_out = {key for key in report if report[key] is None and with_proof[key] is not None}
    assert left_out == {"machine", "toolchain", "flash", "verify"}  # on the host no stack is measured
    assert {key: report[key] for key in ("arena_bytes", "macs", "calibration", "accuracy")} == {
        key: with_proof[key] for key in ("arena_bytes", "macs", "calibration", "accuracy")
    }
    header = (plain / "tiny.h").read_text()
    assert header.startswith("/* NOT PROVED")
    assert header.partition("\n")[2] == (proved / "tiny.h").read_text()
    told, silent = ((each / "tiny.c").read_text().split("#include", 1) for each in (proved, plain))
    assert silent[1] == told[1]  # the banner before says what was measured and proved
    assert "not" in silent[0].split("proved", 1)[1].split("\n", 1)[0]
    assert not (plain / "firmware").exists()


def test_a_report_says_of_each_layer_why_and_what_it_is_made_of(tinyc, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ran = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--report", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["page"] == str(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert [point["built"] for point in ran.json["front"]["points"]].count(True) == 1
    assert "What else it can be" in page
    for layer in ran.json["layers"]:
        assert layer["output"]["dtype"] == "s8"
        assert layer["sqnr_db"] > 15
        assert layer["kernel"] in [each["kernel"] for each in layer["alternatives"] if not each["asks"]]
        assert layer["why"] in page
    conv = ran.json["layers"][0]
    assert conv["made_of"] == ["tiny.onnx: node 0 'conv' (Conv)", "tiny.onnx: node 1 'act' (Relu)"]
    assert conv["weights"]["scales"] == 4
    assert [layer["reads"] for layer in ran.json["layers"]] == [[step - 1] for step in range(len(ran.json["layers"]))]
    origins = {node for layer in ran.json["layers"] for node in layer["made_of"]}
    gone = {change["what"] for change in ran.json["changes"]}
    assert gone == {"tiny.onnx: node 3 'flat' (Flatten)"}
    assert len(origins) == 5


def test_a_page_that_cannot_be_drawn_is_said_before_the_build(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--report")
    assert ran.code == 2
    assert "drawing needs the package matplotlib" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_library_without_a_proof_has_a_size_where_a_compiler_is(tinyc, model: Path, tmp_path: Path) -> None:
    ran = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--no-proof")
    assert ran.code == 0
    assert "NOT PROVED" in ran.out
    assert json.loads((tmp_path / "out" / "report.json").read_text())["flash"]["code_bytes"] > 0


def test_a_library_without_a_proof_is_proved_later(tinyc, model: Path, tmp_path: Path) -> None:
    folder, proved, same = tmp_path / "later", tmp_path / "proved", ("--board", "host", "--prefer", "ram")
    assert tinyc("build", model, *same, "-o", folder, "--no-proof").code == 0
    assert (folder / "tiny.h").read_text().startswith("/* NOT PROVED")
    other = tinyc("verify", model, "--board", "host", "--numerics", "litert", "--built", folder)
    assert other.code == 2
    assert "these options" in other.err
    assert "tinyc build tiny.onnx --board host --prefer ram" in " ".join(other.err.split())
    assert json.loads((folder / "report.json").read_text())["verify"] is None

    ran = tinyc("verify", model, *same, "--built", folder, "--json")
    assert ran.code == 0
    assert tinyc("build", model, *same, "-o", proved, "--samples", 0).code == 0
    files = {file.name for file in proved.iterdir()}
    assert {file.name for file in folder.iterdir()} == files
    for name in files - {".tinyc", "firmware", "report.json"}:
        assert (folder / name).read_bytes() == (proved / name).read_bytes()
    said = json.loads((folder / "report.json").read_text())
    assert said == ran.json
    assert said["verify"]["mismatches"] == 0
    assert said["arguments"] == ["--board", "host", "--prefer", "ram"]
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert tinyc("verify", model, *same, "--built", folder).code == 0
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    (folder / "tiny.c").write_text((folder / "tiny.c").read_text() + "/* mine */\n")
    again = tinyc("verify", model, *same, "--built", folder)
    assert again.code == 2
    assert "tiny.c is not what" in again.err


def test_a_library_that_was_changed_is_not_said_to_be_proved(tinyc, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert tinyc("build", model, "--board", "host", "-o", folder, "--no-proof").code == 0
    source = folder / "tiny.c"
    source.write_text(source.read_text() + "/* mine */\n")
    ran = tinyc("verify", model, "--board", "host", "--built", folder)
    assert ran.code == 2
    assert "tiny.c is not what" in ran.err
    assert source.read_text().endswith("/* mine */\n")
    assert (folder / "tiny.h").read_text().startswith("/* NOT PROVED")


def _no_tool(*_: object) -> None:
    raise TinycError("there is none")


def test_the_same_input_gives_the_same_library(tinyc, model: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert tinyc("build", model, "--board", "host", "-o", tmp_path / name).code == 0
    for file in (tmp_path / "one").glob("*.[hc]"):
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
        assert str(tmp_path) not in file.read_text()


def test_build_says_loudly_that_synthetic_calibration_proves_nothing(tinyc, model: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.calib.npz").unlink()
    ran = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--json")
    assert ran.code == 0
    assert "accuracy is unproven" in ran.err
    assert ran.json["calibration"]["proven"] is False


def test_text_report_names_layers_and_verdict(tinyc, model: Path, tmp_path: Path) -> None:
    ran = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--color", "never")
    assert "proved" in ran.out
    assert "tc_conv2d_s8" in ran.out
    assert "\x1b" not in ran.out + ran.err
    forced = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--color", "always")
    assert "\x1b[" in forced.out


def test_verify_against_expected_outputs(tinyc, model: Path, tmp_path: Path) -> None:
    inputs = tmp_path / "tiny.calib.npz"
    assert tinyc("verify", model, "--board", "host", "--inputs", inputs).code == 0
    np.savez(tmp_path / "wrong.npz", y=np.zeros((16, 1, 3), np.int8))
    ran = tinyc("verify", model, "--board", "host", "--inputs", inputs, "--expect", tmp_path / "wrong.npz", "--json")
    assert ran.code == 1
    assert ran.json["verify"]["mismatches"] > 0
    assert "every step equals" in ran.json["verify"]["first_difference"]


def test_inspect_lists_operators(tinyc, model: Path) -> None:
    ran = tinyc("inspect", model, "--json")
    assert ran.code == 0
    ops = [node["op"] for node in ran.json["nodes"] if node["op"] != "reshape"]
    assert ops == ["conv2d + relu", "mean", "fully_connected", "softmax"]
    assert "conv2d + relu" in tinyc("inspect", model).out


def test_the_map_is_of_the_arena_that_build_reports(tinyc, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    whole = ("--board", "host", "--prefer", "time")  # layer by layer
    built = tinyc("build", model, *whole, "-o", tmp_path / "out", "--json").json
    picture = tmp_path / "map.svg"
    (estimated,) = tinyc("estimate", model, *whole, "--map", "--json", "--plot", picture).json["estimates"]
    map_of_arena = estimated["map"]
    assert map_of_arena["arena_bytes"] == built["arena_bytes"]
    assert len(map_of_arena["moments"]) == len(built["layers"])
    assert "peak" in picture.read_text()
    steps = [step for one in map_of_arena["boundaries"] for step in range(one["first"], one["last"] + 1)]
    assert set(steps) == set(range(len(built["layers"])))
    text = tinyc("estimate", model, *whole, "--map", "--width", "20").out
    assert map_of_arena["boundaries"][0]["reason"].split(";")[0] in " ".join(text.split())
    assert f"arena {map_of_arena['arena_bytes']:,} bytes" in text
    assert "<- peak" in text


def test_the_front_says_where_the_library_stands(tinyc, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    picture = tmp_path / "front.svg"
    (front,) = tinyc("estimate", model, "--front", "--json", "--plot", picture).json["fronts"]
    (built,) = [point for point in front["points"] if point["built"]]
    estimated = tinyc("estimate", model, "--board", "cortex-m4", "--json").json["estimates"][0]
    assert [built[key] for key in ("cycles", "arena_bytes", "flash_bytes")] == [
        estimated[key] for key in ("cycles", "arena_bytes", "flash_bytes")
    ]
    assert "built" in picture.read_text()
    text = tinyc("estimate", model, "--front").out
    assert all(f"{point['cycles']:,}" in text for point in front["points"])
    ran = tinyc("estimate", model, "--front", "--input-rows")
    assert ran.code == 2
    assert "leave out --input-rows" in ran.err


def test_a_picture_format_is_refused_before_anything_is_computed(tinyc, model: Path, tmp_path: Path) -> None:
    ran = tinyc("estimate", model, "--board", "host", "--plot", tmp_path / "map.gif")
    assert ran.code == 2
    assert "no format for '.gif'" in ran.err


def test_inspect_names_what_is_unsupported(tinyc, tmp_path: Path) -> None:
    path = write_model(tmp_path / "bernoulli.onnx", op="Bernoulli")
    ran = tinyc("inspect", path, "--json")
    assert ran.code == 1
    (problem,) = ran.json["problems"]
    assert "Bernoulli" in problem["message"] + str(problem["where"])
    ran = tinyc("build", path, "--board", "host", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "act" in ran.err
    assert "hint" in ran.err
    assert not (tmp_path / "out").exists()


def test_boards_and_doctor(tinyc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert {"cortex-m4", "host"} <= {board["name"] for board in tinyc("boards", "--json").json["boards"]}
    assert "cortex-m4" in tinyc("boards").out
    names = {finding["name"] for finding in tinyc("doctor", "--json").json["findings"]}
    assert {"arm-none-eabi-gcc", "QEMU"} <= names


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["build", "{model}", "--board", "cortex-m44"], "cortex-m4"),
        (["build", "{tmp}/absent.onnx", "--board", "host"], "absent.onnx"),
        (["build", "{tmp}", "--board", "host"], "folder"),
        (["build", "{model}", "--board", "host", "--calibration", "{tmp}/absent.npz"], "no such file"),
        (["build", "{model}", "--board", "host", "--calibration", "{tmp}/shape.npz"], "expected"),
        (["build", "{model}", "--board", "host", "--inputs", "{tmp}/shape.npz"], "expected"),
        (["build", "{model}", "--board", "host", "--toolchain", "tcc"], "tcc"),
        (["build", "{model}", "--board", "cortex-m4", "--emulator", "bochs"], "bochs"),
        (["build"], "MODEL"),
        (["build", "{model}", "--optimise", "speed"], "has no option --optimise"),
        (["build", "{model}", "--prefer", "fast"], "--prefer: 'fast' is not one of balanced, "),
        (["build", "{model}", "--ram", "-5"], "give bytes, like 65536"),
        (["build", "{model}", "--outputs", "absent"], "makes a tensor 'absent'"),
        (["build", "{model}", "--state", "a:b"], "no input 'a'"),
        (["run", "{model}", "--board", "cortex-m4"], "runs it on a flashed board"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    tinyc, model: Path, tmp_path: Path, args: list[str], said: str
) -> None:
    np.savez(tmp_path / "shape.npz", x=np.zeros((4, 3, 3), np.float32))
    ran = tinyc(
        *(arg.format(model=model, tmp=tmp_path) for arg in args), *(["-o", tmp_path / "o"] if "-" in args else [])
    )
    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_an_error_in_json_mode_is_one_object(tinyc, tmp_path: Path) -> None:
    ran = tinyc("build", tmp_path / "absent.onnx", "--json")
    assert ran.code == 2
    assert "absent.onnx" in json.dumps(ran.json["error"])


def test_a_failed_build_leaves_the_previous_folder(tinyc, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert tinyc("build", model, "--board", "host", "-o", out).code == 0
    before = (out / "tiny.c").read_bytes()
    bad = write_model(tmp_path / "bad.onnx", op="Bernoulli")
    assert tinyc("build", bad, "--board", "host", "-o", out).code == 2
    assert (out / "tiny.c").read_bytes() == before


def test_a_model_that_does_not_fit(tinyc, tmp_path: Path) -> None:
    """Too large for the flash of a small board: says by how many bytes and which layer, exit code 1."""
    big = write_model(tmp_path / "big.onnx", channels=3000)
    board = Path(__file__).resolve().parents[2] / "boards" / "cortex-m4.toml"
    small = tmp_path / "small.toml"
    text = board.read_text()
    assert "ram_bytes" in text
    small.write_text("\n".join("ram_bytes = 20480" if s.startswith("ram_bytes") else s for s in text.splitlines()))
    ran = tinyc("build", big, "--board", small, "-o", tmp_path / "out")
    assert ran.code == 1
    assert "too few" in ran.err
    assert "'pool' (GlobalAveragePool)" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_bug_is_no_traceback(tinyc, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyc.pipeline.integers.load_model", lambda *arguments: 1 / 0)
    ran = tinyc("build", model, "--board", "host")
    assert ran.code == 3
    assert "internal error" in ran.err
    assert "Traceback" not in ran.err


def test_ctrl_c(tinyc, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tinyc.pipeline.integers.load_model", interrupt)
    assert tinyc("build", model, "--board", "host").code == 130


@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted\n"), (signal.SIGTERM, "terminated\n")])
def test_the_code_of_a_signal(
    number: signal.Signals, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a library makes another exception of what the handler raises."""
    for kind in (KeyboardInterrupt, ValueError):
        monkeypatch.setattr(cli, "_signals", [number])

        def interrupted(kind: type[BaseException] = kind) -> int:
            raise kind

        assert cli._code_of(interrupted) == 128 + number
        assert capsys.readouterr().err == word


def test_version_and_help(tinyc) -> None:
    assert tinyc("--version").out.startswith("tinyc ")
    assert tinyc("build", "--help").code == 0


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tinyc", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tinyc ")


# --- profile ---


def _needs_emulator(tinyc) -> None:
    facts = {finding["name"]: finding["version"] for finding in tinyc("doctor", "--json").json["findings"]}
    if not (facts["arm-none-eabi-gcc"] or facts["zig"]) or not (facts["QEMU"] or facts.get("unicorn")):
        pytest.skip("no compiler or no emulator for Arm")


def test_profile_is_consistent(tinyc, model: Path, tmp_path: Path) -> None:
    _needs_emulator(tinyc)
    graph = tmp_path / "flame.json"
    ran = tinyc("profile", model, "--board", "cortex-m4", "--json", "--source", "--speedscope", graph, "--top", "5")
    assert ran.code == 0, ran.err
    profile = ran.json
    assert profile["core"] == "Cortex-M4"
    assert profile["inferences"] == 1
    total = profile["cost"]
    assert total["cycles"] > total["instructions"] > profile["macs"] > 0
    for key in ("instructions", "cycles"):
        assert sum(layer["cost"][key] for layer in profile["layers"]) == total[key]
        assert sum(function["cost"][key] for function in profile["functions"]) == total[key]
    assert profile["milliseconds"] == pytest.approx(1000 * total["cycles"] / profile["clock_hz"])
    assert 0 < len(profile["sources"]) <= 5
    assert 0 < len(profile["blocks"]) <= 5
    flame = json.loads(graph.read_text())
    (sampled,) = flame["profiles"]
    assert sampled["endValue"] == sum(sampled["weights"]) == total["cycles"]
    assert len(sampled["samples"]) == len(sampled["weights"])
    assert {index for stack in sampled["samples"] for index in stack} == set(range(len(flame["shared"]["frames"])))


def test_profile_text_and_the_report_agree(tinyc, model: Path, tmp_path: Path) -> None:
    _needs_emulator(tinyc)
    report = tinyc("build", model, "--board", "cortex-m4", "--samples", "1", "-o", tmp_path / "out", "--json").json
    assert report["cycle_model"].startswith("Cortex-M4, zero wait states")
    assert report["cycles"] >= sum(layer["cycles"] for layer in report["layers"])
    ran = tinyc("profile", model, "--board", "cortex-m4", "--source")
    assert ran.code == 0, ran.err
    assert f"{report['cycles']:,} modelled cycles" in ran.out
    assert "conv2d + relu" in ran.out
    assert "between layers" in ran.out


def test_profile_without_a_cycle_model(tinyc, model: Path) -> None:
    _needs_emulator(tinyc)
    ran = tinyc("profile", model, "--board", "esp32-c3")
    if ran.code == 2 and "emulator" in ran.err:
        pytest.skip("no emulator for esp32-c3")
    assert ran.code == 0, ran.err
    assert "there is no cycle model for esp32-c3" in ran.out


def test_profile_of_the_host_is_refused(tinyc, model: Path) -> None:
    ran = tinyc("profile", model, "--board", "host")
    assert ran.code == 2
    assert "counts no instructions" in ran.err


def test_profile_names_the_file_that_it_cannot_write(tinyc, model: Path, tmp_path: Path) -> None:
    _needs_emulator(tinyc)
    ran = tinyc("profile", model, "--speedscope", tmp_path / "absent" / "flame.json")
    assert ran.code == 2
    assert "flame.json" in ran.err


def test_profile_draws_a_flame_graph_and_estimates_slow_flash(tinyc, model: Path, tmp_path: Path) -> None:
    _needs_emulator(tinyc)
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install unicorn")
    picture = tmp_path / "flame.svg"
    ran = tinyc("profile", model, "--board", "nucleo-l4r5zi", "--flamegraph", picture, "--json")
    assert ran.code == 0, ran.err
    profile = ran.json
    assert profile["wait_states"] == 5
    assert profile["flash_waits"] == sum(layer["flash_waits"] for layer in profile["layers"]) > 0
    svg = ElementTree.parse(picture).getroot()
    tips = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    assert tips[0] == f"{profile['name']}_run: {profile['cost']['cycles']:,} modelled cycles, 100.0%"
    assert any("conv2d" in tip for tip in tips[1:])
    assert "wait states" not in tinyc("profile", model, "--board", "cortex-m4", "--json").out.replace("wait_states", "")
    text = tinyc("profile", model, "--board", "nucleo-l4r5zi").out
    assert f"{profile['cost']['cycles'] + profile['flash_waits']:,} with flash of 5 wait states" in text


# --- renode ---


def test_build_for_renode(tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _needs_emulator(tinyc)
    if shutil.which("renode-test") is not None:
        pytest.skip("renode-test is installed; this is about computers without it")
    out = tmp_path / "out"
    ran = tinyc("build", model, "--board", "cortex-m4", "--emulator", "renode", "-o", out)
    assert ran.code == 2
    assert "all equal" in ran.out
    assert "renode-test is not on PATH" in ran.err
    assert {path.name for path in (out / "renode").iterdir()} > {"board.repl", "run.resc", "test.robot"}
    assert (out / "report.json").is_file()


def test_no_renode_for_the_host(tinyc, model: Path, tmp_path: Path) -> None:
    ran = tinyc("build", model, "--board", "host", "--emulator", "renode", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "writes no Renode files for host" in ran.err
    assert not (tmp_path / "out").exists()


# --- boards ---


def test_boards_in_detail_show_the_hardware(tinyc) -> None:
    ran = tinyc("boards", "stm32f4-discovery", "esp32-c3", "-v")
    assert ran.code == 0
    for text in ("stm32f4 at 0x40004800, 115,200 baud", "stm32, pyocd", "5 wait states", "esptool"):
        assert text in ran.out


def test_boards_are_checked_by_building_and_running(tinyc, tmp_path: Path) -> None:
    _needs_emulator(tinyc)
    board = Path(__file__).resolve().parents[2] / "boards" / "nucleo-l4r5zi.toml"
    (tmp_path / "mine.toml").write_text(board.read_text().replace("nucleo-l4r5zi", "mine"))
    ran = tinyc("boards", tmp_path / "mine.toml", "host", "--check", "--json")
    assert ran.code == 0, ran.out
    assert [(c["board"], c["problem"]) for c in ran.json["checks"]] == [("mine", None), ("host", None)]
    assert ran.json["checks"][0]["instructions"] > 0


def test_a_board_that_does_not_work_is_named(tinyc, tmp_path: Path) -> None:
    """Flags of a core without DSP and FPU for a board that claims both: the compiler or the check says so."""
    _needs_emulator(tinyc)
    board = Path(__file__).resolve().parents[2] / "boards" / "nrf52840-dk.toml"
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(
        board.read_text().replace('core = "cortex-m4"', 'core = "cortex-m3"').replace(', "dsp", "fpu"', "")
    )
    ran = tinyc("boards", wrong, "--check")
    assert ran.code == 1
    assert "--  nrf52840-dk" in ran.out
    assert "has not" in ran.out


def test_boards_in_detail(tinyc) -> None:
    ran = tinyc("boards", "nucleo-l4r5zi", "--verbose")
    assert ran.code == 0
    assert "120 MHz" in ran.out
    assert "0x08000000, 2,097,152 bytes" in ran.out
    assert tinyc("boards", "nucleo").code == 2


def test_a_float_model_stays_float(tinyc, model, tmp_path):
    ran = tinyc("build", model, "--board", "host", "--precision", "float32", "-o", tmp_path / "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["numerics"] == "float32"
    assert ran.json["verify"]["against"] == "float32 reference"
    assert "const float *" in (tmp_path / "out" / f"{ran.json['name']}.h").read_text()


def test_precision_that_cannot_be(tinyc, model, tmp_path):
    asked = ("build", model, "--board", "host", "--precision", "float32", "-o", tmp_path / "out")
    ran = tinyc(*asked, "--weights", "int4")
    assert ran.code == 2
    assert "nothing is quantized" in ran.err
    quantized = tmp_path / "quantized.onnx"
    assert tinyc("quantize", model, "-o", quantized).code == 0
    ran = tinyc("build", quantized, *asked[2:])
    assert ran.code == 2
    assert "the model is quantized already" in ran.err
    assert not (tmp_path / "out").exists()


def test_single_layers_in_float32(tinyc, model, tmp_path):
    asked = ("build", model, "--board", "host", "--rounding", "nearest", "-o", tmp_path / "out", "--json")
    ran = tinyc(*asked, "--float-layers", "dense,so*")
    assert ran.code == 0, ran.err
    kernels = [layer["kernel"] for layer in ran.json["layers"]]
    float_kernels = ["tc_dequantize_s8_f32", "tc_fully_connected_f32", "tc_softmax_f32"]
    assert kernels[-3:] == float_kernels
    assert not any("f32" in kernel for kernel in kernels[:-3])
    assert "const float *" in (tmp_path / "out" / f"{ran.json['name']}.h").read_text()
    ran = tinyc(*asked, "--float-layers", "conv")
    assert ran.code == 0, ran.err
    assert [layer["op"] for layer in ran.json["layers"]][:3] == ["dequantize", "conv2d + relu", "quantize"]
    ran = tinyc(*asked, "--float-layers", "dens")
    assert ran.code == 2
    assert "no layer is called 'dens'" in ran.err
    assert "did you mean 'dense'?" in ran.err


def test_a_layer_that_no_integers_hold_falls_back_to_float32(tinyc, tmp_path):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 5000]) for name in "xy"]
    node = helper.make_node("Softmax", ["x"], ["y"], "wide")
    graph = helper.make_graph([node], "wide", ports[:1], ports[1:])
    path = tmp_path / "wide.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    asked = ("build", path, "--board", "host", "-o", tmp_path / "out", "--json")
    assert "at most 4095" in tinyc(*asked).err
    ran = tinyc(*asked, "--float-fallback")
    assert ran.code == 0, ran.err
    assert [layer["kernel"] for layer in ran.json["layers"]] == ["tc_dequantize_s8_f32", "tc_softmax_f32"]
