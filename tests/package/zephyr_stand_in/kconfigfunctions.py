# SPDX-License-Identifier: Apache-2.0
"""Functions of Zephyr's Kconfig that ask the devicetree, for a board that has chosen what CHOSEN says."""

from __future__ import annotations

import os


def dt_chosen_enabled(kconf: object, name: str, chosen: str) -> str:
    """y if the devicetree has chosen such a node."""
    return "y" if chosen in os.environ.get("CHOSEN", "").split() else "n"


functions = {"dt_chosen_enabled": (dt_chosen_enabled, 1, 1)}  # as kconfiglib wants it: how many arguments
