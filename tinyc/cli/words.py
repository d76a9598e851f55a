# SPDX-License-Identifier: Apache-2.0
"""`tinyc inspect WORD`: what a word of a report or an error stands for, and which code runs a layer."""

from __future__ import annotations

from pathlib import Path

from tinyc.cli.output import Output
from tinyc.explain.words import Meaning, explain, explain_layer


def show_word(out: Output, word: str, layer: str | None) -> None:
    """The meanings of a word; of a layer of the library in the folder `word`, file and line of each part of its code.
    Raises TinycError for a word that stands for nothing."""
    meanings = explain(word) if layer is None else (explain_layer(Path(word), layer),)
    out.json({"word": word, "meanings": [meaning.to_json() for meaning in meanings]})
    for number, meaning in enumerate(meanings):
        if number:
            out.result("")
        _show_meaning(out, meaning)


def _show_meaning(out: Output, meaning: Meaning) -> None:
    out.result(f"{meaning.name}: {meaning.kind}")
    out.result(f"  {meaning.says}")
    if meaning.of and meaning.kind != "layer":
        out.result(f"  {'computes' if meaning.kind == 'kernel' else 'becomes'}: {', '.join(meaning.of)}")
    if meaning.kind == "kernel":
        out.result(f"  core: {', '.join(meaning.core) or 'any'}")
        out.result(f"  takes: {'; '.join(meaning.takes) or 'everything'}")
    if meaning.kernels and meaning.kind != "layer":
        out.result(f"  kernels, best first where costs are equal: {', '.join(meaning.kernels)}")
    if meaning.tile:
        out.result(f"  tile: {meaning.tile}")
    if meaning.places:
        places = [(str(place), place.part) for place in meaning.places]
        width = max(len(place) for place, _ in places)
        out.result("  its code:", *(f"    {place:<{width}}  {part}" for place, part in places))
    if meaning.contract:
        out.result("", *(f"  {line}" for line in meaning.contract.splitlines()))
