# SPDX-License-Identifier: Apache-2.0
"""Bad input, strange names and interruptions: every answer says what, where and what to do; nothing is half-written."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.test_cli import Ran, model, tinyc, write_model  # noqa: F401  fixtures
from tests.forked import Forked
from tests.hostile_names import FILE_NAMES, NO_CONTROL
from tinyc.base.escape import visible
from tinyc.ir.graph import Array
from tinyc.toolchain import compilers

# ruff: noqa: F811  fixtures are arguments too


def save(path: Path, nodes: list[onnx.NodeProto], outputs: dict[str, list[int]], **consts: Array) -> Path:
    """A float model of the nodes, with the input x [1,3]."""

    def declared(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        "hostile",
        [declared("x", [1, 3])],
        [declared(name, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in consts.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def explained(ran: Ran, said: str) -> None:
    """The answer has the words, a hint, and neither a traceback nor a warning of a library."""
    assert ran.code in (1, 2), ran.err
    assert said in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
    assert ".py:" not in ran.err


# --- models ---


def test_a_model_that_computes_nothing_is_a_library_too(tinyc, tmp_path: Path) -> None:
    path = save(tmp_path / "same.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"y": [1, 3]})
    assert tinyc("build", path, "-b", "host", "-o", tmp_path / "out").code == 0


@pytest.mark.parametrize(
    ("op", "inputs", "consts", "said"),
    [
        (None, ["x"], {}, "the model has no nodes"),
        ("Det", ["x"], {}, "operator Det is not supported"),
        ("MatMul", ["x", "w"], {"w": np.full((3, 2), np.nan, np.float32)}, "contains NaN"),
        ("MatMul", ["x", "w"], {"w": np.zeros((5, 2), np.float32)}, "do not fit input [1, 3]"),
    ],
)
def test_models_that_cannot_be_compiled(
    tinyc, tmp_path: Path, op: str | None, inputs: list[str], consts: dict[str, Array], said: str
) -> None:
    nodes = [helper.make_node(op, inputs, ["y"], "layer")] if op else []
    path = save(tmp_path / "bad.onnx", nodes, {"y": [1, 2]}, **consts)
    explained(tinyc("build", path, "-b", "host", "-o", tmp_path / "out"), said)
    assert not (tmp_path / "out").exists()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", ["stdint", "tc", "tc_math", "my model (v2)", "модель", "while", "-dash", "a;b&c"])
def test_names_of_files(tinyc, tmp_path: Path, name: str) -> None:
    """Whatever the file is called, the library compiles and hides no header of the compiler."""
    path = save(tmp_path / f"{name}.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"y": [1, 3]})
    ran = tinyc("build", path, "-b", "host", "-o", tmp_path / "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["name"] not in ("stdint", "tc")


def test_names_of_layers_are_text(tinyc, tmp_path: Path) -> None:
    """Brackets are no markup, colons no emoji, and a comment in C stays one."""
    rude = "[/bold]:cat: */ #error ../x\\"
    nodes = [helper.make_node("Relu", ["x"], [rude], rude), helper.make_node("Sigmoid", [rude], ["for"], "int")]
    path = save(tmp_path / "m[red].onnx", nodes, {rude: [1, 3], "for": [1, 3]})
    ran = tinyc("inspect", path)
    assert ran.code == 0, ran.err
    assert rude in ran.out
    for command in (["build", "-o", tmp_path / "out[/b]"], ["estimate", "--map"]):
        ran = tinyc(command[0], path, "-b", "host", *command[1:])
        assert ran.code == 0, ran.err
    assert (tmp_path / "out[/b]" / "m_red.c").is_file()


# --- data ---


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros((4, 3, 3), np.float32)}, "expected [samples, 2, 6, 5]"),
        ({"x": np.zeros((0, 2, 6, 5), np.float32)}, "expected [samples, 2, 6, 5]"),
        ({"x": np.full((4, 2, 6, 5), np.nan, np.float32)}, "no finite 32-bit floats"),
        ({"x": np.full((4, 2, 6, 5), 1e300)}, "no finite 32-bit floats"),
        ({"x": np.array(["a", "b"])}, "expected numbers"),
        ({"x": np.zeros((4, 2, 6, 5), np.float32), "y": np.arange(5)}, "5 labels 'y' for 4 samples"),
        ({"a": np.zeros(3), "b": np.zeros(3)}, "the file has a, b"),
        ({}, "the file has none"),
        *(
            (
                {"x": np.zeros((4, 2, 6, 5), np.int8), "scale": np.array(scale), "zero_point": np.array(zero)},
                "no positive",
            )
            for scale, zero in (
                ("abc", 0),
                (0.1, np.nan),
                (0.1, np.inf),
                (np.nan, 0),
                (0.0, 0),
                (-1, 0),
                (0.1, 0.5),
                (1j, 0),
            )
        ),
        ({"x": np.array([{"a": 1}], object)}, "array 'x' holds Python objects"),
    ],
)
@pytest.mark.parametrize("option", ["--calibration", "--inputs"])
def test_bad_data(tinyc, model: Path, tmp_path: Path, option: str, arrays: dict[str, Array], said: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    explained(tinyc("build", model, "-b", "host", option, tmp_path / "bad.npz", "-o", tmp_path / "out"), said)


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        (np.array(3), 0),
        (np.array(["a"] * 16), 0),
        (np.full(16, -(2**63)), 0),
        (np.full((16, 3), np.nan), 2),
        (np.full((16, 3), 1e300), 2),
    ],
)
def test_labels_that_mean_nothing(tinyc, model: Path, tmp_path: Path, labels: Array, code: int) -> None:
    """No figure of them, or an error that names them."""
    np.savez(tmp_path / "test.npz", x=np.load(tmp_path / "tiny.calib.npz")["x"], y=labels)
    ran = tinyc("quantize", model, "-e", tmp_path / "test.npz", "--rounding", "nearest")
    assert ran.code == code, ran.err
    assert ("y" in ran.err and "no finite" in ran.err) == bool(code)


REPORT = '{"schema": 1, "models": [{"model": "m", "boards": [{"board": "b", "mismatches": %s}]}]}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[" * 100_000, "[]", "{}", '{"schema": 1, "models": {}}', '{"schema": 1, "models": [1]}'),
        *('{"schema": 1, "models": [{"boards": 3}]}', REPORT % "[]", REPORT % "NaN", REPORT % "1e999", REPORT % '"x"'),
    ],
)
def test_reports_that_are_none(tinyc, tmp_path: Path, text: str) -> None:
    (tmp_path / "good.json").write_text(REPORT % 0)
    (tmp_path / "bad.json").write_text(text)
    assert tinyc("bench", "--compare", tmp_path / "good.json", tmp_path / "good.json").code == 0
    ran = tinyc("bench", "--compare", tmp_path / "good.json", tmp_path / "bad.json")
    explained(ran, "report" if ran.err.count("report") else "no JSON")
    assert "bad.json" in ran.err


def test_pictures_that_are_none(tinyc, tmp_path: Path) -> None:
    """Neither a damaged one nor one that says that it is enormous."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install pillow")
    path = write_model(tmp_path / "m.onnx")
    (tmp_path / "pictures").mkdir()
    picture = tmp_path / "pictures" / "a.png"
    image.new("RGB", (6, 5)).save(picture)
    whole = picture.read_bytes()
    bomb = bytearray(whole)
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    bomb[29:33] = zlib.crc32(bomb[12:29]).to_bytes(4, "big")
    for content in (whole[:50], bytes(bomb), b"", whole[:40] + bytes(100)):
        picture.write_bytes(content)
        ran = tinyc("estimate", path, "-b", "host", "-c", tmp_path / "pictures")
        assert ran.code == 2, ran.err
        assert "internal" not in ran.err


