# SPDX-License-Identifier: Apache-2.0
"""Writes tinyc/load/onnx/homes.py, or with --check says whether it is up to date (exit code 1 if not)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tinyc.load.onnx.every import IMPORTERS, LEARNING, RUNTIME
from tinyc.load.onnx.file import MICROSOFT, ML_DOMAIN
from tinyc.load.onnx.importing import WHOLE, Importer
from tinyc.load.onnx.qoperator import SPELLINGS

FILE = Path(__file__).resolve().parents[1] / "tinyc" / "load" / "onnx" / "homes.py"
_HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""By ONNX operator, with its domain unless that is the standard one: the module beside this one that has its importer,
and the module that has its importer of plain integers. And the operators on integers that become others before they
are imported, by `qoperator.py`. Written by `make docs`; do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
'''


def homes() -> str:
    """The whole file. The same code gives the same text."""
    by_domain = ("", IMPORTERS), (f"{ML_DOMAIN}.", LEARNING), (f"{MICROSOFT}.", RUNTIME)
    every = {f"{prefix}{operator}": one for prefix, importers in by_domain for operator, one in importers.items()}
    return "\n".join((_HEAD, _table("HOMES", every), _table("ON_INTEGERS", WHOLE), _spelled()))


def _spelled() -> str:
    names = sorted(f"{domain}.{name}" if domain else name for domain, name in SPELLINGS)
    lines = "".join(f'        "{name}",\n' for name in names)
    return f"SPELLED_OUT: frozenset[str] = frozenset(\n    {{\n{lines}    }}\n)\n"


def _table(name: str, importers: Mapping[str, Importer]) -> str:
    lines = (
        f'        "{operator}": "{importer.__module__.rpartition(".")[2]}",\n'
        for operator, importer in sorted(importers.items())
    )
    return f"{name}: Mapping[str, str] = MappingProxyType(\n    {{\n{''.join(lines)}    }}\n)\n"


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
