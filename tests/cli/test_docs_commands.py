# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/ and of the examples as a reader would type them, page by page, with small models and data
behind the names that the pages use. README's are typed by tests/flash/test_readme.py."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest
import typer

import tinyc
from tests.cli.docs_machines import BY_WORD
from tests.cli.page_files import BY_PAGE
from tests.load.onnx_forests import Trees
from tests.load.onnx_forests import model as forest_model
from tests.load.onnx_models import build, op
from tests.load.onnx_vectors import classifier
from tinyc import api
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_array
from tinyc.board import load_board
from tinyc.cli.app import load_command
from tinyc.cli.main import main
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "scripts"))

import docs_site  # noqa: E402  a script

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Words of a usage line -> what a reader would put there; of an option first, which have a sense of their own.
AFTER = {
    "--inputs": "test.npz",
    "--calibration": "calib.npz",
    "--evaluate": "test.npz",
    "--expect": "outputs.npz:int8_tflm",
    "--samples": "2",
    "--baud": "115200",
    "--task": "kws01",
}
PLACEHOLDERS = {
    "MODEL": "kws.onnx",
    "FILE": "kws.onnx",
    "BOARD": "cortex-m4",
    "C": "calib.npz",
    "DIR": "out",
    "FILE.svg": "picture.svg",
    "FILE.json": "profile.json",
    "FILE.png": "picture.png",
    "FILE.wav": "voice.wav",
    "FOLDER": "pictures",
    "WHAT": "build/kws",
    "P": "/dev/ttyUSB0",
    "B": "stm32f4-discovery",
    "M": "stm32",
    "N": "2",
}
# Pages whose commands compile, run, or time something.
SLOW = (
    "bench",
    "boards",
    "build",
    "ci",
    "classical",
    "examples/camera",
    "examples/kws",
    "examples/listen",
    "estimate",
    "extend",
    "flash",
    "float32",
    "frontend",
    "helium",
    "inspect",
    "integrate",
    "mlperf",
    "picture",
    "profile",
    "renode",
    "report",
    "start",
    "state",
    "sweep",
    "training",
    "update",
    "verify",
)


def typed(page: Path) -> Iterator[str]:
    """Lines that begin with `tinyc ` in blocks of a page, without comments."""
    text = page.read_text(encoding="utf-8")
    blocks = [block for language, block in FENCED.findall(text) if language in ("", "sh", "console")]
    for line in "\n".join([*blocks, *re.findall(r"^    .*$", FENCED.sub("", text), re.MULTILINE)]).splitlines():
        if line.strip().startswith("tinyc "):
            yield line.strip().split("  #")[0].strip()


def words(line: str) -> list[str]:
    """The arguments of a line: every optional part given, the first of alternatives, names for the placeholders."""
    plain = line.replace("[:KEY]", ":KEY").replace("...", "")
    plain = re.sub(r"[\[\]]", " ", plain)
    plain = re.sub(r"\s\|\s+\S+", "", plain)
    arguments: list[str] = []
    for word in shlex.split(plain)[1:]:
        first = word.split("|")[0].split(",")[0] if word.isupper() or "|" in word or "," in word else word
        is_shown = re.fullmatch(r"[A-Z][A-Z.:a-z]*|\S*FILE\S*", first) is not None
        if is_shown and arguments and arguments[-1] in AFTER:
            arguments.append(AFTER[arguments[-1]])
        else:
            arguments.append(PLACEHOLDERS.get(first, first))
    return arguments


def run(arguments: list[str], out: str = "") -> int:
    """The exit code of a command whose output goes to a file, or to nowhere in particular."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "argv", ["tinyc", *arguments]))
        stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO()))
        if out:
            stack.enter_context(mock.patch.object(sys, "stdout", stack.enter_context(Path(out).open("w"))))
        end = stack.enter_context(pytest.raises(SystemExit))
        main()
    code = end.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages talk of: models, calibration and test data, outputs of another runtime, a board file."""
    folder = tmp_path_factory.mktemp("docs")
    rng = np.random.default_rng(1)
    nodes = [
        op("Conv", "x w1", "c", pads=[1] * 4, strides=[2, 2]),
        op("Relu", "c", "r"),
        op("Flatten", "r", "flat"),
        op("Gemm", "flat w2", "g", transB=1),
        op("Softmax", "g", "y"),
    ]
    constants = {"w1": rng.standard_normal((4, 1, 3, 3)) / 3, "w2": rng.standard_normal((3, 4 * 16)) / 8}
    model = build(nodes, {"x": (1, 1, 8, 8)}, ["y"], {name: w.astype(np.float32) for name, w in constants.items()})
    for name in ("model", "kws"):
        onnx.save(model, folder / f"{name}.onnx")
    x = rng.standard_normal((40, 1, 8, 8)).astype(np.float32)
    np.savez(folder / "calib.npz", x=x)
    np.savez(folder / "test.npz", x=x[:6])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["quantize", "kws.onnx", "-c", "calib.npz", "-o", "kws.tflite"]) == 0
    for name in ("model", "kws_int8", "out"):
        shutil.copy(folder / "kws.tflite", folder / f"{name}.tflite")
    _forest(folder)
    _series(folder)
    _foreign_outputs(folder, x[:6])
    (folder / "sweep.toml").write_text('models = ["kws.onnx"]\nboards = ["host"]\nkind = "estimate"\n')
    board = (ROOT / "boards" / "cortex-m4.toml").read_text(encoding="utf-8")
    (folder / "my.toml").write_text(board, encoding="utf-8")
    return folder