def test_a_quantized_model_does_not_replace_the_float_one(tinyc, model: Path) -> None:
    before = model.read_bytes()
    explained(tinyc("quantize", model, "-o", model), "would replace the float one")
    assert model.read_bytes() == before


@pytest.mark.parametrize(("words", "code"), [("1K", 0), ("1KiB", 0), ("1_024", 0), ("1k", 2), ("-1", 2), ("K", 2)])
def test_budgets(tinyc, model: Path, words: str, code: int) -> None:
    ran = tinyc("estimate", model, "-b", "host", f"--ram={words}", "--json")
    assert ran.code == code
    if code:
        assert "give bytes, like 65536, 64K or 1M" in ran.err
    else:
        assert ran.json["estimates"][0]["arena_bytes"] <= 1024


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "-1", "x", ""])
@pytest.mark.parametrize(
    "words",
    [
        *("estimate --ram=@", "estimate --flash=@", "estimate --incremental=@", "estimate --incremental=1 --hop=@"),
        *("estimate --picture-std=@", "estimate --max-loss=@ --weights=auto", "estimate --width=@"),
        "build --samples=@",
        *("build --sequence=@", "profile --top=@", "bench --seconds=@", "bench --threads=@"),
        *("flash --monitor --port=x --seconds=@", "flash --monitor --port=x --baud=@", "run --port=x --baud=@"),
    ],
)
def test_numbers_that_are_none(tinyc, model: Path, words: str, value: str) -> None:
    """Every option refuses them before anything is computed."""
    command, *options = words.replace("@", value).split(" ")
    paths = [] if command == "flash" else [model, "-b", "host"]
    ran = tinyc(command, *paths, *options)
    assert ran.code == 2, ran.out
    assert "internal" not in ran.err
    assert ran.err


