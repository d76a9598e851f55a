# SPDX-License-Identifier: Apache-2.0
"""What a word of a report or an error stands for: a kernel, an operator (tinyc's, ONNX' or TFLite's), an exit code; and
what the message of an error does."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.runtime_headers import header_of
from tinyc.explain.messages import GAP, MessageText, explained
from tinyc.explain.operator_page import condition_text, emitted_by, summary_of
from tinyc.explain.places import CodePlace, layer_of, places_of
from tinyc.kernel.kernel import Kernel
from tinyc.load.tflite import IMPORTERS as TFLITE
from tinyc.ops import all_ops

_ONNX = "ONNX operator"
_SUFFIX = re.compile(r"_[a-z0-9]+$")
EXIT_CODES: Mapping[str, str] = {
    "0": "Done: it ran, and every check passed.",
    "1": "It ran, and the answer is no: bytes differ from the reference, or the model does not fit the board.",
    "2": "It could not run: a wrong word on the command line, a file or a model that cannot be read, a missing tool.",
    "3": "An internal error, which is a bug of tinyc. TINYC_DEBUG=1 shows the traceback to report.",
    "130": "Interrupted by Ctrl-C. The output folder is as it was before.",
    "143": "Terminated by a signal. The output folder is as it was before.",
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """One meaning of a word.

    kind: `kernel`, `operator`, `ONNX operator`, `TFLite operator`, `exit code`, `error` or `layer`. of: the operators
    that a kernel or a layer computes, or that a foreign operator becomes. takes: what a kernel asks for. kernels: of an
    operator, best first; that of a layer. contract: the comment on top of a kernel's C file. places: where the code of
    a kernel or a layer stands. tile: the register tile of a layer, where its function tells one.
    """

    kind: str
    name: str
    says: str
    of: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    contract: str = ""
    places: tuple[CodePlace, ...] = ()
    tile: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain lists and strings; keys in a fixed order."""
        return asdict(self)


def explain(word: str) -> tuple[Meaning, ...]:
    """All that a word stands for. Raises TinycError, with words that are near, when it stands for nothing."""
    meanings = tuple(_meanings(word))
    if not meanings and " " in word.strip():
        text = explained(word)
        if text is None:
            hint = "give it as it was printed, in quotation marks; docs/troubleshooting.md goes by symptom"
            raise TinycError("this is no message of an error that tinyc has", hint=hint)
        return (_of_message(text),)
    if not meanings:
        foreign = _importers()
        vocabulary = [*_kernels(), *all_ops(), *(name for names in foreign.values() for name in names)]
        near = difflib.get_close_matches(word, vocabulary, n=3) or difflib.get_close_matches(
            word.lower(), vocabulary, n=3
        )
        hint = f"did you mean {', '.join(near)}? " if near else ""
        more = "" if _ONNX in foreign else "; those of ONNX are known with `pip install 'tinyc[onnx]'`"
        if os.path.isfile(os.path.join(word, "report.json")):
            hint = f"name a layer of the library too: tinyc inspect {word} 0; "
        message = f"'{word}' is no kernel, operator or exit code"
        raise TinycError(message, hint=f"{hint}docs/operators.md lists all{more}")
    return meanings


def explain_layer(folder: Path, word: str) -> Meaning:
    """What runs a layer of the library in a folder, and where its code stands. word: the number of a step, or the
    layer's name, or a part of it. Raises TinycError where no layer has it, or several have."""
    layer = layer_of(folder, word)
    ops = tuple(part for part in layer.op.replace("[", " ").split() if part in all_ops())
    places = layer.places + _of_tinyc(layer.kernel, *ops[:1])
    says = f"step {layer.step}, {layer.op}, by {layer.kernel}: {layer.why}"
    return Meaning("layer", layer.name, says, of=ops, kernels=(layer.kernel,), places=places, tile=layer.tile)


