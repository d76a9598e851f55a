# SPDX-License-Identifier: Apache-2.0
"""What the message of an error stands for: the sentence as tinyc's own text has it, its hint, and the page about it.

Messages have no numbers. They are looked up in the source files, where `TinycError(...)` has them as texts with gaps;
a message belongs to the text that it fits with the most letters.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tinyc.base.dataclass import dataclass

GAP = "…"  # in place of what differs from one message to the next
_LEAST = 6  # letters that a text has to share with a message, beside its gaps
_LEAST_OF_PART = 12  # letters in one piece
_MOST_SPELLINGS = 16
_LONGEST = 2000  # letters of a message
_PACKAGE = Path(__file__).resolve().parents[1]

PAGES = {
    "bench": "bench.md",
    "board": "boards.md",
    "choose": "build.md",
    "cli": "build.md",
    "emit": "library.md",
    "explain": "inspect.md",
    "export": "quantize.md",
    "flash": "flash.md",
    "frontend": "frontend.md",
    "kernel": "operators.md",
    "kernels": "operators.md",
    "load": "import.md",
    "ops": "operators.md",
    "package": "integrate.md",
    "passes": "import.md",
    "pipeline": "build.md",
    "plan": "estimate.md",
    "quantize": "quantize.md",
    "reference": "numerics.md",
    "run": "install.md",
    "sweep": "sweep.md",
    "toolchain": "install.md",
    "verify": "verify.md",
}  # of a room of tinyc/: where docs/ tells about it


@dataclass(frozen=True, slots=True)
class MessageText:
    """Of an error: its message and its hint with gaps, the first sentence of the file that raises it, and a page."""

    message: str
    hint: str
    about: str
    page: str

    @property
    def letters(self) -> int:
        return len(self.message.replace(GAP, ""))

    @property
    def pattern(self) -> str:
        return ".+?".join(re.escape(part) for part in self.message.split(GAP))


def explained(message: str) -> MessageText | None:
    """The text that the message of an error has, as the command line printed it (`error: ...`) or as Python has it; of
    a part of a message, the text that shares most of its letters in one piece."""
    said = message.strip()[:_LONGEST].splitlines()[0].removeprefix("error: ").strip() if message.strip() else ""
    texts = _texts()
    fits = [text for text in texts if text.letters >= _LEAST and re.search(text.pattern, said)]
    if fits:
        return max(fits, key=lambda text: text.letters)
    shared = {text: max((len(part) for part in text.message.split(GAP) if part in said), default=0) for text in texts}
    best = max(shared, key=lambda text: shared[text])
    return best if shared[best] >= _LEAST_OF_PART else None


def _texts() -> list[MessageText]:
    return [text for file in sorted(_PACKAGE.rglob("*.py")) for text in _texts_of(file)]


def _texts_of(file: Path) -> Iterator[MessageText]:
    source = file.read_text(encoding="utf-8")
    if "TinycError(" not in source:
        return
    tree = ast.parse(source)
    about = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    page = PAGES.get(file.relative_to(_PACKAGE).parts[0], "troubleshooting.md")
    named = _named(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TinycError":
            message, hint = _given(node, 0, "message"), _given(node, 2, "hint")
            hints = _spellings(hint, named)
            for text in (spelling.partition("\n")[0] for spelling in _spellings(message, named)):
                if text.replace(GAP, "").strip():
                    yield MessageText(text, hints[0] if len(hints) == 1 else "", about, page)


def _given(call: ast.Call, place: int, name: str) -> ast.expr | None:
    words = {word.arg: word.value for word in call.keywords}
    return call.args[place] if place < len(call.args) else words.get(name)


def _named(tree: ast.Module) -> dict[str, list[str]]:
    """The texts that names of the file stand for."""
    by_name: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            by_name.setdefault(node.targets[0].id, []).extend(_spellings(node.value, by_name))
    return {name: texts for name, texts in by_name.items() if GAP not in texts and len(texts) <= _MOST_SPELLINGS}


def _spellings(node: ast.expr | None, named: Mapping[str, list[str]]) -> list[str]:
    """All that an expression may say, with gaps where source does not tell."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Name(id=name) if named.get(name):
            return named[name]
        case ast.IfExp(body=yes, orelse=no):
            return [*_spellings(yes, named), *_spellings(no, named)]
        case ast.JoinedStr(values=parts):
            inner = [part.value if isinstance(part, ast.FormattedValue) else part for part in parts]
            return _joined([_spellings(part, named) for part in inner])
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([_spellings(left, named), _spellings(right, named)])
    return [] if node is None else [GAP]


def _joined(parts: list[list[str]]) -> list[str]:
    if math.prod(map(len, parts)) > _MOST_SPELLINGS:
        parts = [texts if len(texts) == 1 else [GAP] for texts in parts]
    return [re.sub(f"{GAP}+", GAP, "".join(words)) for words in itertools.product(*parts)]
