# SPDX-License-Identifier: Apache-2.0
"""Every file says its licence, what a user gets is 0BSD, and a build's bill of materials is one by its schema."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.reports import small_report
from tinyc.base import paths
from tinyc.package.sbom import bill_of_materials

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import spdx  # noqa: E402  a script

FILES = {"kws.c": "int x;\n", "kws.h": "/* a \N{SNOWMAN} */\n"}


def test_every_source_says_its_licence() -> None:
    assert [file for file in spdx.sources() if not spdx.has_line(file)] == [], "run scripts/spdx.py"


def test_all_that_a_user_gets_says_so_itself() -> None:
    """Kernels and templates are copied with their first line; a few formats have no comments."""
    bare = {
        str(file.relative_to(folder))
        for folder in (paths.runtime_dir(), paths.templates_dir())
        for file in folder.rglob("*")
        if file.is_file() and f"{spdx.TAG}: 0BSD" not in file.read_text(encoding="utf-8")
    }
    assert {Path(file.removesuffix(".j2")).suffix for file in bare} <= {"", ".json", ".md", ".resc"}, bare


def test_the_pages_list_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    page = (ROOT / "docs" / "licence.md").read_text(encoding="utf-8")
    for line in [line for each in lists for line in each]:
        name = re.split(r"[^\w-]", line, maxsplit=1)[0]
        assert re.search(rf"\b{re.escape(name)}\b", page), name


def test_the_bill_lists_the_files_and_the_model() -> None:
    report = small_report()
    bill = bill_of_materials(report, FILES)
    hashes = {part["name"]: part["hashes"][0]["content"] for part in bill["components"]}
    assert hashes == {
        report.model: report.model_sha256,
        **{name: hashlib.sha256(text.encode()).hexdigest() for name, text in FILES.items()},
    }
    tools = {tool["name"]: tool.get("version") for tool in bill["metadata"]["tools"]["components"]}
    assert tools["tinyc"] == report.tinyc
    assert tools["arm-none-eabi-gcc"] == "12.2.1"
    assert tools["QEMU"] == "7.2.22 mps2-an386"
    (edges,) = bill["dependencies"]
    assert edges["ref"] == bill["metadata"]["component"]["bom-ref"]
    assert edges["dependsOn"] == [part["bom-ref"] for part in bill["components"]]


def test_the_same_build_has_the_same_bill_and_another_has_another() -> None:
    assert bill_of_materials(small_report(), FILES) == bill_of_materials(small_report(), FILES)
    other = bill_of_materials(small_report(), {**FILES, "kws.c": "int y;\n"})
    assert other["serialNumber"] != bill_of_materials(small_report(), FILES)["serialNumber"]


def test_the_bill_keeps_the_published_schema() -> None:
    pytest.importorskip("jsonschema")
    schema = pytest.importorskip("cyclonedx.schema")
    validation = pytest.importorskip("cyclonedx.validation.json")
    judge = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    bill = bill_of_materials(small_report(), FILES)
    assert judge.validate_str(json.dumps(bill)) is None
    assert judge.validate_str(json.dumps({**bill, "component": []})) is not None
