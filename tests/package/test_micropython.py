# SPDX-License-Identifier: Apache-2.0
"""The module for MicroPython that the page shows, with a stand-in of its functions: its source cannot be had."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.package.tools import needed
from tinyc.package.facts import read_facts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "integrate.md"
RUNTIME = """
#include <stddef.h>
#include <stdint.h>
typedef void *mp_obj_t;
typedef struct { const void *type; } mp_obj_base_t;
typedef struct { void *buf; size_t len; int typecode; } mp_buffer_info_t;
typedef struct { uintptr_t key, value; } mp_rom_map_elem_t;
typedef struct { mp_obj_base_t base; const mp_rom_map_elem_t *table; size_t used; } mp_obj_dict_t;
typedef struct { mp_obj_base_t base; mp_obj_t (*fun)(mp_obj_t); } mp_obj_fun_builtin_fixed_t;
typedef struct { mp_obj_base_t base; mp_obj_dict_t *globals; } mp_obj_module_t;
typedef struct { int unused; } mp_obj_type_t;
extern const mp_obj_type_t mp_type_module, mp_type_RuntimeError;
enum { MP_QSTR___name__, MP_QSTR_kws, MP_QSTR_run };
#define MP_BUFFER_READ 1
#define MP_ERROR_TEXT(text) (text)
#define MP_ROM_QSTR(q) ((uintptr_t)(q))
#define MP_ROM_PTR(p) ((uintptr_t)(p))
#define MP_DEFINE_CONST_FUN_OBJ_1(name, f) const mp_obj_fun_builtin_fixed_t name = {{0}, (f)}
#define MP_DEFINE_CONST_DICT(name, rows) const mp_obj_dict_t name = {{0}, (rows), sizeof(rows) / sizeof((rows)[0])}
#define MP_REGISTER_MODULE(q, module) const mp_obj_module_t *const registered = &(module)
void mp_get_buffer_raise(mp_obj_t from, mp_buffer_info_t *info, unsigned flags);
_Noreturn void mp_raise_ValueError(const char *text);
_Noreturn void mp_raise_msg(const mp_obj_type_t *type, const char *text);
mp_obj_t mp_obj_new_bytes(const unsigned char *data, size_t size);
"""
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "py/runtime.h"
#include "kws.h"
extern const mp_obj_module_t *const registered;
const mp_obj_type_t mp_type_module, mp_type_RuntimeError;
void mp_get_buffer_raise(mp_obj_t from, mp_buffer_info_t *info, unsigned flags)
{
    (void)flags;
    *info = *(mp_buffer_info_t *)from;
}
void mp_raise_ValueError(const char *text)
{
    printf("ValueError: %s", text);
    exit(0);
}
void mp_raise_msg(const mp_obj_type_t *type, const char *text)
{
    (void)type;
    printf("RuntimeError: %s", text);
    exit(0);
}
mp_obj_t mp_obj_new_bytes(const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) { printf("%02x", data[i]); }
    return NULL;
}
int main(int argc, char **argv)
{
    static unsigned char x[KWS_INPUT_0_BYTES];
    mp_buffer_info_t given = {x, sizeof x - (size_t)(argc - 1), 0};
    (void)argv;
    memset(x, 7, sizeof x);
    for (size_t k = 0; k < registered->globals->used; k++) {
        if (registered->globals->table[k].key == MP_QSTR_run) {
            ((const mp_obj_fun_builtin_fixed_t *)registered->globals->table[k].value)->fun(&given);
        }
    }
    return 0;
}
"""


def test_the_module_of_the_page_runs_the_library(library: Path, tmp_path: Path) -> None:
    compiler, facts = needed("gcc"), read_facts(library)
    page = PAGE.read_text(encoding="utf-8").partition("## MicroPython")[2]
    (module,) = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    (tmp_path / "py").mkdir()
    (tmp_path / "py" / "runtime.h").write_text(RUNTIME)
    (tmp_path / "modkws.c").write_text(module)
    (tmp_path / "main.c").write_text(PROGRAM)
    for name, text in facts.files.items():
        (tmp_path / name).write_text(text)
    flags = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I.")
    call = [compiler, *flags, "modkws.c", "main.c", "kws.c", "-o", "program"]
    subprocess.run(call, cwd=tmp_path, check=True)

    def said(*words: str) -> str:
        return subprocess.run([tmp_path / "program", *words], capture_output=True, text=True, check=True).stdout

    size = int(re.search(r"KWS_OUTPUT_0_BYTES (\d+)", facts.files["kws.h"])[1])
    assert len(said()) == 2 * size
    assert len(set(re.findall("..", said()))) > 1
    assert said("shorter") == "ValueError: wrong size"


@pytest.mark.parametrize("kind", ["make", "cmake"])
def test_its_build_names_the_files_that_are_there(kind: str, library: Path) -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## MicroPython")[2]
    (text,) = re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)
    assert set(re.findall(r"/(\w+\.c)", text)) == {"modkws.c", "kws.c"}
    assert (library / "kws.c").is_file()
