# SPDX-License-Identifier: Apache-2.0
"""A model that ends earlier than its file says: at tensors that the user names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible


def check_outputs(asked: Sequence[str], computed: Collection[str], where: Loc) -> None:
    """Raise TinycError, with names that are near, unless operators of the file make all that is asked for."""
    for name in asked:
        if name not in computed:
            near = difflib.get_close_matches(name, list(computed), n=3)
            hint = f"did you mean {', '.join(map(visible, near))}?" if near else "`tinyc inspect` lists the layers"
            raise TinycError(f"no operator of the model makes a tensor '{visible(name)}'", where, hint)
    if len(set(asked)) < len(asked):
        raise TinycError("an output is named twice", where, "name each once")