@pytest.mark.parametrize("value", ["nan", "inf", "1e300,0,0", "0", "-1", "1e-320", "1,2", "1,2,3,4", "a"])
def test_numbers_of_pictures(tinyc, model: Path, value: str) -> None:
    for option in ("--picture-mean", "--picture-std"):
        ran = tinyc("estimate", model, "-b", "host", f"{option}={value}")
        assert ran.code == (0 if option == "--picture-mean" and value in ("0", "-1", "1e-320") else 2)


@pytest.mark.parametrize(
    "name", ["folder", "empty", "pipe", "huge", "/dev/zero", "/dev/null", "circle", "x" * 300, "\udcff"]
)
def test_paths_that_are_no_files(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As model, board, inputs, output and all else that is a file: an error, at once."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty").touch()
    os.mkfifo("pipe")
    with Path("huge").open("wb") as file:
        file.truncate(1 << 40)
    Path("circle").symlink_to("circle")
    for words in (
        ["package", name, "--as", "blob"],
        ["flash", name, "-b", "arduino-nano-33-ble", "--port", "none"],
        ["flash", name, "-b", "esp32-c3", "--port", "none"],
        ["sweep", name],
        ["report", name],
        ["package", name, "--as", "zephyr"],
        ["package", name, name, "-o", "out"],
        ["verify", model, "-b", "host", "--built", name],
        ["verify", model, "-b", "cortex-m4", "--elf", name],
        ["build", model, "-b", "host", "--frontend", f"{name}.toml", "-o", "out"],
        ["inspect", name],
        ["estimate", model, "-b", f"{name}.toml"],
        ["estimate", model, "-b", name],
        ["estimate", model, "-b", "host", "-c", name],
        ["build", model, "-b", "host", "--inputs", name, "-o", "out"],
        ["bench", "--compare", name, name],
        *([["build", model, "-b", "host", "-o", name]] if name not in ("folder", "\udcff") else []),
    ):
        ran = tinyc(*words)
        assert ran.code == (1 if words[0] == "flash" and name == "empty" else 2), (words, ran.out, ran.err)
        assert "internal" not in ran.err
        assert printable(ran.err)


def test_a_picture_is_written_as_a_whole(tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves the old one; a link stays a link, and a device is written to."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")
    picture, link = tmp_path / "pictures" / "map.svg", tmp_path / "pictures" / "link.svg"
    picture.parent.mkdir()
    picture.write_bytes(b"old")
    link.symlink_to(picture)
    words = ("estimate", model, "-b", "host", "--plot")
    with monkeypatch.context() as patched:
        spoiled_writes(patched, 0)
        explained(tinyc(*words, picture), "No space left on device")
    assert picture.read_bytes() == b"old"
    assert tinyc(*words, link).code == 0
    assert link.is_symlink()
    assert b"<svg" in picture.read_bytes()
    assert sorted(os.listdir(picture.parent)) == ["link.svg", "map.svg"]
    (tmp_path / "pictures" / "null.svg").symlink_to("/dev/null")
    assert tinyc(*words, tmp_path / "pictures" / "null.svg").code == 0


def test_one_object_of_json_whatever_is_wrong(tinyc, model: Path, tmp_path: Path) -> None:
    """A wrong option, a wish that nothing fulfils, a picture that cannot be written."""
    board = ("estimate", model, "-b", "host", "--json")
    for words, code in (
        (("estimate", "--json"), 2),
        ((*board, "--nosuch"), 2),
        ((*board, "--prefer", "tme"), 2),
        ((*board, "--pick", "ram<1"), 1),
        ((*board, "--plot", tmp_path / "none" / "\0.svg"), 2),
        (("package", tmp_path, "--as", "cmake,blob", "--json"), 2),
    ):
        ran = tinyc(*words)
        assert ran.code == code, (words, ran.err)
        assert ran.json
        assert ran.err


