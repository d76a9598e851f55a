# SPDX-License-Identifier: Apache-2.0
"""Importers register themselves when their module is imported; a model's operators say which modules those are."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tinyc.load.onnx.homes import HOMES

_ROOM = __name__.rpartition(".")[0]


def load_importers(operator: str) -> None:
    """Import the modules with an operator's importers. operator: `OnnxNode.full_name`; one that the list does not have
    may be in any module."""
    if operator in HOMES:
        for home in HOMES[operator]:
            importlib.import_module(f"{_ROOM}.{home}")
    else:
        load_every_importer()


def load_every_importer() -> None:
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name != "every":  # which waits for this
            importlib.import_module(f"{_ROOM}.{module.name}")
