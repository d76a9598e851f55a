# SPDX-License-Identifier: Apache-2.0
"""Names of values and nodes that are made beside those of the model."""

from __future__ import annotations

from collections.abc import Collection


def free_name(preferred: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number from 2 on that nothing is called by."""
    name, number = preferred, 1
    while name in taken:
        number += 1
        name = f"{preferred}#{number}"
    return name
