# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect FOLDER LAYER`: where the code of a layer stands in a library."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import tinyc
from tests.cli.test_cli import write_model
from tinyc.base.errors import TinycError
from tinyc.explain.places import layer_of
from tinyc.explain.words import explain_layer


def layers(library: Path) -> list[dict[str, object]]:
    return list(json.loads((library / "report.json").read_text())["layers"])


def test_every_layer_is_found_by_its_number_and_its_name(library: Path) -> None:
    for layer in layers(library):
        by_number, by_name = layer_of(library, str(layer["step"])), layer_of(library, str(layer["name"]))
        assert by_number == by_name
        assert by_number.kernel == layer["kernel"]
        lines = {}
        for place in by_number.places:
            text = (library / place.file).read_text().splitlines()[place.line - 1]
            word = place.part.partition(",")[0].removeprefix("constants ")
            assert (f"_step_{layer['step']}_" if word == "step" else word) in text
            assert text.startswith(("static ", "const "))
            lines[place.part] = text
        assert "step" in lines


def test_all_functions_written_for_a_layer_are_named(library: Path) -> None:
    """Each function of the file of kernels belongs to a layer, in assembly and in C."""
    text = (library / "kws_kernels.h").read_text()
    written = set(re.findall(r"^static [^;={]*?\b(tc_\w+)\([^;={]*\)\n\{", text, re.MULTILINE))
    told = {place.part for layer in layers(library) for place in layer_of(library, str(layer["step"])).places}
    assert written
    assert written <= {part.partition(",")[0] for part in told}
    in_assembly = {part.partition(",")[0] for part in told if part.endswith(", assembly")}
    assert in_assembly
    assert in_assembly <= {part.partition(",")[0] for part in told if part.endswith(", C for other cores")}


def test_a_layer_is_explained_with_the_code_of_tinyc(library: Path) -> None:
    meaning = explain_layer(library, "0")
    files = {place.file for place in meaning.places}
    assert meaning.kind == "layer"
    assert meaning.kernels[0] in meaning.says
    assert f"tinyc/ops/{meaning.of[0]}.py" in files
    assert "kws.c" in files


def test_the_tile_of_a_layer_is_told(tmp_path: Path) -> None:
    """Of every layer with weights in assembly; and the twin of a convolution is told as many pixels at once."""
    with pytest.warns(tinyc.TinycWarning):
        library = tinyc.build(
            write_model(tmp_path / "kws.onnx", channels=16), "cortex-m4", out=tmp_path / "kws", prefer="time", samples=1
        ).folder
    weighted = [each for each in layers(library) if each["weights"] is not None and each["kernel"].endswith("_asm")]
    text, twins = (library / "kws_kernels.h").read_text(), 0
    for layer in weighted:
        tile = explain_layer(library, str(layer["step"])).tile
        match = re.fullmatch(r"(\d) pixels? x (\d) channels?; [^;]+; [^;]+(; the last pixel alone)?", tile)
        assert match, layer
        names = {place.part.partition(",")[0] for place in layer_of(library, str(layer["step"])).places}
        for name in (name.removesuffix("_pixels") for name in names if name.endswith("_pixels")):
            assert f"tc_stream_pixels(&{name}_layer, stream, x, first, n, y, {match[1]}," in text
            twins += 1
    assert twins


@pytest.mark.parametrize(
    ("word", "message"), [("99", "no layer is '99'"), ("", "no layer is ''"), ("\x1b[31m", r"no layer is '\\x1b")]
)
def test_layers_that_there_are_not(library: Path, word: str, message: str) -> None:
    with pytest.raises(TinycError, match=message) as caught:
        layer_of(library, word)
    assert "0 " in caught.value.hint


def test_other_folders(library: Path, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=r"no report\.json of a build"):
        layer_of(tmp_path, "0")
    shutil.copy(library / "report.json", tmp_path)
    with pytest.raises(TinycError, match="no C file here has step 0"):
        layer_of(tmp_path, "0")
    for damaged in ("[]", "{}", '{"name": "a", "layers": [{}]}', '{"name": 1, "layers": []}', "{"):
        (tmp_path / "report.json").write_text(damaged)
        with pytest.raises(TinycError, match=r"no report\.json of a build"):
            layer_of(tmp_path, "0")
