# SPDX-License-Identifier: Apache-2.0
"""Importers register themselves when their module is imported; a model's operators say which modules those are."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tinyc.load.onnx.homes import HOMES, ON_INTEGERS

_ROOM = __name__.rpartition(".")[0]


def load_importer(operator: str, *, on_integers: bool = False) -> None:
    """Import the module with an operator's importer. operator: `OnnxNode.full_name`; one that the lists do not have may
    be in any module. on_integers: that of plain integers, which many operators have apart."""
    homes = (ON_INTEGERS, HOMES) if on_integers else (HOMES, ON_INTEGERS)
    home = next((home[operator] for home in homes if operator in home), None)
    if home is None:
        load_every_importer()
    else:
        importlib.import_module(f"{_ROOM}.{home}")


def load_every_importer() -> None:
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name != "every":  # which waits for this
            importlib.import_module(f"{_ROOM}.{module.name}")