@pytest.mark.parametrize(
    "words",
    [
        *("estimate @ --front --map", "estimate @ --front --layers", "estimate @ --width 40", "flash --ports ."),
        *("flash --ports --monitor", "flash . --frames", "flash . --seconds 3", "inspect @ 0", "verify @ --object @"),
    ],
)
def test_what_contradicts_itself(tinyc, model: Path, words: str) -> None:
    """It is refused, and nothing of it silently left out."""
    command, *others = words.replace("@", str(model)).split()
    ran = tinyc(command, *others, *(["-b", "host"] if command in ("estimate", "verify") else []))
    assert ran.code == 2, ran.out
    assert "hint: " in ran.err
    assert not ran.out


def test_an_option_of_several_values_may_be_repeated(tinyc, model: Path) -> None:
    words = ("estimate", model, "-b", "host", "--json")
    both = tinyc(*words, "--prefer", "time", "--prefer", "ram").json
    assert both == tinyc(*words, "--prefer", "time,ram").json
    assert {point["prefer"] for point in both["points"]} == {"time", "ram"}


def test_an_estimate_keeps_the_limit_of_ram(tinyc, model: Path) -> None:
    ran = tinyc("estimate", model, "-b", "cortex-m4", "--ram", "1")
    assert ran.code == 1, ran.out
    assert "--ram is 1" in ran.out


def test_a_library_of_another_model_is_not_verified(tinyc, model: Path, tmp_path: Path) -> None:
    assert tinyc("build", model, "-b", "host", "-o", tmp_path / "out").code == 0
    other = write_model(tmp_path / "other.onnx")
    explained(tinyc("verify", other, "-b", "host", "--built", tmp_path / "out"), "the library there is called tiny")