def _forest(folder: Path) -> None:
    """Trees and support vectors, and features for them."""
    trees = Trees(np.random.default_rng(3), 4, range(3)).grow(5, 4, 0.25, lambda rng: rng.integers(0, 3) / 8)
    node = onnx.helper.make_node(
        *("TreeEnsembleClassifier", ["x"], ["label", "probabilities"]),
        **(trees.attributes("class") | {"domain": "ai.onnx.ml", "classlabels_int64s": [0, 1, 2]}),
    )
    outputs = [("label", onnx.TensorProto.INT64), ("probabilities", onnx.TensorProto.FLOAT)]
    onnx.save(forest_model([node], 4, outputs), folder / "forest.onnx")
    onnx.save(classifier(np.random.default_rng(3), "RBF", [2, 3, 2], features=4), folder / "svc.onnx")
    np.savez(folder / "features.npz", x=trees.samples(20).clip(-9, 9))


def _series(folder: Path) -> None:
    """A convolution over time."""
    nodes = [op("Conv", "x w", "c"), op("GlobalAveragePool", "c", "p"), op("Flatten", "p", "y")]
    w = np.random.default_rng(2).standard_normal((3, 2, 3)).astype(np.float32)
    onnx.save(build(nodes, {"x": (1, 2, 12)}, ["y"], {"w": w}), folder / "tcn.onnx")


def _foreign_outputs(folder: Path, x: np.ndarray) -> None:
    graph = normalize(load_model(folder / "kws_int8.tflite"))
    value = graph.values[graph.inputs[0]]
    assert value.quant is not None
    q = quantize_array(x.reshape(-1, *value.shape[1:]), *value.quant.per_tensor, -128, 127).astype(np.int8)
    np.savez(folder / "inputs.npz", **{value.name: q})
    y = run_int(graph, {value.name: q}, Numerics.TFLM)[graph.outputs[0]]
    np.savez(folder / "outputs.npz", int8_tflm=y)


_TYPED = [*sorted(DOCS.glob("*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
# Tutorials: test_tutorials.py, in their order and with what they made before.
PAGES = [page for page in _TYPED if list(typed(page)) and not page.name.startswith("tutorial-")]


def name_of(page: Path) -> str:
    return page.stem if page.parent == DOCS else f"examples/{page.parent.name}"


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=name_of(p), marks=[pytest.mark.slow] if name_of(p) in SLOW else []) for p in PAGES],
)
def test_the_commands_of_a_page_run(files: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    Path("tinyc.toml").unlink(missing_ok=True)  # of another page
    BY_PAGE.get(name_of(page).partition("/")[0], lambda: None)()
    for line in typed(page):
        command, _, out = line.partition(" > ")
        arguments = words(command)
        if arguments[0] == "flash" and not {"--port", "--ports"} & {*arguments}:
            continue  # by a program of the board's own, which is not here
        if "/dev/ttyACM0" in arguments:
            continue  # nor is that board
        if page.stem == "verify":
            arguments = [
                "kws_int8.tflite" if a == "kws.onnx" else "inputs.npz" if a == "test.npz" else a for a in arguments
            ]
        if "--compare" in arguments:
            at = arguments.index("--compare")
            old, new = arguments[at + 1 : at + 3]
            if not Path(old).exists():
                shutil.copy(new, old)
        machine = next((with_it for word, with_it in BY_WORD.items() if word in arguments), None)
        assert (machine(arguments, run) if machine else run(arguments, out)) == 0, arguments


@pytest.mark.parametrize("page", [pytest.param(p, id=name_of(p)) for p in PAGES])
def test_the_commands_of_a_page_are_parsed(files: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program's own parser, also those that are not run here."""
    monkeypatch.chdir(files)
    for line in typed(page):
        name, *arguments = words(line.partition(" > ")[0])
        with suppress(typer.Exit):  # --json-schema prints, and ends there
            load_command(name).make_context(name, arguments).close()


def snippets(page: str, language: str) -> list[str]:
    return [
        text
        for name_of_language, text in FENCED.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))
        if name_of_language == language
    ]


