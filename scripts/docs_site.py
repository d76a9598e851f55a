# SPDX-License-Identifier: Apache-2.0
"""The site of the documentation: `python scripts/docs_site.py [FOLDER]` (make site), by default in build/site.

Pages and what they link to are laid out as in the repository, so that every link means the same there and here; the
reference of the command line and of Python is written from the code. mkdocs builds the rest, strictly.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import tinyc
from tinyc.cli import app

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ROOT / "build" / "site"
WRITTEN = {"docs/cli.md": "cli_page", "docs/api.md": "api_page"}
_LINK = re.compile(r"\]\(([^)\s#]+)")
_CODE = re.compile(r"^```[\s\S]*?^```$|^    .*$", re.MULTILINE)


def lay_out(folder: Path) -> None:
    """The pages, and all files of the repository that they link to, with the reference pages."""
    waiting = [*(ROOT / name for name in sections() if name not in WRITTEN), *sorted((ROOT / "docs").glob("*.md"))]
    done: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in done:
            continue
        done.add(file)
        place = folder / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
        if file.suffix == ".md":
            waiting += [linked for linked in _links(file) if linked.is_file()]
    for name, page in WRITTEN.items():
        (folder / name).write_text(globals()[page](), encoding="utf-8")


def sections() -> list[str]:
    """The pages that the sections of the site name, in their order."""
    return re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def configuration() -> str:
    """mkdocs.yml, whose sections stand last in it, with a section for pages that it does not name."""
    named = sections()
    others = [name for page in sorted((ROOT / "docs").glob("*.md")) if (name := f"docs/{page.name}") not in named]
    more = "".join(f"      - {name}\n" for name in others)
    return (ROOT / "mkdocs.yml").read_text(encoding="utf-8") + ("  - More:\n" + more if more else "")


def _links(page: Path) -> Iterator[Path]:
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target:
            yield (page.parent / target).resolve()


def cli_page() -> str:
    """Every command with its arguments and options, as the parser knows them."""
    parts = ["# Commands\n", "Written from the code. `tinyc COMMAND --help` says the same.\n"]
    for name in app.COMMANDS:
        command = app.load_command(name)
        parts += [f"## tinyc {name}\n", f"{_cell(command.help)}\n", "| | | default |", "|---|---|---|"]
        parts += [_parameter(each) for each in command.params]
        parts.append("")
    return "\n".join(parts)


def _parameter(each: Any) -> str:
    """A row: names with what they take, help, default."""
    named = each.metavar or each.name.upper()
    if each.param_type_name == "option":
        named = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        named += "" if each.is_flag else f" {_takes(each)}"
    default = each.show_default if isinstance(each.show_default, str) else each.default
    unsaid = default in (None, False) or each.show_default is False or callable(default)
    named = named.replace("|", "\\|")
    return f"| {named} | {_cell(each.help)} | {'' if unsaid else _cell(str(getattr(default, 'value', default)))} |"


def _takes(option: Any) -> str:
    """`BYTES`, or the words that it may be."""
    kind = option.type_descriptor.annotation
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return str(option.metavar or getattr(kind, "__name__", "")).upper().replace("STR", "TEXT")


def _cell(text: str | None) -> str:
    return _plain(" ".join((text or "").split()).replace("|", "\\|"))


def _plain(text: str) -> str:
    """Text in which nothing but code in backticks has angle brackets, which would be HTML."""
    return re.sub(r"`[^`]*`|<", lambda thing: "&lt;" if thing[0] == "<" else thing[0], text)


def api_page() -> str:
    """What `import tinyc` offers: functions with their parameters, classes with their fields and methods."""
    parts = ["# Python\n", "Written from the code. [python.md](python.md) shows how it is used.\n"]
    for name in sorted(tinyc.__all__):
        public = getattr(tinyc, name)
        if inspect.isclass(public) or callable(public):
            parts += [f"## tinyc.{name}\n", *_described(name, public)]
    return "\n".join(parts)


def _described(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield f"```python\n{_signature(name, thing)}\n```\n"
    yield _plain(f"{inspect.getdoc(thing) or ''}\n")
    if inspect.isclass(thing):
        if dataclasses.is_dataclass(thing):
            yield "| field | type |\n|---|---|"
            yield "\n".join(f"| `{field.name}` | `{_cell(str(field.type))}` |" for field in dataclasses.fields(thing))
            yield ""
        for method, function in vars(thing).items():
            if not method.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
                yield f"`.{method}`: {_cell(inspect.getdoc(function))}\n"


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Of a function, with the options that it shares with others (`**options: Unpack[...]`) one by one."""
    listed: list[inspect.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        shared = get_args(get_type_hints(function)[each.name]) if each.kind is each.VAR_KEYWORD else ()
        if shared:
            names = inspect.get_annotations(shared[0])
            listed += [inspect.Parameter(name, each.KEYWORD_ONLY, annotation=kind) for name, kind in names.items()]
        else:
            listed.append(each)
    return listed


def _signature(name: str, function: Callable[..., Any]) -> str:
    """One parameter a line where there are many; `= ...` is one that may be left out."""
    lines, star = [], False
    for each in parameters(function):
        if each.kind is each.KEYWORD_ONLY and not star:
            lines.append("*")
            star = True
        lines.append(f"{each.name}: {_type(each.annotation)}" + ("" if _is_needed(each) else f" = {_default(each)}"))
    gives = f") -> {_type(inspect.signature(function).return_annotation)}"
    text = f"tinyc.{name}({', '.join(lines)}{gives}"
    return text if len(text) <= 100 else "\n".join([f"tinyc.{name}(", *(f"    {line}," for line in lines), gives])


def _type(annotation: Any) -> str:
    """As it stands in the source, where modules of annotations are text."""
    return str(annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", annotation))


def _is_needed(each: inspect.Parameter) -> bool:
    return each.default is each.empty and each.kind is not each.KEYWORD_ONLY


def _default(each: inspect.Parameter) -> str:
    return "..." if each.default is each.empty else repr(each.default)


def build(out: Path) -> None:
    """The site in `out`; what mkdocs says, and its exit code, where it fails."""
    with tempfile.TemporaryDirectory(prefix="tinyc-site-") as folder:
        pages, settings = Path(folder) / "pages", Path(folder) / "mkdocs.yml"
        lay_out(pages)
        settings.write_text(configuration(), encoding="utf-8")
        where = {"TINYC_SITE_PAGES": str(pages), "TINYC_SITE": str(out.resolve()), "NO_MKDOCS_2_WARNING": "1"}
        call = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(settings)]
        done = subprocess.run(call, env={**os.environ, **where}, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            sys.exit(done.returncode)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
