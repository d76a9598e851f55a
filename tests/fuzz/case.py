# SPDX-License-Identifier: Apache-2.0
"""What a case is, what a target is, and what came of a case."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tinyc.base.errors import TinycError


@dataclass(frozen=True, slots=True)
class Case:
    """Prints as `networks:17` or, with some of its pieces only, `networks:17:0.3.5`; `parse` reads that."""

    target: str
    seed: int
    subset: tuple[int, ...] | None = None

    def __str__(self) -> str:
        pieces = "" if self.subset is None else ":" + (".".join(map(str, self.subset)) or "-")
        return f"{self.target}:{self.seed}{pieces}"

    @staticmethod
    def parse(text: str) -> Case:
        """TinycError for a text that is no case."""
        name, _, rest = text.partition(":")
        seed, _, pieces = rest.partition(":")
        try:
            subset = tuple(int(piece) for piece in pieces.replace("-", "").split(".") if piece) if pieces else None
            return Case(name, int(seed), subset)
        except ValueError as e:
            raise TinycError(f"'{text}' is no case", hint="TARGET:SEED or TARGET:SEED:PIECE.PIECE...") from e


@dataclass(frozen=True, slots=True)
class Target:
    """Something to try. pieces: how many pieces the case of a seed is made of; they can be left out one by one.

    check(seed, subset, folder): tries it with these of its pieces, in a folder of its own, and says in a word what came
    of it ("imported", "refused"). Anything that it raises is a defect. describe: the same case in words. share: of the
    time. cpu_seconds, memory_bytes: what one case may take in this process; None: memory is not bounded.
    """

    name: str
    about: str
    pieces: Callable[[int], int]
    check: Callable[[int, frozenset[int], Path], str]
    describe: Callable[[int, frozenset[int]], str] = lambda seed, subset: ""
    share: float = 1.0
    cpu_seconds: int = 20
    memory_bytes: int | None = 768 << 20

    def subset_of(self, case: Case) -> frozenset[int]:
        return frozenset(range(self.pieces(case.seed)) if case.subset is None else case.subset)


@dataclass(frozen=True, slots=True)
class Outcome:
    """word: what `check` said; "" for a defect, of which `signature` says where it is and `text` everything."""

    case: Case
    word: str = ""
    signature: str = ""
    text: str = ""

    @property
    def failed(self) -> bool:
        return not self.word


class WrongError(Exception):
    """A case had a result that it must not have. kind: one word or two for defects that are probably the same."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def signature(error: BaseException) -> str:
    """The exception's type and the innermost line of tinyc: the same for what is probably the same defect."""
    if isinstance(error, WrongError):
        return error.kind
    where = ""
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if "/tinyc/" in code.co_filename.replace("\\", "/"):
            where = f" at {Path(code.co_filename).name}:{frame.tb_lineno} {code.co_name}"
        frame = frame.tb_next
    return f"{type(error).__name__}{where}"


def details(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-6000:]
