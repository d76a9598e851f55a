# SPDX-License-Identifier: Apache-2.0
"""The kernels' headers in a library: those of runtime_c/, and those that the instruction layer prints."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tinyc.base.runtime_headers import header_of
from tinyc.kernels.scalar.loops import headers

_INCLUDED = re.compile(r'^#include "(tc_\w+\.h)"', re.MULTILINE)


def header_text(name: str, cores: frozenset[str] = headers.ALL) -> str:
    """The text of a header. cores: whose loops in assembly it has, as of `headers.cores_of`."""
    if name in headers.NAMES:
        return headers.text_of(name, cores)
    return header_of(name)


def with_included(names: Iterable[str], cores: frozenset[str] = headers.ALL) -> dict[str, str]:
    """Name -> text of these headers and of all that they include. cores: as of `header_text`."""
    texts: dict[str, str] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in texts:
            texts[name] = header_text(name, cores)
            pending += _INCLUDED.findall(texts[name])
    return texts
