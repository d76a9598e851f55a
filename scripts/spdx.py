# SPDX-License-Identifier: Apache-2.0
"""The line that says under which licence a source file stands: `python scripts/spdx.py` writes it where it is missing.

What goes into a user's project (runtime_c/, templates/, some folders of examples/) stands under 0BSD, all else under
Apache-2.0: docs/licence.md. tests/unit/test_licence.py holds every file to it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[1]
TAG = "SPDX-License-Identifier"
_EXAMPLES = ("ci", "listen", "projects", "update")
GIVEN = ("runtime_c/", "templates/", *(f"examples/{name}/" for name in _EXAMPLES))  # into what a user makes
_HASH = (".py", ".sh", ".robot", ".yml", ".toml", ".properties", ".txt", ".cmake", ".conf")
_SLASHES = (".repl", ".rs")
_STARS = (".c", ".h", ".in", ".S", ".ld", ".hpp", ".cpp", ".ino")
_PLAIN = ("Makefile", "Kconfig")
_ELSEWHERE = ("tests/golden/", "boards/", "LICENSES/", "REUSE.toml", "pyproject.toml")  # REUSE.toml says it


def licence_of(file: str) -> str:
    """The SPDX identifier of a file of the project, by its path from the root."""
    return "0BSD" if file.startswith(GIVEN) else "Apache-2.0"


def line_of(file: str) -> str | None:
    """The line that the file begins with; None for files that have no comments, and for those of REUSE.toml."""
    path = PurePath(file.removesuffix(".j2"))
    text = f"{TAG}: {licence_of(file)}"
    if file.startswith(_ELSEWHERE):
        return None
    if path.suffix in _HASH or path.name in _PLAIN:
        return f"# {text}"
    if path.suffix in _SLASHES:
        return f"// {text}"
    return f"/* {text} */" if path.suffix in _STARS else None


def has_line(file: str) -> bool:
    """Whether the line is there, first or behind what names the interpreter. Of a template that others include, it is
    the template's own."""
    first = (ROOT / file).read_text(encoding="utf-8").split("\n", 2)[:2]
    return line_of(file) in first or f"{{# {TAG}: {licence_of(file)} #}}" in first


def sources() -> list[str]:
    """Files of the project that begin with such a line."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [file for file in listed.splitlines() if line_of(file) is not None and (ROOT / file).is_file()]


def main() -> None:
    for file in sources():
        if not has_line(file):
            text = (ROOT / file).read_text(encoding="utf-8")
            first, rest = text.split("\n", 1) if text.startswith("#!") else ("", text)
            (ROOT / file).write_text(f"{first}\n" * bool(first) + f"{line_of(file)}\n{rest}", encoding="utf-8")
            print(file)


if __name__ == "__main__":
    main()
