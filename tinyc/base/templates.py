# SPDX-License-Identifier: Apache-2.0
"""Templates of generated files. A template of a language prints nothing that could end the place it stands in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import jinja2

from tinyc.base import escape, paths
from tinyc.base.escape import Text

LANGUAGES: Mapping[str, type[Text]] = {
    ".c": escape.C,
    ".h": escape.C,
    ".ld": escape.C,
    ".robot": escape.Robot,
    ".resc": escape.Monitor,
    ".repl": escape.Platform,
    ".S": escape.C,
    ".cpp": escape.C,
    ".hpp": escape.C,
    ".ino": escape.C,
    ".cmake": escape.CMake,
    "CMakeLists.txt": escape.CMake,
    "Makefile": escape.CMake,  # which prints words alone, as ".mk" does
    ".mk": escape.CMake,
    "Kconfig": escape.Kconfig,
    ".conf": escape.Kconfig,
    ".toml": escape.Toml,
    ".json": escape.Json,
    ".yml": escape.Yaml,
    ".yaml": escape.Yaml,
    ".pdsc": escape.Xml,
    ".html": escape.Html,
    ".rs": escape.Rust,
    ".properties": escape.Properties,
    ".ini": escape.Properties,
    "keywords.txt": escape.Properties,
    ".md": escape.Markdown,
}  # by the name of the generated file, or by its suffix


def render(template: str, values: Mapping[str, Any], filters: Mapping[str, Callable[..., Any]] | None = None) -> str:
    """The text of a template of templates/, named with its folder: `firmware/vectors.h.j2`.

    Its name without `.j2` says its language. It prints whole numbers, words and text of that language; ValueError
    for anything else, and for a value that was not given. filters: beside those of the language.
    """
    path = PurePath(template.removesuffix(".j2"))
    language = LANGUAGES.get(path.name) or LANGUAGES[path.suffix]
    return _environment(language, tuple((filters or {}).items())).get_template(template).render(values)


@functools.cache
def _environment(language: type[Text], filters: tuple[tuple[str, Callable[..., Any]], ...]) -> jinja2.Environment:
    def printed(value: object) -> object:
        if isinstance(value, (jinja2.Undefined, language)) or escape.is_word(value):
            return value
        raise ValueError(f"a template of {language.__name__} prints {value!r}: give it a filter of the language")

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.templates_dir()),
        undefined=jinja2.StrictUndefined,
        finalize=printed,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    both = {"version": escape.version_of(language), **escape.FILTERS[language]}
    environment.filters.update({**both, **dict(filters)})
    return environment
