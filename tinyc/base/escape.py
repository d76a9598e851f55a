# SPDX-License-Identifier: Apache-2.0
"""Foreign text (names of a model, a board, a file) in generated text: the one place that knows each language.

A filter takes any text and returns one of the types below, whose text means nothing but itself in that language. The
templates of a language print numbers, words and that language's type, and nothing else (templates.py): a name that went
through no filter, or through another language's, cannot be printed.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

MOST_LETTERS = 1000  # of a name in a comment: C99 promises lines of 4,095
_WORD = re.compile(r"[A-Za-z0-9_]*")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Text(str):
    """Text of a generated language, made by a filter of it or written by tinyc itself."""


class C(Text):
    """C99, and linker scripts, whose comments are the same."""


class Robot(Text):
    """Robot Framework's plain text format."""


class Monitor(Text):
    """A script of Renode's monitor (.resc)."""


class Platform(Text):
    """A platform description of Renode (.repl)."""


class CMake(Text):
    """CMake's language."""


class Kconfig(Text):
    """The configuration language of Linux, Zephyr and ESP-IDF."""


class Toml(Text):
    """TOML."""


class Json(Text):
    """JSON, which has no comments."""


class Yaml(Text):
    """YAML, for which a JSON string is a double-quoted scalar."""


class Xml(Text):
    """XML."""


class Html(Text):
    """HTML, and SVG in it: outside of scripts and styles, or between double quotes."""


class Rust(Text):
    """Rust."""


class Properties(Text):
    """Lines of `key=value`, to their ends, as Arduino's library.properties; and its keywords.txt."""


class Markdown(Text):
    """Markdown, read by whatever program."""


_T = TypeVar("_T", bound=Text)


