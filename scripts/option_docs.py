# SPDX-License-Identifier: Apache-2.0
"""Writes docs/options.md and tinyc/options/keywords.py from where each option is declared; a test compares them."""

from __future__ import annotations

from pathlib import Path

from tinyc.explain.option_page import keyword_types, option_page

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = {"docs/options.md": option_page, "tinyc/options/keywords.py": keyword_types}


def main() -> None:
    for name, text in WRITTEN.items():
        (ROOT / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
