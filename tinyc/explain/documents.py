# SPDX-License-Identifier: Apache-2.0
"""What tinyc found, in the formats of other tools: traces, test results, findings, colours for a model viewer.

Each function gives a value for JSON, or XML as text. The same facts give the same document, and none holds a date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

from tinyc import __version__
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.escape import visible
from tinyc.explain.cycles import InferenceCost, Profile
from tinyc.explain.inspection import ImportProblem, Inspection
from tinyc.run import OVERHEAD
from tinyc.verify.report import LayerReport, Report, UnprovedReport, Verify

Json = dict[str, Any]

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULE = "not-imported"


def chrome_trace(profile: Profile) -> Json:
    """One inference in the Trace Event Format, which Perfetto and chrome://tracing open: layers one after the other,
    and in each its functions, dearest first. A microsecond is one at the board's clock; where that or the cycles are
    not known, one stands for a cycle, or else for an instruction."""
    clock = profile.clock_hz if profile.cost.cycles is not None else 0
    unit = "microseconds" if clock else "cycles" if profile.cost.cycles is not None else "instructions"
    scale = 1e6 / clock if clock else 1.0
    events: list[Json] = [
        _named("process_name", 0, f"{profile.model} on {profile.board}: one inference, in {unit}"),
        _named("thread_name", 1, "layers, and their functions"),
    ]
    at = 0
    for layer in sorted(profile.layers, key=lambda each: each.step == OVERHEAD):
        facts = {"step": layer.step, "kernel": layer.kernel, "macs": layer.macs, **_facts(layer.cost)}
        events.append(_span(f"{layer.op} {layer.name}".strip(), "layer", at, layer.cost.weight, scale, facts))
        inside = at
        for function in layer.functions:
            events.append(_span(function.name, "function", inside, function.cost.weight, scale, _facts(function.cost)))
            inside += function.cost.weight
        at += layer.cost.weight
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"tool": f"tinyc {__version__}", "unit": unit}}


def _named(what: str, thread: int, name: str) -> Json:
    return {"ph": "M", "name": what, "pid": 1, "tid": thread, "args": {"name": name}}


def _span(name: str, kind: str, at: int, lasts: int, scale: float, args: Json) -> Json:
    """Times are multiples of 1/1024: binary fractions, so that a reader's `ts + dur` is exactly where the next begins.
    With decimal ones viewers take spans that follow each other for spans that overlap."""
    begin, end = (round(1024 * scale * time) for time in (at, at + lasts))
    where = {"ts": begin / 1024, "dur": (end - begin) / 1024}
    return {"ph": "X", "name": name, "cat": kind, "pid": 1, "tid": 1, **where, "args": args}


def _facts(cost: InferenceCost) -> Json:
    return {"instructions": cost.instructions} | ({} if cost.cycles is None else {"cycles": cost.cycles})


@dataclass(frozen=True, slots=True)
class Case:
    """A test of a list. where: a board. outcome: `passed`; `failed`; `error`, it could not run; `skipped`, it cannot
    be. kind, message and detail: of what went wrong; of what passed, detail alone."""

    name: str
    where: str
    outcome: Literal["passed", "failed", "error", "skipped"] = "passed"
    kind: str = ""
    message: str = ""
    detail: str = ""


def verdict_case(model: str, board: str, verify: Verify | None, error: TinycError | None = None) -> Case:
    """Of a proof that passed, failed, was not made, or (with `error`) could not run."""
    name = f"{model}: output bytes"
    if error is not None:
        return Case(name, board, "error", "could not run" if error.exit_code == 2 else "no", error.message, str(error))
    if verify is None:
        return Case(name, board, "skipped", "not proved", "nothing was run")
    if verify.mismatches:
        message = f"{verify.mismatches:,} of {verify.output_bytes:,} output bytes differ from {verify.against}"
        return Case(name, board, "failed", "different bytes", message, verify.first_difference or "")
    text = f"{verify.output_bytes} output bytes of {verify.inputs} inputs equal {verify.against}"
    return Case(name, board, detail=text)


def junit(command: str, suite: str, cases: Sequence[Case]) -> str:
    """Cases as JUnit XML, for dashboards of tests: one suite."""
    counted = Counter(case.outcome for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(counted["failed"])}
    counts |= {"errors": str(counted["error"]), "skipped": str(counted["skipped"])}
    root = ElementTree.Element("testsuites", {"name": visible(command), **counts})
    suite_element = ElementTree.SubElement(root, "testsuite", {"name": visible(suite), **counts})
    for case in cases:
        place = {"classname": f"tinyc.{visible(case.where)}", "name": visible(case.name)}
        element = ElementTree.SubElement(suite_element, "testcase", place)
        if case.outcome != "passed":
            _told(element, _TAGS[case.outcome], case.kind, case.message, case.detail)
        elif case.detail:
            ElementTree.SubElement(element, "system-out").text = visible(case.detail)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


_TAGS = {"failed": "failure", "error": "error", "skipped": "skipped"}


def github(command: str, cases: Sequence[Case]) -> str:
    """What went wrong as annotations of a workflow of GitHub: `::error title=...::...`, `::warning` for what is
    skipped; and one `::notice` that counts what passed."""
    lines = []
    for case in cases:
        if case.outcome != "passed":
            level = "warning" if case.outcome == "skipped" else "error"
            said = "\n".join(part for part in (case.message, case.detail) if part)
            title = ", ".join(part for part in (case.name, case.where) if part)
            lines.append(f"::{level} title={_property(title)}::{_data(said)}")
    passed = sum(case.outcome == "passed" for case in cases)
    lines.append(f"::notice title={_property(command)}::{passed} of {len(cases)} passed")
    return "\n".join(lines)


def _data(text: str) -> str:
    """A message of a workflow command, which ends with its line."""
    shown = "\n".join(visible(line) for line in text.splitlines())
    return shown.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")


def _told(case: ElementTree.Element, tag: str, kind: str, message: str, text: str) -> None:
    lines = "\n".join(visible(line) for line in text.splitlines())
    ElementTree.SubElement(case, tag, {"type": visible(kind), "message": visible(message)}).text = lines


def import_cases(inspection: Inspection) -> list[Case]:
    """What keeps a model from being imported, or that nothing does."""
    problems = [
        Case(inspection.model, problem.where or "", "error", _RULE, problem.message, problem.hint)
        for problem in inspection.problems
    ]
    return problems or [Case(inspection.model, "")]


def sarif(inspection: Inspection) -> Json:
    """What keeps a model from being imported, in SARIF 2.1.0: a result for each problem, none if there are none."""
    driver = {
        "name": "tinyc",
        "version": __version__,
        "rules": [
            {
                "id": _RULE,
                "shortDescription": {"text": "tinyc cannot import this part of the model"},
                "defaultConfiguration": {"level": "error"},
            }
        ],
    }
    artifact = {"location": {"uri": _uri(inspection.model)}, "hashes": {"sha-256": inspection.model_sha256}}
    run = {
        "tool": {"driver": driver},
        "artifacts": [artifact],
        "results": [_result(inspection, p) for p in inspection.problems],
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(inspection: Inspection, problem: ImportProblem) -> Json:
    place: Json = {"physicalLocation": {"artifactLocation": {"uri": _uri(inspection.model), "index": 0}}}
    if problem.where:
        place["logicalLocations"] = [{"fullyQualifiedName": problem.where, "kind": "member"}]
    text = f"{problem.message}. {problem.hint}" if problem.hint else problem.message
    return {"ruleId": _RULE, "ruleIndex": 0, "level": "error", "message": {"text": text}, "locations": [place]}


def _uri(name: str) -> str:
    """A file's name as a relative reference (RFC 3986)."""
    return quote(name, safe="", errors="replace")


def node_data(report: Report | UnprovedReport) -> Json:
    """Colours of the nodes of the model file for Model Explorer ("node data"): what each layer takes, by the tensor
    that it makes, of a node that became several layers their sum; cycles, else instructions, else bytes of
    constants."""
    unit = next((name for name in ("cycles", "instructions") if _has(report.layers, name)), "const_bytes")
    taken: dict[str, int] = {}
    for layer in report.layers:
        if layer.tensor:
            taken[layer.tensor] = taken.get(layer.tensor, 0) + (getattr(layer, unit) or 0)
    results = {tensor: {"value": cost} for tensor, cost in taken.items()}
    gradient = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8743b"}]
    words = "bytes of constants" if unit == "const_bytes" else unit
    return {"results": results, "name": f"tinyc, {report.board}: {words}", "gradient": gradient}


def _has(layers: tuple[LayerReport, ...], field: str) -> bool:
    return any(getattr(layer, field) for layer in layers)
