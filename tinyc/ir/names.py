# SPDX-License-Identifier: Apache-2.0
"""Names of values and nodes that are made beside those of the model."""

from __future__ import annotations

from collections.abc import Collection


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number from 2 on that nothing is called by."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}#{number}"
    return name
