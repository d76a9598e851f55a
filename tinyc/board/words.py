# SPDX-License-Identifier: Apache-2.0
"""What the texts of a board file may be. They go into generated files and onto command lines: a board file describes a
machine, and can make no program of this computer read, write or run anything else."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tinyc.board.table import TomlTable, shown

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 ._+-]{0,63}")
_QEMU = re.compile(r"qemu-system-[a-z0-9_]+")

# Flags that say what the target is, and nothing of files, plugins or other programs.
_FLAG = re.compile(
    r"-m(?!llvm)[a-z0-9][\w.+=,-]*"
    r"|-fno-[a-z0-9-]+"
    r"|-f(freestanding|short-enums|short-wchar|signed-char|unsigned-char|common|pic|PIC|pie|PIE)"
    r"|-[DU][A-Za-z_]\w*(=[\w.+-]*)?"
    r"|--target=[\w.+-]+"
    r"|-E[BL]"
)
_FLAG_WITH_WORD = ("-target",)
_FLAG_HINT = "flags may be -m..., -fno-..., -ffreestanding, -D..., -U..., -target NAME and the like"

_QEMU_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "-bios": re.compile(r"none"),
    "-cpu": re.compile(r"[\w.+-]+(,[\w.+-]+=\w+)*"),
    "-global": re.compile(r"[\w.-]+=[\w.{}-]+"),
    "-icount": re.compile(r"shift=\d+"),
    "-m": re.compile(r"\w+"),
    "-smp": re.compile(r"\d+"),
}


def read_word(table: TomlTable, key: str) -> str:
    """A name of the board or of one of its parts."""
    return _matching(table, key, _WORD, "letters, digits, '.', '_', '+' and '-', at most 64")


def read_label(table: TomlTable, key: str) -> str:
    """The label of a drive, which is the name of a folder where it is mounted."""
    return _matching(table, key, _LABEL, "letters, digits, spaces, '.', '_', '+' and '-', at most 64")


def read_qemu_program(table: TomlTable, key: str) -> str:
    """The name of a QEMU, without a folder."""
    return _matching(table, key, _QEMU, "the name of a QEMU, like qemu-system-arm")


def _matching(table: TomlTable, key: str, pattern: re.Pattern[str], what: str) -> str:
    value = table.string(key)
    if not pattern.fullmatch(value):
        raise table.error(key, f"is {shown(value)}; it must be {what}")
    return value


def read_flags(table: TomlTable, key: str) -> tuple[str, ...]:
    """Flags of a compiler."""
    flags = table.strings(key)
    waiting = ""
    for flag in flags:
        if not (_WORD if waiting else _FLAG).fullmatch(flag) and (waiting or flag not in _FLAG_WITH_WORD):
            raise table.error(key, f"has {shown(flag)}, which is not for a board to say; {_FLAG_HINT}")
        waiting = flag if not waiting and flag in _FLAG_WITH_WORD else ""
    if waiting:
        raise table.error(key, f"ends with {shown(waiting)}: a word must follow it")
    return flags


def read_qemu_arguments(table: TomlTable, key: str) -> tuple[str, ...]:
    """Options of QEMU, each with its value."""
    words = table.strings(key, ())
    for option, value in zip(words[::2], (*words[1::2], ""), strict=False):
        legal = _QEMU_OPTIONS.get(option)
        if legal is None or not legal.fullmatch(value):
            allowed = ", ".join(_QEMU_OPTIONS)
            raise table.error(key, f"has {shown(option)} {shown(value)}; options with a plain value may be: {allowed}")
    return words