def is_word(value: object) -> bool:
    """Whether a value is a whole number, or letters, digits and underscores alone: harmless in every language."""
    if isinstance(value, str):
        return _WORD.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def visible(text: object) -> str:
    """One line without control, bidirectional and other invisible characters: `\\x1b`, `\\u202e`, `\\n` for them."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in str(text))


def visible_lines(text: str) -> str:
    """`visible`, but for the ends of lines."""
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def c_comment(text: object) -> C:
    """Inside a block comment. ASCII, since a compiler may read other bytes in the encoding of its own locale; no star,
    so that no comment ends or begins; no backslash, so that no line goes on; no trigraph. Others are `<2a>`.
    """
    ascii_text = "".join(letter if _plain(letter, "*\\") else f"<{ord(letter):x}>" for letter in str(text))
    return C(_cut(ascii_text.replace("??", "?<3f>")))


def c_string(text: object) -> C:
    """Between the quotes of a string literal, as UTF-8."""
    data = str(text).encode("utf-8", "backslashreplace").decode("latin-1")
    return C("".join(byte if _plain(byte, '"\\?') else f"\\{ord(byte):03o}" for byte in data))


def c_words(values: Iterable[object]) -> C:
    """Whole numbers or identifiers with commas between them. ValueError for anything else."""
    return C(", ".join(_word(value) for value in values))


def c_include(name: object) -> C:
    """The name of a header between the quotes of an include. ValueError for anything else."""
    return C(_file(name))


def robot_comment(text: object) -> Robot:
    """In a comment to the end of a line."""
    return Robot(_cut(visible(text)))


def robot_cell(text: object) -> Robot:
    """An argument of a keyword: no variables, no escapes, and spaces that do not end the cell."""
    cell = "".join(f"\\{letter}" if letter in "\\$@%&#=|" else visible(letter) for letter in str(text))
    cell = re.sub(r"(?<= ) |^ | $", r"\\x20", cell)
    return Robot(cell or "${EMPTY}")


def monitor_line(text: object) -> Monitor:
    """To the end of a line that is no command, as `:name:` is."""
    return Monitor(_cut(visible(text)))


def monitor_file(name: object) -> Monitor:
    """The name of a file, after `$ORIGIN/`. ValueError for one that is more than letters, digits, `.`, `_` and `-`."""
    return Monitor(_file(name))


def monitor_string(text: object) -> Monitor:
    """Between quotes."""
    return Monitor(_quoted(text))


def platform_comment(text: object) -> Platform:
    """In a comment to the end of a line."""
    return Platform(_cut(visible(text)))


def platform_string(text: object) -> Platform:
    """Between quotes."""
    return Platform(_quoted(text))


def line_comment(language: type[_T]) -> Callable[[object], _T]:
    """The filter for a comment to the end of a line."""
    return lambda text: language(_cut(visible(text)))


def quoted(language: type[_T], special: str) -> Callable[[object], _T]:
    """The filter for text between double quotes, where a backslash takes the meaning from what follows it."""
    return lambda text: language(re.sub(f"[{re.escape(special)}]", r"\\\g<0>", visible(text)))


def json_text(language: type[_T]) -> Callable[[object], _T]:
    """The filter for text between the quotes of a JSON string."""
    return lambda text: language(json.dumps(visible(text), ensure_ascii=False)[1:-1])


def version_of(language: type[_T]) -> Callable[[object], _T]:
    """The filter for a version, numbers with points between them, which no language minds. ValueError for others."""

    def version(text: object) -> _T:
        if not re.fullmatch(r"\d+(\.\d+)*", str(text)):
            raise ValueError(f"{text!r} is no version")
        return language(text)

    return version


def kconfig_text(text: object) -> Kconfig:
    """Between double quotes or in a comment; quotes, backslashes and dollars, which begin a macro, as `<24>`."""
    return Kconfig("".join(f"<{ord(letter):x}>" if letter in "\"\\$'" else letter for letter in _cut(visible(text))))


def markdown_text(text: object) -> Markdown:
    """In a sentence: every ASCII sign as an entity, so that none is markup."""
    return Markdown(
        "".join(f"&#{ord(x)};" if x.isascii() and not x.isalnum() and x != " " else x for x in visible(text))
    )


def float_literal(value: float) -> str:
    """A literal of the nearest float32 in Rust, and in C but for its `f`; nine digits identify every float32."""
    text = f"{struct.unpack('f', struct.pack('f', value))[0]:.9g}"
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def xml_text(text: object) -> str:
    """Text or an attribute's value in XML, which has no control characters at all."""
    return "".join(_ENTITIES.get(letter, letter) for letter in visible(text))


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}

FILTERS: Mapping[type[Text], Mapping[str, Callable[..., Text]]] = {
    C: {"comment": c_comment, "string": c_string, "words": c_words, "include": c_include},
    Robot: {"comment": robot_comment, "cell": robot_cell},
    Monitor: {"line": monitor_line, "string": monitor_string, "file": monitor_file},
    Platform: {"comment": platform_comment, "string": platform_string},
    CMake: {"comment": line_comment(CMake), "string": quoted(CMake, '\\"$@')},
    Kconfig: {"comment": kconfig_text, "string": kconfig_text},
    Toml: {"comment": line_comment(Toml), "string": quoted(Toml, '\\"')},
    Json: {"string": json_text(Json)},
    Yaml: {"comment": line_comment(Yaml), "string": json_text(Yaml)},
    Xml: {"string": lambda text: Xml(xml_text(text))},
    Html: {"string": lambda text: Html(xml_text(text))},
    Rust: {"comment": line_comment(Rust), "string": quoted(Rust, '\\"'), "float": lambda x: Rust(float_literal(x))},
    Properties: {"string": line_comment(Properties)},
    Markdown: {"string": markdown_text},
}


def _quoted(text: object) -> str:
    return re.sub(r'[\\"]', r"\\\g<0>", visible(text))


def _word(value: object) -> str:
    if not is_word(value):
        raise ValueError(f"{value!r} is no word")
    return str(value)


def _file(name: object) -> str:
    if not _FILE.fullmatch(str(name)):
        raise ValueError(f"{name!r} is no plain file name")
    return str(name)


def _plain(letter: str, special: str) -> bool:
    return " " <= letter <= "~" and letter not in special


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}..."