def _python_page(board: str) -> None:
    """Its snippets, one after the other, with arrays and a library of two inputs behind the names that they use."""
    rng = np.random.default_rng(2)
    nodes = [op("Add", "a b", "s"), op("Relu", "s", "y"), op("Sigmoid", "s", "z")]
    onnx.save(build(nodes, {"a": (1, 5), "b": (1, 5)}, ["y", "z"]), "two.onnx")
    names: dict[str, Any] = {
        "features": rng.standard_normal((1, 8, 8)).astype(np.float32),
        "int8_features": rng.integers(-128, 128, (1, 8, 8)).astype(np.int8),
        "x": rng.standard_normal((3, 1, 8, 8)).astype(np.float32),
        "module": onnx.load("kws.onnx"),  # PyTorch may not be there
        "samples": rng.standard_normal((40, 1, 8, 8)).astype(np.float32),
        "test_samples": rng.standard_normal((5, 1, 8, 8)).astype(np.float32),
        "a": rng.standard_normal(5).astype(np.float32),
        "b": rng.standard_normal(5).astype(np.float32),
    }
    with pytest.warns(tinyc.TinycWarning, match="no calibration data"):
        names["model"] = tinyc.build("two.onnx", "host").load()
    for text in snippets("python", "python"):
        exec(compile(text.replace("cortex-m4", board), "python.md", "exec"), names)
    assert names["built"].report.passed
    assert names["scores"].shape == (3,)
    assert names["codes"].dtype == np.int8
    assert names["y"].shape == names["z"].shape == (5,)


@pytest.mark.parametrize("board", ["host", pytest.param("cortex-m4", marks=pytest.mark.slow)])
def test_the_snippets_of_the_python_page_run(files: Path, monkeypatch: pytest.MonkeyPatch, board: str) -> None:
    monkeypatch.chdir(files)
    _python_page(board)


def test_the_functions_of_the_python_page_have_what_it_says() -> None:
    """Parameters of the functions in its table, and attributes of what they give."""
    text = (DOCS / "python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `tinyc\.(\w+)\((.*?)\)` \|(.*)\|$", text, re.MULTILINE)
    functions = ["build", "verify", "run", "bench", "estimate", "memory_map", "quantize", "inspect", "load"]
    assert [name for name, _, _ in rows] == functions
    for name, parameters, gives in rows:
        real = [each.name for each in docs_site.parameters(getattr(tinyc, name))]
        for parameter in parameters.split(", "):
            assert parameter in (*real, "*", "..."), f"{name}({parameter})"
        kind = getattr(api, re.search(r"`(\w+)`", gives)[1])  # type: ignore[index]
        for attribute in re.findall(r"`\.(\w+)", gives):
            assert hasattr(kind, attribute) or attribute in kind.__dataclass_fields__, f"{kind.__name__}.{attribute}"


C_NAMES = """#include <stdint.h>
#include "{name}.h"
static {name}_arena_t arena;
static int8_t frame[{upper}_INPUT_0_ROW_SIZE], line[{upper}_INPUT_0_ROW_SIZE];
void next_frame(int8_t *row);
void camera_line(int8_t *row);
int take(void);
int take(void)
{{
    {snippet}
    {end}
}}
"""


def _library(folder: Path, name: str, by_rows: bool) -> None:
    """The header and source of a model under that name, uncompiled; of kws.onnx where there is none."""
    own = Path(f"{name}.onnx")
    calibration = None if name == "forest" else Path("calib.npz")
    options = Options(board="cortex-m4", name=name, calibration=calibration, input_rows=by_rows)
    compiled = compile_model(own if own.exists() else Path("kws.onnx"), load_board("cortex-m4"), options, Progress())
    for file, text in compiled.files.items():
        (folder / file).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "number", "name"),
    [("library", 0, "kws"), ("library", 1, "kws"), ("memory", 0, "vww"), ("classical", 0, "forest")],
)
def test_the_snippets_in_c_compile(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, number: int, name: str
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    monkeypatch.chdir(files)
    snippet = snippets(page, "c")[number]
    whole = "#include" in snippet
    _library(tmp_path, name, by_rows=not whole)
    end = "return 0;" if page == "memory" else "(void)line; return y[0];"
    wrapped = C_NAMES.format(name=name, upper=name.upper(), snippet=snippet, end=end)
    declared = "int32_t" if page == "classical" else "int"
    text = f"#include <stdint.h>\n{declared} classify(const float *features);\n" + snippet if whole else wrapped
    (tmp_path / "snippet.c").write_text(text, encoding="utf-8")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-variable", "-fsyntax-only"]
    done = subprocess.run(["gcc", *flags, "snippet.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_machines_are_asked_for_somewhere() -> None:
    lines = [line for page in PAGES for line in typed(page)]
    assert all(any(word in line.split() for line in lines) for word in BY_WORD)
