# SPDX-License-Identifier: Apache-2.0
"""Names that mean something in the languages that tinyc generates. HOSTILE: any text; NO_CONTROL: without control
characters, as a model file may have them; FILE_NAMES: what a file system takes."""

from __future__ import annotations

import unicodedata

INJECTED = "injected_by_a_name"  # a word that no generated file may have outside a comment or a string

_C = (
    f"*/ int {INJECTED} = 1; /*",
    f"*\\ int {INJECTED} = 1; \\*",
    f"\\*/ int {INJECTED} = 1; /\\*",
    f"**// int {INJECTED} = 1; //**",
    f"*<2f> int {INJECTED} = 1;",
    f"*??/\n/ int {INJECTED} = 1; /??/\n*",
    f"*\\\n/ int {INJECTED} = 1; /\\\n*",
    "*/", "/*", "//", "/", "*", "*/*", "/*/", "**", "*\\",
    "\\", "\\\\", "ends with a backslash\\", "ends with a trigraph??/", "??/", "??=define X", "?" * 9,
    "%:define X", "<:", "L'x'", "\\u002a\\u002f", "\\x2a/",
    f"\n#define {INJECTED} 1\n", f"\r\n#define {INJECTED} 1\r\n", f"\n}}\nint {INJECTED};\n", "#error", "# 1 \"x\" 1",
    f"\"; int {INJECTED}; \"", "'", "\"", "'); drop", "__FILE__", "_Pragma(\"x\")", "asm(\"nop\")",
)  # fmt: skip
_TEMPLATES = (
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{# x",
    "${jndi}",
    "%s%n%d",
    "{0}",
    "$$",
    "$(touch x)",
    "`touch x`",
    "%{HOME}",
)
_ROBOT = (
    "${CURDIR}", "@{LIST}", "&{DICT}", "%{PATH}", "${{__import__('os')}}", "*** Test Cases ***", "two  spaces",
    " edges ", "\t tab", "| pipe |", "# not a comment", "name=value", "...", "\\n", "${EMPTY}",
)  # fmt: skip
_RENODE = ("$name", "@http://x", '"""', "`sysbus GetSymbolAddress`", "sysbus: x", "using sysbus", "; quit", "i @x")
_MARKUP = (
    "<svg onload=alert(1)>", "</text><script>x</script>", "&amp;", "&#0;", "]]>", "<!--", "[red]x[/red]", "[/]",
    ":cat:", "[link=file:///etc]x", "$\\frac{1}{$", "|cell|", "`code`", "--", "=1+1", ",;\t\"",
)  # fmt: skip
_LETTERS = (
    "", " ", ".", "-", "..", "../../x", "a/b", "while", "int", "3x3", "_", "tc_math", "stdint", "NULL", "é", "модель",
    "模型", "名前", "🐈", "👩‍👩‍👧", "\u202e*/ evil", "\u2066x\u2069", "\u200bzero", "\u2028line", "\u2029",
    "\x85next", "\ufeffbom", "\u00a0", "\u0000nul", "\x1b]0;title\x07", "\x9bcsi", "\x08\x08", "\x7f", "\x0c", "\x0b",
    "\x1b[31mred", "\ufffe", "\U000e0041", "\u017f", "\u0130", "x" * 10_000,
    "\\" * 10_000, "a.b", "a-b", "a b", "A_B", "a__b",
)  # fmt: skip

HOSTILE = tuple(dict.fromkeys((*_C, *_TEMPLATES, *_ROBOT, *_RENODE, *_MARKUP, *_LETTERS)))
NO_CONTROL = tuple(
    name for name in HOSTILE if name and not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name)
)
FILE_NAMES = tuple(
    name for name in HOSTILE if name.strip(".") and not {"/", "\0"} & set(name) and len(name.encode()) < 200
)
