# SPDX-License-Identifier: Apache-2.0
"""Writes tinyc/load/onnx/homes.py, or with --check says whether it is up to date (exit code 1 if not)."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from tinyc.load.onnx.every import IMPORTERS, LEARNING, RUNTIME
from tinyc.load.onnx.file import MICROSOFT, ML_DOMAIN
from tinyc.load.onnx.importing import WHOLE

FILE = Path(__file__).resolve().parents[1] / "tinyc" / "load" / "onnx" / "homes.py"
_HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""By ONNX operator, with its domain unless that is the standard one: the modules beside this one that have its
importers. Written by `make docs`; do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

HOMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
'''


def homes() -> str:
    """The whole file. The same code gives the same text."""
    modules: dict[str, set[str]] = defaultdict(set)
    for prefix, importers in (("", IMPORTERS), ("", WHOLE), (f"{ML_DOMAIN}.", LEARNING), (f"{MICROSOFT}.", RUNTIME)):
        for operator, importer in importers.items():
            modules[prefix + operator].add(importer.__module__.rpartition(".")[2])
    lines = []
    for operator, names in sorted(modules.items()):
        each = ", ".join(f'"{name}"' for name in sorted(names))
        lines.append(f'        "{operator}": ({each}{"," * (len(names) == 1)}),\n')
    return _HEAD + "".join(lines) + "    }\n)\n"


def main() -> int:
    text = homes()
    if "--check" in sys.argv[1:]:
        if FILE.is_file() and FILE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{FILE.name} is not what the code says: run `make docs`", file=sys.stderr)
        return 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