# --- boards and tools ---


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"dsp"', '"dps"', "'isa' has 'dps'"),
        ("flash_bytes = 1_048_576", 'flash_bytes = "1M"', "must be a whole number"),
        ("clock_hz", "clok_hz", "did you mean"),
        ('name = "cortex-m4"', "name = ", "not valid TOML"),
    ],
)
def test_broken_board_files(tinyc, model: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (Path(__file__).resolve().parents[2] / "boards" / "cortex-m4.toml").read_text()
    assert old in text
    (tmp_path / "board.toml").write_text(text.replace(old, new, 1))
    explained(tinyc("build", model, "-b", tmp_path / "board.toml", "-o", tmp_path / "out"), said)


def test_missing_tools_are_named_before_anything_is_computed(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilers, "_locate", lambda name: None)
    monkeypatch.setattr(compilers, "_program", lambda name: None)
    monkeypatch.setattr("tinyc.pipeline.integers.load_model", lambda path: pytest.fail("the model was read"))
    for command in ("build", "verify", "profile"):
        explained(tinyc(command, model, "-b", "cortex-m4"), "no compiler for cortex-m4 is installed")


# --- the output folder ---


@pytest.mark.parametrize("report", [None, "{}", '{"tinyc": "0.1.0"}', "[1]", '{"tinyc": "0.1.0", "name": "tiny"}'])
def test_what_others_wrote_is_never_deleted(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str | None
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    if report is not None:
        (out / "report.json").write_text(report)
    monkeypatch.setattr("tinyc.pipeline.integers.load_model", lambda path: pytest.fail("too late to complain"))
    explained(tinyc("build", model, "-b", "host", "-o", out), "what tinyc did not write: ")
    assert (out / "thesis.tex").read_text() == "years of work"


def test_a_library_of_another_model_is_replaced(tinyc, tmp_path: Path) -> None:
    """As long as tinyc wrote all of the folder; a file beside it is named."""
    out = tmp_path / "out"
    for name in ("one", "two"):
        path = write_model(tmp_path / f"{name}.onnx")
        assert tinyc("build", path, "-b", "host", "-o", out).code == 0
        assert json.loads((out / "report.json").read_text())["name"] == name
    assert not (out / "one.c").exists()
    (out / "two.o").write_bytes(b"")
    explained(tinyc("build", path, "-b", "host", "-o", out), "did not write: two.o")


# A build that gets a signal while the library's folder is being filled.
INTERRUPTED = """
import os, sys, time, tinyc.pipeline.building as building
number = int(sys.argv.pop())
def wait(*_):
    print(os.listdir("."), flush=True)
    os.kill(os.getpid(), number)
    time.sleep(600)
building.prove_in = wait
from tinyc.cli.main import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(
    forked: Forked, model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    where = tmp_path / "place"
    where.mkdir()
    beside = model.with_name("tiny.calib.npz")
    np.savez(beside, x=np.repeat(np.load(beside)["x"], 2, axis=0))  # so many samples that nothing is warned of
    words = ("tinyc", "build", str(model), "-b", "host", "-o", "out", str(int(number)))
    ran = forked.python(INTERRUPTED, words, where)
    assert ".out.tinyc-new-" in ran.stdout
    assert ran.returncode == 128 + number
    assert ran.stderr in ("interrupted\n", "terminated\n")
    assert not os.listdir(where)


# A program that gets a signal at a certain one of the events that Python tells of (imports, files, processes, ...).
SIGNALLED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what runs in the background
kinds, number, place = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
count = 0
def audit(event, arguments):
    global count
    if kinds == [""] or event in kinds:
        count += 1
        if count == place:
            os.kill(os.getpid(), number)
        if place == 0 and event == "import" and arguments[0] == "tinyc.end":
            os.write(1, str(count).encode())
from tinyc.cli.main import main
sys.addaudithook(audit)
sys.argv = ["tinyc", *sys.argv[4:]]
try:
    main()
finally:
    if place == 0:
        try: import tinyc.end
        except ImportError: pass
"""


def signalled(
    where: Path, kinds: str, number: int, place: int, *words: object, forked: Forked | None = None
) -> subprocess.CompletedProcess[str]:
    """Started, to see what it imports, or forked."""
    arguments = ["-c", kinds, str(int(number)), str(place), *map(str, words)]
    if forked:
        return forked.python(SIGNALLED, arguments, where)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", SIGNALLED, *arguments[1:]]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)


def processes_in(folder: Path) -> list[str]:
    """Programs that still run and have to do with the folder."""
    running = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = line.read_bytes().decode(errors="replace")
            if str(folder) in text and line.parent.name != str(os.getpid()):
                running.append(text)
    return running


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many a command takes."""
    return int(signalled(tmp_path_factory.mktemp("imports"), "import", 0, 0, "build", "--help").stdout.split()[-1])


SHARES = [pytest.param(i / 40, marks=pytest.mark.slow) for i in range(40)]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, *SHARES])
def test_signals_while_modules_are_imported(tmp_path: Path, imports: int, share: float, number: int) -> None:
    """The first second of every command; what is not there yet needs no cleaning up."""
    count = imports
    assert count > 100
    ran = signalled(tmp_path, "import", number, 1 + int(share * (count - 10)), "build", "--help")
    assert ran.returncode == 128 + number, ran.stderr
    assert ran.stderr == ("interrupted\n" if number == signal.SIGINT else "terminated\n")


@pytest.mark.parametrize("share", [0.8, *SHARES])
def test_signals_during_a_build(forked: Forked, model: Path, tmp_path: Path, share: float) -> None:
    """At any event of a build: no traceback, no folder, no file beside it, no program that goes on."""
    place = tmp_path / "place"
    place.mkdir()
    words = ("build", model, "-b", "host", "-o", place / "out")
    said = signalled(place, "", signal.SIGINT, 0, *words, forked=forked).stdout.split()
    assert (place / "out" / "report.json").is_file()
    shutil.rmtree(place / "out")
    ran = signalled(place, "", signal.SIGINT, 1 + int(share * int(said[-1])), *words, forked=forked)
    if ran.returncode == 0:  # the signal came when all was done
        assert os.listdir(place) == ["out"]
    else:
        assert ran.returncode == 130, ran.stderr
        assert ran.stderr.splitlines()[-1] == "interrupted"
        assert "Traceback" not in ran.stderr
        assert "internal error" not in ran.stderr
        assert os.listdir(place) in ([], ["out"])
        assert not os.listdir(place) or (place / "out" / "report.json").is_file()
    assert not processes_in(place)


@pytest.mark.parametrize(
    "words",
    [
        ["boards", "--json"],
        ["--version"],  # so little that it is written when the command has ended
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (["boards"], ["estimate", "MODEL", "-b", "host"], ["nix"])
        ),
    ],
)
def test_an_output_that_nobody_reads(model: Path, tmp_path: Path, words: list[str]) -> None:
    """A reader that is gone, a stream that is closed, a disk that is full."""
    beside = model.with_name("tiny.calib.npz")
    np.savez(beside, x=np.repeat(np.load(beside)["x"], 2, axis=0))  # so many samples that nothing is warned of
    program = [sys.executable, "-m", "tinyc.cli.main", *(str(model) if word == "MODEL" else word for word in words)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    code = 2 if words == ["nix"] else 0
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(program, env=environment, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert gone.returncode == code
    assert bool(gone.stderr) == bool(code)
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&- 2>&-', "sh", *program], env=environment, cwd=tmp_path, capture_output=True, check=False
    )
    assert (closed.returncode, closed.stdout, closed.stderr) == (code, b"", b"")
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(program, env=environment, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 2
    assert b"internal" not in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert code or b"No space left on device" in ran.stderr


def spoiled_writes(monkeypatch: pytest.MonkeyPatch, number: int) -> list[str]:
    """The disk is full from write `number` of this process on; the files of the writes before, as they come."""
    written: list[str] = []

    def spoil(write):
        def writes(path: Path, data: object, *arguments: object, **words: object) -> int:
            if len(written) >= number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            written.append(path.name)
            return write(path, data, *arguments, **words)

        return writes

    for name in ("write_text", "write_bytes"):
        monkeypatch.setattr(Path, name, spoil(getattr(Path, name)))
    return written


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0, *(pytest.param(i / 20, marks=pytest.mark.slow) for i in range(20))])
def test_a_full_disk_during_a_build(
    tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """The old folder stays as it is, and nothing beside it."""
    out = tmp_path / "place" / "out"
    words = ("build", model, "-b", "host", "-o", out)
    with monkeypatch.context() as patched:
        written = spoiled_writes(patched, 1_000_000)
        assert tinyc(*words).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with monkeypatch.context() as patched:
        spoiled_writes(patched, min(int(share * len(written)), len(written) - 1))
        explained(tinyc(*words, "--name", "other"), "No space left on device")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert os.listdir(out.parent) == ["out"]


def test_a_killed_compiler(tinyc, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel does when memory runs out: an error that says so, and no folder."""
    gcc = tmp_path / "bin" / "gcc"
    gcc.parent.mkdir()
    gcc.write_text('#!/bin/sh\n[ "$1" = -dumpfullversion ] && echo 12.2.0 && exit 0\nkill -9 $$\n')
    gcc.chmod(0o755)
    monkeypatch.setenv("PATH", str(gcc.parent), prepend=os.pathsep)
    compilers._locate.cache_clear()
    ran = tinyc("build", model, "-b", "host", "--toolchain", "gcc", "-o", tmp_path / "place" / "out")
    compilers._locate.cache_clear()
    explained(ran, "gcc was killed by signal 9")
    assert not os.listdir(tmp_path / "place")


# --- names in everything that is written and printed ---


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of layers; layers, tensors, input, outputs and constants have hostile names."""
    names = NO_CONTROL[::3]  # every kind of name; tests/unit/test_hostile_names.py has them all
    x, y, w = names[0], names[1], names[2]
    tensors = [x, *names[3:], y]
    nodes = [helper.make_node("MatMul", [a, w], [b], a) for a, b in itertools.pairwise(tensors)]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in (x, y)]
    weights = numpy_helper.from_array(np.eye(3, dtype=np.float32), w)
    graph = helper.make_graph(nodes, names[4], [info[0]], [info[1]], [weights], doc_string=names[5])
    opset = [helper.make_opsetid("", 17)]
    chain = helper.make_model(graph, opset_imports=opset, ir_version=8, producer_name=names[6], doc_string=names[7])
    path = tmp_path_factory.mktemp("names") / "names.onnx"
    onnx.save(chain, path)
    return path


def printable(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def test_hostile_names_through_a_build(tinyc, named: Path, tmp_path: Path) -> None:
    """The library is proved, its C plain, and what is printed obeys no name."""
    ran = tinyc("build", named, "-b", "host", "-o", tmp_path / "out", "-v")
    assert ran.code == 0, ran.err
    assert printable(ran.out)
    assert printable(ran.err)
    for file in (tmp_path / "out").rglob("*.[ch]"):
        assert file.read_text(encoding="utf-8").isascii(), file
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["verify"]["mismatches"] == 0
    assert tinyc("build", named, "-b", "host", "-o", tmp_path / "out", "--json").json == report | {
        "folder": str(tmp_path / "out")
    }


def test_hostile_names_on_the_terminal(tinyc, named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No escape sequence comes from a name: those of colors are all that there are."""
    monkeypatch.delenv("NO_COLOR")
    for words in (["inspect", named], ["estimate", named, "-b", "host", "--map"]):
        ran = tinyc(*words, "--color", "always")
        assert ran.code == 0, ran.err
        assert printable(re.sub(r"\x1b\[[0-9;]*m", "", ran.out))
        assert "\u202e" not in ran.out
        assert tinyc(*words, "--json").json


def test_hostile_names_in_pictures(tinyc, named: Path, tmp_path: Path) -> None:
    """SVG of the arena and of the time, as XML with the elements of one with harmless names."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install matplotlib")
    plain = onnx.load(named)
    harmless = {name: f"n{i}" for i, name in enumerate(NO_CONTROL)}
    for node in plain.graph.node:
        node.name = harmless[node.name]
        node.input[:] = [harmless[name] for name in node.input]
        node.output[:] = [harmless[name] for name in node.output]
    for item in (*plain.graph.input, *plain.graph.output, *plain.graph.initializer):
        item.name = harmless[item.name]
    onnx.save(plain, tmp_path / "names.onnx")
    trees_by_names = []
    for path in (named, tmp_path / "names.onnx"):
        ran = tinyc("estimate", path, "-b", "host", "--plot", tmp_path / "map.svg")
        assert ran.code == 0, ran.err
        pictures = ("--flamegraph", tmp_path / "time.svg", "--speedscope", tmp_path / "s")
        ran = tinyc("profile", path, "-b", "cortex-m4", *pictures)
        if "installed" in ran.err:
            pytest.skip("no compiler or no emulator for Arm")
        assert ran.code == 0, ran.err
        json.loads((tmp_path / "s").read_text())
        trees = [ElementTree.parse(tmp_path / f"{name}.svg") for name in ("map", "time")]
        trees_by_names.append([[element.tag for element in tree.iter()] for tree in trees])
    assert trees_by_names[0] == trees_by_names[1]


@pytest.mark.parametrize("name", ["\n#define x", "a\rb", "\x1b[31m", "\0", "\u2028", "\x85", "\x7f"])
@pytest.mark.parametrize("place", ["node", "tensor", "input", "constant"])
def test_names_with_control_characters_are_refused(tinyc, tmp_path: Path, name: str, place: str) -> None:
    x, c, w, node = (name if place == which else which for which in ("input", "tensor", "constant", "node"))
    nodes = [helper.make_node("MatMul", [x, w], [c], node), helper.make_node("Relu", [c], ["y"])]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in (x, "y")]
    graph = helper.make_graph(
        nodes, "g", [info[0]], [info[1]], [numpy_helper.from_array(np.eye(3, dtype=np.float32), w)]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    ran = tinyc("inspect", tmp_path / "m.onnx")
    explained(ran, f"a name in the model has control characters: '{visible(name)}'")
    assert printable(ran.err)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    "name",
    [
        *(
            "-Wl,--version",
            "@file",
            "a,b",
            "$(touch x)",
            "`touch x`",
            "a'b",
            'a"b',
            "a;b",
            "new\nline",
            "\x1b[31m",
            "\\",
        ),
        *(pytest.param(name, marks=pytest.mark.slow) for name in FILE_NAMES),
    ],
)
def test_hostile_names_of_files_and_folders(tinyc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Neither compiler nor emulator nor terminal takes a path for anything else."""
    monkeypatch.chdir(tmp_path)
    path = save(Path(f"{name}.onnx"), [helper.make_node("Relu", ["x"], ["y"])], {"y": [1, 3]})
    ran = tinyc("build", "-b", "host", "-o", Path(name) / "out", "--", path)
    assert ran.code == 0, ran.err
    assert printable(ran.out)
    assert printable(ran.err)
    assert sorted(os.listdir()) == sorted([f"{name}.onnx", name])
    assert json.loads((Path(name) / "out" / "report.json").read_text())["model"] == f"{name}.onnx"