def _meanings(word: str) -> Iterator[Meaning]:
    if word in EXIT_CODES:
        yield Meaning("exit code", word, EXIT_CODES[word])
    if (kernel := _kernel_name(word)) is not None:
        yield _of_kernel(kernel)
    if (op := all_ops().get(word)) is not None:
        says = summary_of(op)
        yield Meaning("operator", word, says, kernels=tuple(dict.fromkeys(kernel.name for kernel in op.every_kernel)))
    for kind, importers in _importers().items():
        for name in (name for name in importers if name.lower() == word.lower()):
            says = " ".join((importers[name].__doc__ or "").split())
            yield Meaning(kind, name, says, of=emitted_by(importers[name], name))


def _of_message(text: MessageText) -> Meaning:
    todo = f"What to do: {text.hint}. " if text.hint.strip(GAP + " ") else ""
    about = text.about if text.about.endswith(".") else f"{text.about}."
    return Meaning("error", text.message, f"{todo}It comes from: {about} More: docs/{text.page}")


def _importers() -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    """Kind -> name of a foreign operator -> what imports it. ONNX' need the package onnx, which is optional."""
    importers: dict[str, Mapping[str, Callable[..., Any]]] = {"TFLite operator": TFLITE}
    with suppress(ImportError):
        from tinyc.load.onnx.every import IMPORTERS, LEARNING, RUNTIME  # noqa: PLC0415

        importers = {_ONNX: {**IMPORTERS, **LEARNING, **RUNTIME}, **importers}
    return importers


def _kernel_name(word: str) -> str | None:
    """The kernel of that name, or the family that a function of it belongs to: `tc_conv2d_s8_w16_asm_k3x6` is one of
    `tc_conv2d_s8_w16_asm`."""
    kernels = _kernels()
    while word.startswith("tc_") and word not in kernels and _SUFFIX.search(word):
        word = _SUFFIX.sub("", word)
    return word if word in kernels else None


def _kernels() -> Mapping[str, list[tuple[str, Kernel]]]:
    """Kernel -> the operators that have it, and how."""
    by_name: dict[str, list[tuple[str, Kernel]]] = {}
    for op in all_ops().values():
        for kernel in op.every_kernel:
            by_name.setdefault(kernel.name, []).append((op.name, kernel))
    return by_name


def _of_kernel(name: str) -> Meaning:
    uses = _kernels()[name]
    first = uses[0][1]
    takes = [text for _, kernel in uses for text in (*map(condition_text, kernel.when), kernel.asks) if text]
    written = "one function in C, the same for every layer"
    if first.written:
        written = "a family of functions: each is written for its layer, its shape in it as constants"
    if first.slow_flash:
        written += "; for boards with slow flash"
    if first.beaten_with:
        written += f"; for cores without {', '.join(sorted(first.beaten_with))}"
    return Meaning(
        "kernel",
        name,
        written,
        of=tuple(dict.fromkeys(op for op, _ in uses)),
        core=tuple(sorted(first.isa)),
        takes=tuple(dict.fromkeys(takes)),
        contract="" if first.written else _contract(first),
        places=_of_tinyc(name),
    )


def _of_tinyc(name: str, *ops: str) -> tuple[CodePlace, ...]:
    """Where tinyc has a kernel of these operators (of all that have it, if none is named)."""
    uses = [(op, kernel) for op, kernel in _kernels().get(name, ()) if not ops or op in ops]
    return tuple(dict.fromkeys(place for op, kernel in uses for place in places_of(all_ops()[op], kernel)))


def _contract(kernel: Kernel) -> str:
    """The first comment of a kernel's file but the licence, without its stars; where the file has several kernels, the
    one right above the function, too."""
    text = header_of(kernel.own_header)
    comments = [comment for comment in re.findall(r"/\*(.*?)\*/", text, re.DOTALL) if "SPDX-" not in comment][:1]
    if kernel.header:
        comments += re.findall(rf"/\*((?:(?!\*/).)*)\*/\nstatic[^;{{]*?\b{kernel.name}\(", text, re.DOTALL)
    return "\n".join(re.sub(r"^ \* ?", "", line).rstrip() for own in comments for line in own.strip().splitlines())
