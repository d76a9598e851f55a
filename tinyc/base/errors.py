# SPDX-License-Identifier: Apache-2.0
"""The one exception that reaches the user, and the place in the user's model that it names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import visible


@dataclass(frozen=True, slots=True)
class Loc:
    """Where something comes from in the user's file.

    `file` is the name as the user gave it, `node` the index in the file's own order, `name` the
    node's or tensor's own name, `op` the foreign operator name (`Conv`, `DEPTHWISE_CONV_2D`). `tensor`: the whole
    name of a tensor of which `name` is a part, for other programs that read the file; it is not printed.
    Prints as `kws.onnx: node 12 'layer2/conv' (Conv)`, in one line; what is unknown is left out.
    """

    file: str
    node: int | None = None
    name: str = ""
    op: str = ""
    tensor: str = field(default="", compare=False)

    def __str__(self) -> str:
        parts = []
        if self.node is not None:
            parts.append(f"node {self.node}")
        if self.name:
            parts.append(f"'{self.name}'")
        if self.op:
            parts.append(f"({self.op})")
        return visible(f"{self.file}: {' '.join(parts)}" if parts else self.file)


@dataclass(frozen=True, slots=True)
class Missed:
    """A limit that could not be met, for programs that read it."""

    what: str  # flash, RAM, cycles, weights, top-1, SQNR ...
    unit: str  # bytes, cycles, percent, dB
    limit: float
    reached: float  # the nearest to the limit that was come to


class TinycError(Exception):
    """Something that the user can understand and act on: what, where, and what to do next.

    `exit_code` is what the command line returns: 1 when tinyc ran and the answer is no (outputs
    differ, the model does not fit), 2 when it could not run (bad input, missing tool). `missed`: the limits that
    are not met, where these are why.
    """

    def __init__(
        self,
        message: str,
        where: Loc | None = None,
        hint: str = "",
        exit_code: int = 2,
        missed: Sequence[Missed] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.exit_code = exit_code
        self.missed = missed

    def but(self, message: str | None = None, where: Loc | None = None, hint: str | None = None) -> TinycError:
        """The same error in other words, at another place."""
        hint = self.hint if hint is None else hint
        return TinycError(message or self.message, where or self.where, hint, self.exit_code, self.missed)

    def located(self, where: Loc | None) -> TinycError:
        """The same error with a place, unless it already has one."""
        return self if self.where is not None or where is None else self.but(where=where)

    def hinted(self, hint: str) -> TinycError:
        """The same error with what to do next, unless it says that already."""
        return self if self.hint else self.but(hint=hint)

    def __str__(self) -> str:
        lines = [f"error: {self.message}"]
        if self.where is not None:
            lines.append(f"  --> {self.where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def check_word(what: str, word: str, words: Collection[str]) -> None:
    """Raises TinycError, which lists the words, unless `word` is one of them."""
    if word not in words:
        raise TinycError(f"there is no {what} '{word}'", hint=f"there are: {', '.join(words)}")
