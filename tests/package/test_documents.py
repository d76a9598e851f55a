# SPDX-License-Identifier: Apache-2.0
"""Documents in the formats of other tools, read by other people's readers and held to published schemas."""

from __future__ import annotations

import json
import subprocess
import xml.dom.minidom
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import model, tinyc, write_model  # noqa: F401  (fixtures)
from tests.hostile_names import HOSTILE
from tests.package.tools import needed, ran, tools_folder
from tests.unit.reports import small_report
from tinyc.base.errors import Loc, TinycError
from tinyc.explain.cycles import FunctionCost, InferenceCost, LayerCost, Profile, speedscope
from tinyc.explain.documents import (
    Case,
    chrome_trace,
    github,
    import_cases,
    junit,
    node_data,
    sarif,
    verdict_case,
)
from tinyc.explain.inspection import ImportProblem, Inspection
from tinyc.run import OVERHEAD
from tinyc.verify.report import Verify

ROOT = Path(__file__).resolve().parents[2]
MOST = "".join(name for name in HOSTILE if len(name) < 100)


def profile(clock_hz: int = 100_000_000, name: str = "conv") -> Profile:
    """Two layers and the run function: 1,000 cycles in 600 instructions."""
    own = FunctionCost(name, InferenceCost(300, 500))
    helper = FunctionCost("helper", InferenceCost(100, 200), (name,))
    between, soft = InferenceCost(50, 100), InferenceCost(150, 200)
    layers = (
        LayerCost(0, name, "conv2d", "tc_conv2d_s8", 4096, InferenceCost(400, 700), (own, helper)),
        LayerCost(OVERHEAD, "between layers", "", "", 0, between, (FunctionCost("run", between),)),
        LayerCost(1, "soft", "softmax", "tc_softmax_s8", 0, soft, (FunctionCost("soft", soft),)),
    )
    return Profile(
        "kws", "kws.onnx", "cortex-m4", "QEMU", "gcc", "Cortex-M4", "small", clock_hz, 1, 4096,
        InferenceCost(600, 1000), layers, tuple(each for layer in layers for each in layer.functions),
    )  # fmt: skip


def check_trace(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """By the rules of the Trace Event Format: names, phases, times, and spans of a thread that nest, in the numbers
    that a reader computes. The spans."""
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert all(event["ph"] in "XM" and isinstance(event["name"], str) for event in trace["traceEvents"])
    assert all(isinstance(event[key], int) for event in trace["traceEvents"] for key in ("pid", "tid"))
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in spans)
    open_until: list[float] = []
    for event in sorted(spans, key=lambda each: (each["ts"], -each["dur"])):
        while open_until and open_until[-1] <= event["ts"]:
            open_until.pop()
        assert not open_until or event["ts"] + event["dur"] <= open_until[-1]
        open_until.append(event["ts"] + event["dur"])
    assert trace["displayTimeUnit"] in ("ms", "ns")
    return spans


def test_a_trace_has_every_layer_and_function_in_the_board_s_time() -> None:
    spans = check_trace(chrome_trace(profile()))
    layers = [event for event in spans if event["cat"] == "layer"]
    assert [event["name"] for event in layers] == ["conv2d conv", "softmax soft", "between layers"]
    assert sum(event["dur"] for event in layers) == pytest.approx(10.0)  # 1,000 cycles at 100 MHz
    assert layers[1]["ts"] == pytest.approx(7.0)
    assert [event["name"] for event in spans if event["cat"] == "function"] == ["conv", "helper", "soft", "run"]
    assert layers[0]["args"] == {"step": 0, "kernel": "tc_conv2d_s8", "macs": 4096, "instructions": 400, "cycles": 700}
    without_clock = chrome_trace(profile(clock_hz=0))
    assert without_clock["otherData"]["unit"] == "cycles"
    assert sum(event["dur"] for event in check_trace(without_clock) if event["cat"] == "layer") == 1000
    json.loads(json.dumps(chrome_trace(profile(name=MOST)), allow_nan=False))


def test_speedscope_s_own_schema_takes_a_profile() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    file = tools_folder() / "node_modules" / "speedscope" / "dist" / "release" / "file-format-schema.json"
    if not file.exists():
        pytest.skip("speedscope is not installed (npm): make test-tools")
    schema = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.validate(speedscope(profile()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**speedscope(profile()), "profiles": [{}]}, schema)


