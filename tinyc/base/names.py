# SPDX-License-Identifier: Apache-2.0
"""C identifiers, each handed out once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_C = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while"
)
_CPP = (  # a user of the header would trip over these
    "bool catch class delete explicit export false friend mutable namespace new operator private protected public "
    "template this throw true try typename using virtual and or not xor"
)
_HEADERS = (  # <name>.h would stand in front of the standard library's, where -I finds it first
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
    "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype"
)
_HARNESS = "after_step board_setup csr_riscv mlperf_glue port text timer uart vectors"  # headers of ours
_TAKEN = frozenset(f"{_C} {_CPP} {_HEADERS} {_HARNESS}".split())
MOST_LETTERS = 160  # compilers promise no more than 63, but none is known that takes fewer than this
_DIGEST_LETTERS = 8


def identifier(text: str, most: int = MOST_LETTERS) -> str:
    """A lower-case C identifier near `text`: `My-Model.v2` -> `my_model_v2`, `3x3` -> `m_3x3`.

    Never a keyword, a header of the compiler's or the firmware's, or a name of the kernels (`tc_...`): those become
    `math_model`, `m_tc_x`. Of a name with more than `most` letters the end is a digest.
    """
    name = re.sub(r"_+", "_", re.sub(r"[^0-9a-z]", "_", text.lower())).strip("_")
    if not name or name[0].isdigit() or name == "tc" or name.startswith("tc_"):
        name = f"m_{name}".rstrip("_")
    if len(name) > most:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LETTERS]
        name = f"{name[: most - _DIGEST_LETTERS - 1]}_{digest}"
    return f"{name}_model" if name in _TAKEN else name


def some_of(names: Iterable[str], most: int = 5) -> str:
    """`a, b, c, d, e and 7 more`, for a message; each once."""
    every = list(dict.fromkeys(names))
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


class Names:
    """Hands out identifiers; a name asked for twice gets a number, so two never collide."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, preferred: str) -> str:
        """`preferred` as an identifier, with `_2`, `_3` ... if that one was given before."""
        base = identifier(preferred)
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
