# SPDX-License-Identifier: Apache-2.0
"""The package for MicroPython, in the firmware and as a native module, with a stand-in of MicroPython's functions.

The stand-in has what py/runtime.h and py/dynruntime.h of MicroPython 1.29 offer to the module, and no more.
docs/integrate.md says what was tried with MicroPython itself.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import onnx
import pytest

import tinyc
from tests.load.onnx_models import build, op
from tests.package.conftest import Packed
from tests.package.tools import needed
from tinyc.package.facts import read_facts
from tinyc.package.kinds import kinds_of
from tinyc.package.make import DEFAULT_VERSION, write_package

RUNTIME = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef const void *mp_obj_t;
typedef struct { const void *type; } mp_obj_base_t;
typedef struct { void *buf; size_t len; int typecode; } mp_buffer_info_t;
typedef struct { uintptr_t key, value; } mp_rom_map_elem_t;
typedef struct { mp_obj_base_t base; const mp_rom_map_elem_t *table; size_t used; } mp_obj_dict_t;
typedef struct { size_t most; mp_obj_t (*none)(void), (*one)(mp_obj_t), (*any)(size_t, const mp_obj_t *); } function_t;
typedef struct { mp_obj_base_t base; mp_obj_dict_t *globals; } mp_obj_module_t;
typedef struct { int unused; } mp_obj_fun_bc_t;
typedef struct { int unused; } mp_obj_type_t;
extern const mp_obj_type_t mp_type_module;
extern const char none[];
enum { MP_QSTR___name__, MP_QSTR_kws, MP_QSTR_run, MP_QSTR_push, MP_QSTR_reset, MP_QSTR_selftest, MP_QSTR___init__ };
#define mp_const_none ((mp_obj_t)none)
#define MP_BUFFER_READ 1
#define MP_ERROR_TEXT(text) (text)
#define MP_ROM_QSTR(q) ((uintptr_t)(q))
#define MP_ROM_PTR(p) ((uintptr_t)(p))
#define MP_OBJ_FROM_PTR(p) ((mp_obj_t)(p))
#define MP_DEFINE_CONST_FUN_OBJ_0(name, f) const function_t name = {0, f, NULL, NULL}
#define MP_DEFINE_CONST_FUN_OBJ_1(name, f) const function_t name = {1, NULL, f, NULL}
#define MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(name, least, most, f) const function_t name = {most, NULL, NULL, f}
#define MP_DEFINE_CONST_DICT(name, rows) const mp_obj_dict_t name = {{0}, (rows), sizeof(rows) / sizeof((rows)[0])}
#define MP_REGISTER_MODULE(q, module) const mp_obj_module_t *const registered = &(module)
#define MP_DYNRUNTIME_INIT_ENTRY (void)self, (void)n_args, (void)n_kw, (void)args;
#define MP_DYNRUNTIME_INIT_EXIT return mp_const_none;
void mp_get_buffer_raise(mp_obj_t from, mp_buffer_info_t *info, unsigned flags);
_Noreturn void mp_raise_ValueError(const char *text);
mp_obj_t mp_obj_new_bytes(const unsigned char *data, size_t size);
mp_obj_t mp_obj_new_tuple(size_t count, const mp_obj_t *items);
mp_obj_t mp_obj_new_bool(bool value);
void mp_store_global(int name, mp_obj_t object);
"""
# Calls reset where there is one, selftest, then run or push on an input of sevens, whose size is the first argument.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "py/runtime.h"
const mp_obj_type_t mp_type_module;
const char none[] = "none";
static const function_t *globals[8];
void mp_store_global(int name, mp_obj_t object) { globals[name] = object; }
void mp_get_buffer_raise(mp_obj_t from, mp_buffer_info_t *info, unsigned flags)
{
    (void)flags;
    *info = *(const mp_buffer_info_t *)from;
}
void mp_raise_ValueError(const char *text)
{
    printf("ValueError: %s", text);
    exit(0);
}
mp_obj_t mp_obj_new_bytes(const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) { printf("%02x", data[i]); }
    return "bytes";
}
mp_obj_t mp_obj_new_tuple(size_t count, const mp_obj_t *items)
{
    (void)items;
    printf(" %d", (int)count);
    return "tuple";
}
mp_obj_t mp_obj_new_bool(bool value)
{
    printf("%d ", value);
    return "bool";
}
#ifdef MICROPY_ENABLE_DYNRUNTIME
mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args);
#else
extern const mp_obj_module_t *const registered;
#endif
int main(int argc, char **argv)
{
    static unsigned char x[1 << 16];
    mp_buffer_info_t given = {x, strtoul(argv[argc - 1], NULL, 10), 0};
    const mp_obj_t inputs[] = {&given, &given};
    memset(x, 7, sizeof x);
#ifdef MICROPY_ENABLE_DYNRUNTIME
    mpy_init(NULL, 0, 0, NULL);
#else
    for (size_t k = 0; k < registered->globals->used; k++) {
        const mp_rom_map_elem_t *row = &registered->globals->table[k];
        if (row->key != MP_QSTR___name__) { globals[row->key] = (const function_t *)row->value; }
    }
#endif
    globals[MP_QSTR_selftest]->none();
    if (globals[MP_QSTR_reset]) { globals[MP_QSTR_reset]->none(); }
    if (globals[MP_QSTR_run]) { globals[MP_QSTR_run]->any(globals[MP_QSTR_run]->most, inputs); }
    for (int k = 0; globals[MP_QSTR_push] && k < 8; k++) {
        if (globals[MP_QSTR_push]->one(&given) == mp_const_none) { printf("none "); }
    }
    return 0;
}
"""
FORMS = {"firmware": (), "native": ("-DMICROPY_ENABLE_DYNRUNTIME",)}


def program(package: Path, folder: Path, *flags: str) -> Path:
    """The module with the stand-in, compiled for this computer."""
    (folder / "py").mkdir()
    for name in ("runtime.h", "dynruntime.h"):
        (folder / "py" / name).write_text(RUNTIME)
    (folder / "main.c").write_text(PROGRAM)
    warnings = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", f"-I{folder}", f"-I{package}")
    files = [package / "kws_module.c", package / "kws.c", folder / "main.c"]
    subprocess.run([needed("gcc"), *warnings, *flags, *files, "-o", folder / "program"], check=True)
    return folder / "program"


def said(program_file: Path, size: int) -> str:
    return subprocess.run([program_file, str(size)], capture_output=True, text=True, check=True).stdout


def size_of(package: Path, name: str) -> int:
    match = re.search(rf"KWS_{name} (\d+)", (package / "kws.h").read_text())
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("form", FORMS)
def test_the_module_computes_what_the_proof_did(form: str, packed: Packed, tmp_path: Path) -> None:
    package = packed("micropython")
    program_file = program(package, tmp_path, *FORMS[form])
    equal, output = said(program_file, size_of(package, "INPUT_0_BYTES")).split()
    assert equal == "1"
    assert len(output) == 2 * size_of(package, "OUTPUT_0_BYTES")
    assert len(set(re.findall("..", output))) > 1
    assert said(program_file, size_of(package, "INPUT_0_BYTES") - 1) == "1 ValueError: wrong size of input"


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_is_pushed(form: str, packed_stream: Packed, tmp_path: Path) -> None:
    """Rows or samples: nothing, then outputs, those of the self-test's window after a reset."""
    package = packed_stream("micropython")
    rows = "KWS_HOP_ROWS" in (package / "kws.h").read_text()
    size = size_of(package, "HOP_ROWS") * size_of(package, "INPUT_0_ROW_SIZE") if rows else 2 * 1000
    equal, *outputs = said(program(package, tmp_path, *FORMS[form]), size).split()
    assert equal == "1"
    assert outputs[-1] != "none"
    assert not rows or outputs[0] == "none"


@pytest.mark.parametrize("form", FORMS)
def test_several_inputs_and_outputs(form: str, tmp_path: Path) -> None:
    nodes = [op("Add", "a b", "sum"), op("Sub", "a b", "difference")]
    onnx.save(build(nodes, {"a": [1, 8], "b": [1, 8]}, ("sum", "difference")), tmp_path / "kws.onnx")
    built = tinyc.build(tmp_path / "kws.onnx", "host", out=tmp_path / "kws", samples=1, precision="float32")
    package = tmp_path / "kws-micropython"
    write_package(read_facts(built.folder), kinds_of("micropython")[0], DEFAULT_VERSION, package)
    assert "run(x0, x1)" in (package / "README.md").read_text()
    equal, outputs, count = said(program(package, tmp_path, *FORMS[form]), 32).split()
    assert (equal, len(outputs), count) == ("1", 2 * 2 * 32, "2")


def test_its_builds_name_the_files_that_are_there(packed: Packed) -> None:
    package = packed("micropython")
    for name in ("Makefile", "micropython.mk", "micropython.cmake"):
        named = set(re.findall(r"(kws\w*\.c)\b", (package / name).read_text()))
        assert named == {"kws_module.c", "kws.c"}
        assert all((package / file).is_file() for file in named)
