# SPDX-License-Identifier: Apache-2.0
"""What a library is made of, for those who have to list it: a bill of materials in CycloneDX 1.6 (ECMA-424) JSON."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tinyc import __version__
from tinyc.base.extras import requirements
from tinyc.verify.report import Report, UnprovedReport

SBOM_FILE = "sbom.cdx.json"
_USED = ("", "onnx", "proof")  # extras whose packages compile and prove
LICENCE = "0BSD"  # of what tinyc writes and copies: docs/licence.md
_SPACE = uuid.UUID("6b1f8c58-0f0e-5c0a-9a3e-3f2f6d2b7c11")  # of our serial numbers, which are digests of the content


def bill_of_materials(report: Report | UnprovedReport, files: Mapping[str, str]) -> dict[str, Any]:
    """The library with its model, its files (name -> text) and the tools that made and proved it.

    The same build gives the same object: no time, and a serial number that is a digest of the rest.
    """
    parts = [_model(report), *(_file(name, text) for name, text in sorted(files.items()))]
    described = f"{report.model} for {report.board}, C99"
    return _bill(report.name, report.model_sha256[:12], described, _tools(report), parts)


def bill_of_linked(name: str, bills: Sequence[str], files: Mapping[str, str]) -> dict[str, Any]:
    """Libraries that share a program: the models and tools of their bills, and the files of the folder."""
    documents = [json.loads(bill) for bill in bills]
    models = _apart(
        part for bill in documents for part in bill["components"] if part["type"] == "machine-learning-model"
    )
    tools = _apart(tool for bill in documents for tool in bill["metadata"]["tools"]["components"])
    version = hashlib.sha256("".join(model["bom-ref"] for model in models).encode()).hexdigest()[:12]
    described = f"{', '.join(bill['metadata']['component']['name'] for bill in documents)}, one program, C99"
    parts = [*models, *(_file(file, text) for file, text in sorted(files.items()))]
    return _bill(name, version, described, tools, parts)


def _apart(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each of them once."""
    return list({json.dumps(part, sort_keys=True): part for part in parts}.values())


def _bill(
    name: str, version: str, described: str, tools: list[dict[str, Any]], parts: list[dict[str, Any]]
) -> dict[str, Any]:
    library = f"library:{name}"
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": tools},
            "component": {
                "type": "library",
                "bom-ref": library,
                "name": name,
                "version": version,
                "description": described,
                "licenses": _licence(LICENCE),
            },
        },
        "components": parts,
        "dependencies": [{"ref": library, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return {"serialNumber": uuid.uuid5(_SPACE, json.dumps(bill, sort_keys=True)).urn, **bill}


def _model(report: Report | UnprovedReport) -> dict[str, Any]:
    return {
        "type": "machine-learning-model",
        "bom-ref": f"model:{report.model_sha256[:12]}",
        "name": report.model,
        "hashes": [{"alg": "SHA-256", "content": report.model_sha256}],
    }


def _file(name: str, text: str) -> dict[str, Any]:
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return {
        "type": "file",
        "bom-ref": f"file:{name}",
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "licenses": _licence(LICENCE),
    }


def _tools(report: Report | UnprovedReport) -> list[dict[str, Any]]:
    """tinyc, the packages of Python under it, and the compiler and machine of the proof."""
    tools = [_tool("tinyc", __version__)]
    if report.toolchain is not None:
        compiler, _, version = report.toolchain.partition(" ")
        tools.append(_tool(compiler, version))
    if isinstance(report, Report):
        tools.append(_tool(*_machine(report.machine)))
    return tools + [_tool(name, version, f"pkg:pypi/{name}@{version}") for name, version in sorted(_packages().items())]


def _machine(words: str) -> tuple[str, str]:
    """Name and version of `QEMU 7.2.22 mps2-an386`, where a version is said."""
    name, _, rest = words.partition(" ")
    return name, rest if rest[:1].isdigit() else ""


def _tool(name: str, version: str, purl: str = "") -> dict[str, Any]:
    said = {"version": version, "purl": purl}
    return {"type": "application", "name": name, **{key: value for key, value in said.items() if value}}


def _packages() -> dict[str, str]:
    """Versions of the packages that tinyc compiles and proves with, as far as they are installed; none where tinyc
    itself is not. Each stands in a file of its own."""
    used = (package for package in requirements() if package.extra in _USED)
    return {package.name.lower(): version for package in used if (version := package.version)}


def _licence(identifier: str) -> list[dict[str, Any]]:
    return [{"license": {"id": identifier}}]