def by_tools(code: str, document: str) -> str:
    """What a program of the tools' own Python prints of a document on its standard input."""
    python = tools_folder() / "bin" / "python"
    if not python.exists():
        pytest.skip("the tools' environment is not installed: make test-tools")
    done = subprocess.run([python, "-c", code], input=document, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"not installed: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


EQUAL = Verify(20, 1280, 0, "integer reference")
DIFFERENT = Verify(20, 1280, 3, "integer reference", "step 0 'conv1'")
FAILED = TinycError("there is no file", Loc("kws.onnx"), "give one")


@pytest.mark.parametrize(
    ("verify", "error", "result"),
    [(EQUAL, None, "passed"), (DIFFERENT, None, "Failure"), (None, FAILED, "Error")],
    ids=["equal", "different", "error"],
)
def test_junit_is_read_by_another_reader(verify: Verify | None, error: TinycError | None, result: str) -> None:
    code = (
        "import sys, junitparser as j\n"
        "x = j.JUnitXml.fromstring(sys.stdin.read().encode())\n"
        "s, = x; c, = s\n"
        "print(s.tests, s.failures, s.errors, [type(r).__name__ for r in c.result] or 'passed', c.classname, c.name)\n"
    )
    told = by_tools(code, junit("tinyc verify", "all", [verdict_case("kws.onnx", "cortex-m4", verify, error)]))
    counts = {"passed": "1 0 0", "Failure": "1 1 0", "Error": "1 0 1"}[result]
    assert told.startswith(f"{counts} ")
    assert result in told
    assert "tinyc.cortex-m4 kws.onnx: output bytes" in told


def test_junit_takes_any_names() -> None:
    for verify, error in ((DIFFERENT, None), (None, TinycError(MOST, Loc(MOST), MOST))):
        changed = replace(verify, first_difference=MOST) if verify else None
        text = junit(MOST, MOST, [verdict_case(MOST, MOST, changed, error)])
        case = xml.dom.minidom.parseString(text.encode("utf-8")).getElementsByTagName("testcase")
        assert len(case) == 1


def test_annotations_are_lines_of_github() -> None:
    """By its rules: `%`, ends of lines, and in properties `:` and `,`, are escaped; nothing else ends a message."""
    cases = [
        Case("kws.onnx: cycles, all", "cortex-m4", "failed", "worse", "cycles: 100 -> 120\n20 % more"),
        Case("kws.onnx", "cortex-m0plus", "skipped", "refused", "no RAM"),
        Case("kws.onnx", "host"),
    ]
    assert github("tinyc bench", cases).splitlines() == [
        "::error title=kws.onnx%3A cycles%2C all%2C cortex-m4::cycles: 100 -> 120%0A20 %25 more",
        "::warning title=kws.onnx%2C cortex-m0plus::no RAM",
        "::notice title=tinyc bench::1 of 3 passed",
    ]
    told = github(MOST, [Case(MOST, MOST, "error", MOST, MOST, MOST)])
    assert [line.split(" ")[0] for line in told.split("\n")] == ["::error", "::notice"]
    problem = import_cases(inspection(ImportProblem("tinyc does not import Foo", None, "export without it")))
    assert "::error title=my models/kws #1.onnx::tinyc does not import Foo%0Aexport" in github("tinyc inspect", problem)


def inspection(*problems: ImportProblem) -> Inspection:
    return Inspection("my models/kws #1.onnx", "0" * 64, (), (), (), 0, 0, problems)


def test_findings_are_sarif_by_another_s_model_of_it() -> None:
    problem = ImportProblem("tinyc does not import Foo", "kws.onnx: node 3 'x' (Foo)", "export without it")
    log = sarif(inspection(problem, ImportProblem(MOST, None, "")))
    code = (
        "import sys, json, sarif_pydantic as s\n"
        "x = s.Sarif.model_validate_json(sys.stdin.read())\n"
        "run, = x.runs\n"
        "print(x.version, run.tool.driver.name, [(r.rule_id, r.level.value) for r in run.results])\n"
    )
    assert by_tools(code, json.dumps(log)).split(" ", 2)[:2] == ["2.1.0", "tinyc"]
    (run,) = log["runs"]
    first, second = run["results"]
    assert first["message"]["text"] == "tinyc does not import Foo. export without it"
    assert first["ruleId"] == run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"]
    place = first["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20models%2Fkws%20%231.onnx"
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "kws.onnx: node 3 'x' (Foo)"
    assert "logicalLocations" not in second["locations"][0]
    assert sarif(inspection())["runs"][0]["results"] == []


def test_model_explorer_s_own_classes_write_the_same_node_data() -> None:
    layers = (replace(small_report().layers[0], tensor="conv1_out", cycles=123), small_report().layers[0])
    data = node_data(replace(small_report(), layers=layers))
    assert data["results"] == {"conv1_out": {"value": 123}}
    code = (
        "import importlib.util, json, pathlib, sys, types\n"
        "where = importlib.util.find_spec('model_explorer')\n"
        "if where is None: raise ModuleNotFoundError('model_explorer')\n"
        "package = types.ModuleType('model_explorer')  # its own start asks for a web server\n"
        "package.__path__ = list(where.submodule_search_locations)\n"
        "sys.modules['model_explorer'] = package\n"
        "utils = types.ModuleType('model_explorer.utils')\n"
        "clean = lambda x: {k: clean(v) for k, v in x.items() if v is not None} if isinstance(x, dict) else (\n"
        "    [clean(v) for v in x] if isinstance(x, list) else x)\n"
        "utils.remove_none = clean\n"
        "sys.modules['model_explorer.utils'] = utils\n"
        "from model_explorer.node_data_builder import GraphNodeData, GradientItem, NodeDataResult\n"
        "given = json.load(sys.stdin)\n"
        "results = {k: NodeDataResult(**v) for k, v in given.pop('results').items()}\n"
        "gradient = [GradientItem(**v) for v in given.pop('gradient')]\n"
        "print(GraphNodeData(results=results, gradient=gradient, **given).to_json_string())\n"
    )
    theirs = json.loads(by_tools(code, json.dumps(data)))
    assert {key: theirs[key] for key in data} == data


WRITTEN_FOR_GITHUB = {
    ".github/workflows/ci.yml": "github-workflows",
    "examples/ci/verify-model.yml": "github-workflows",
    ".github/ISSUE_TEMPLATE/defect.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/model.yml": "github-issue-forms",
    ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
}


@pytest.mark.parametrize("file", WRITTEN_FOR_GITHUB)
def test_workflows_and_issue_forms_are_github_s_by_their_schemas(file: str) -> None:
    """Those that check-jsonschema ships, published by SchemaStore."""
    schema = f"vendor.{WRITTEN_FOR_GITHUB[file]}"
    assert "ok" in ran(needed("check-jsonschema"), "--builtin-schema", schema, ROOT / file, cwd=ROOT)


def test_every_file_written_for_github_is_held_to_its_schema() -> None:
    written = [*(ROOT / ".github").rglob("*.yml"), *(ROOT / "examples" / "ci").glob("*.yml")]
    assert {str(file.relative_to(ROOT)) for file in written} == WRITTEN_FOR_GITHUB.keys()


def test_the_commands_print_one_document(tinyc, model: Path, tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "out"
    assert tinyc("build", model, "--board", "host", "-o", folder, "--no-proof").code == 0
    colours = tinyc("report", folder, "--format", "model-explorer")
    assert len(json.loads(colours.out)["results"]) == 4
    verdict = tinyc("verify", model, "--board", "host", "--format", "junit")
    assert verdict.code == 0
    assert 'failures="0" errors="0"' in verdict.out
    missing = tinyc("verify", tmp_path / "none.onnx", "--board", "host", "--format", "junit")
    assert missing.code == 2
    assert 'errors="1"' in missing.out
    assert "error: " in missing.err
    built = tinyc("build", model, "--board", "host", "-o", tmp_path / "out", "--format", "github")
    assert (built.code, built.out) == (0, "::notice title=tinyc build::1 of 1 passed\n")
    assert tinyc("verify", model, "--board", "cortex-m9", "--format", "github").out.startswith("::error title=")
    findings = tinyc("inspect", model, "--format", "sarif")
    assert findings.code == 0
    assert json.loads(findings.out)["version"] == "2.1.0"
    odd = write_model(tmp_path / "odd.onnx", op="Det")
    listing = tinyc("inspect", odd, "--format", "sarif")
    assert listing.code == 1
    assert "Det" in json.loads(listing.out)["runs"][0]["results"][0]["message"]["text"]
    both = tinyc("inspect", model, "--format", "sarif", "--json")
    assert both.code == 2
    assert "two ways" in both.err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["perfetto", "speedscope"])
def test_a_real_profile(tinyc, model: Path, form: str) -> None:  # noqa: F811
    ran = tinyc("profile", model, "--board", "cortex-m4", "--format", form)
    if "is not installed" in ran.err or "no emulator" in ran.err or "no compiler" in ran.err:
        pytest.skip(ran.err)
    trace = json.loads(ran.out)
    if form == "perfetto":
        assert len([span for span in check_trace(trace) if span["cat"] == "layer"]) == 5
    else:
        assert trace["profiles"][0]["endValue"] == sum(trace["profiles"][0]["weights"])
