# SPDX-License-Identifier: Apache-2.0
"""The importers of all operators, for what lists them. A model needs those of its own alone: `loading.py`."""

from __future__ import annotations

from tinyc.load.onnx.importing import IMPORTERS, LEARNING, RUNTIME
from tinyc.load.onnx.loading import load_every_importer

__all__ = ["IMPORTERS", "LEARNING", "RUNTIME"]

load_every_importer()
