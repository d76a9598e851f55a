# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators.md from the code, or with --check says whether it is up to date (exit code 1 if not)."""

from __future__ import annotations

import sys
from pathlib import Path

from tinyc.explain.operator_page import operator_page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"


def main() -> int:
    text = operator_page()
    if "--check" in sys.argv[1:]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE.name} is not what the code says: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
