# SPDX-License-Identifier: Apache-2.0
"""What a package says of its library: read from the folder that `tinyc build` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import C, Markdown, Rust
from tinyc.base.files import read_text
from tinyc.base.names import identifier
from tinyc.base.output_folder import REPORT_FILE
from tinyc.board import Board, load_board
from tinyc.board.core import core_named
from tinyc.package.sbom import SBOM_FILE
from tinyc.package.selftest import digest_of_run
from tinyc.run.native import Port, defines_of, find_name, load_library, ports_of

_CSUB_LETTERS = 32
_PORTABLE_STACK_BYTES = 1024  # tests/target/test_other_builds.py
_PRINTING_BYTES = 1024  # Zephyr's own CONFIG_MAIN_STACK_SIZE
_STACK_STEP_BYTES = 512
_C = {"float32": "float", **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32)}}
_RUST = {"float32": "f32", **{f"{sign}int{n}": f"{sign or 'i'}{n}" for sign in ("", "u") for n in (8, 16, 32)}}
_OF_RUST = (  # keywords, and crates that are always there
    "abstract alloc as async await become box core crate dyn final fn gen impl in let loop macro match "
    "mod move mut override priv proc_macro pub ref self std super test trait try type unsafe unsized use "
    "where yield"
)
_SYNTHETIC_C = {
    "float32": "((float)byte - 128.0f) / 64.0f",
    "int8": "(int8_t)((int32_t)byte - 128)",
    "uint8": "(uint8_t)(byte & 1u)",
    "int16": "(int16_t)((int32_t)byte * 257 - 32768)",
    "uint16": "(uint16_t)(byte * 257u)",
    "int32": "(int32_t)(byte & 0u)",
    "uint32": "(uint32_t)(byte & 0u)",
}
_SYNTHETIC_RUST = {
    "float32": "(byte as f32 - 128.0) / 64.0",
    "int8": "(byte - 128) as i8",
    "uint8": "(byte & 1) as u8",
    "int16": "(byte * 257 - 32768) as i16",
    "uint16": "(byte * 257) as u16",
    "int32": "byte & 0",
    "uint32": "(byte & 0) as u32",
}


@dataclass(frozen=True, slots=True)
class PackagePort:
    """An input or output. name: the tensor's own, as the header shows it. scale None: not quantized, or with a
    scale for each of its quantities: `scales`, scales_step elements apart. labels: how many
    numbers of it have a text, which a function of the header gives."""

    index: int
    name: str
    size: int
    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    zero_point: int
    labels: int = 0
    scales: tuple[float, ...] = ()
    scales_step: int = 1

    @property
    def ctype(self) -> str:
        return _C[self.dtype]

    @property
    def rust(self) -> str:
        return _RUST[self.dtype]

    @property
    def synthetic(self) -> C:
        """A C expression for an element of the made-up input, from `byte` (selftest.py)."""
        return C(_SYNTHETIC_C[self.dtype])

    @property
    def synthetic_in_rust(self) -> Rust:
        """The same in Rust, from an i32."""
        return Rust(_SYNTHETIC_RUST[self.dtype])

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest integer of its type."""
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)


@dataclass(frozen=True, slots=True)
class Facts:
    """A library. files: name -> text of the C sources and headers. rows: of its input, where it takes that row by row,
    else 0. hop_rows: of an incremental library, the rows that a call takes. hop_samples: samples for each run, where it
    takes samples in any number. board: None where the board's file is not at hand. selftest: digest of its outputs
    for the made-up input. stack_bytes: of a call, measured on the board's emulator; None on a host."""

    name: str
    model: str
    board_name: str
    tinyc: str
    model_digest: str
    macs: int
    arena_bytes: int
    arena_align: int
    state_bytes: int
    rows: int
    inputs: tuple[PackagePort, ...]
    outputs: tuple[PackagePort, ...]
    files: Mapping[str, str]
    sbom: str
    board: Board | None
    selftest: int
    hop_rows: int = 0
    hop_samples: int = 0
    stack_bytes: int | None = None

    @property
    def stack(self) -> Markdown:
        """What a call takes of the stack, in words."""
        elsewhere = f"compiled for a core with less, kernels take up to {_PORTABLE_STACK_BYTES:,}"
        if self.stack_bytes is None:
            return Markdown(f"the stack was not measured: kernels take up to {_PORTABLE_STACK_BYTES:,} bytes")
        return Markdown(f"{self.stack_bytes:,} bytes of stack, measured; {elsewhere}")

    @property
    def thread_stack_bytes(self) -> int:
        """Of a thread that calls the library, on any core, and prints."""
        needed = _PRINTING_BYTES + max(self.stack_bytes or 0, _PORTABLE_STACK_BYTES)
        return -(-needed // _STACK_STEP_BYTES) * _STACK_STEP_BYTES

    @property
    def uses_fpu(self) -> bool:
        """Whether integers or floats are in the registers of an FPU, where it is compiled for one."""
        return not {"tc_fpu.h", "tc_float.h"}.isdisjoint(self.files)

    @property
    def upper(self) -> str:
        """The prefix of its macros."""
        return self.name.upper()

    @property
    def crate(self) -> str:
        """Its name in Rust, where some names of C mean something else."""
        return f"{self.name}_model" if self.name in _OF_RUST.split() else self.name

    @property
    def row_size(self) -> int:
        """Elements of a row of the input."""
        return self.inputs[0].size // self.rows if self.rows else 0

    @property
    def calls(self) -> int:
        """Calls of an incremental library that fill its window."""
        return -(-self.rows // self.hop_rows) if self.hop_rows else 0

    @property
    def micropython_arch(self) -> str:
        """What MicroPython's py/dynruntime.mk calls the board's core; this computer's where the board says nothing."""
        board = self.board
        if board is None or board.startup not in ("cortex-m", "riscv"):
            return "x64"
        if board.startup == "riscv":
            return "rv32imc"
        return core_named(board.core).micropython or ("armv7emsp" if "fpu" in board.isa else "armv7m")

    @property
    def component(self) -> str:
        """Its name in a CMSIS-Pack, whose schema allows 32 letters (PACK.xsd 1.7.32, CsubType)."""
        return identifier(self.name, _CSUB_LETTERS)


def read_facts(folder: Path) -> Facts:
    """The facts of the library in an output folder of `tinyc build`. Compiles it for this computer and runs it once.

    Raises TinycError for a folder without a library that was proved.
    """
    report = _read_report(folder)
    name = find_name(folder)
    header = read_text(folder / f"{name}.h")
    defines = defines_of(header)
    upper = name.upper()
    library = load_library(folder, "size")
    return Facts(
        name=name,
        model=str(report["model"]),
        board_name=str(report["board"]),
        tinyc=str(report["tinyc"]),
        model_digest=str(report["model_sha256"])[:12],
        macs=int(report["macs"]),
        arena_bytes=int(defines[f"{upper}_ARENA_BYTES"]),
        arena_align=int(defines[f"{upper}_ARENA_ALIGN"]),
        state_bytes=int(defines.get(f"{upper}_STATE_BYTES", 0)),
        rows=int(defines.get(f"{upper}_INPUT_0_ROWS", 0)),
        inputs=_facts_of(ports_of(name, "input", header, defines)),
        outputs=tuple(
            replace(port, labels=int(defines.get(f"{upper}_OUTPUT_{port.index}_LABELS", 0)))
            for port in _facts_of(ports_of(name, "output", header, defines))
        ),
        files=_sources(folder, name),
        sbom=read_text(folder / SBOM_FILE),
        board=_board(str(report["board"])),
        selftest=digest_of_run(library),
        hop_rows=library.hop_rows,
        hop_samples=int(defines.get(f"{upper}_HOP_SAMPLES", 0)),
        stack_bytes=None if report.get("stack_bytes") is None else int(report["stack_bytes"]),
    )


def _read_report(folder: Path) -> dict[str, Any]:
    hint = "give the output folder of `tinyc build`"
    try:
        report = json.loads(read_text(folder / REPORT_FILE))
        proof = report["verify"]
        wrong = proof is None or int(proof["mismatches"])
        report["model"], report["board"], report["tinyc"], report["model_sha256"], report["macs"]
    except OSError as error:
        raise TinycError(f"there is no {REPORT_FILE}: {error.strerror}", Loc(str(folder)), hint) from error
    except (ValueError, KeyError, TypeError) as error:
        raise TinycError(f"{REPORT_FILE} is not that of a build", Loc(str(folder)), hint) from error
    if wrong:
        why = "it was built with --no-proof" if proof is None else "bytes differ from the reference"
        hint = f"`tinyc verify {folder}` proves it" if proof is None else "`tinyc verify` names the step"
        raise TinycError(f"the library is not proved: {why}", Loc(str(folder)), hint, exit_code=1)
    return dict(report)


def _sources(folder: Path, name: str) -> dict[str, str]:
    """The library's files: nothing else in the folder is C, but for subfolders."""
    files = [*folder.glob(f"{name}*.h"), *folder.glob("tc_*.h"), folder / f"{name}.c"]
    return {file.name: read_text(file) for file in sorted(files)}


def _board(name: str) -> Board | None:
    try:
        return load_board(name)
    except TinycError:
        return None


def _facts_of(ports: tuple[Port, ...]) -> tuple[PackagePort, ...]:
    return tuple(
        PackagePort(
            index,
            port.name,
            int(np.prod(port.shape, dtype=np.int64)),
            port.shape,
            port.dtype.name,
            port.scale,
            port.zero_point,
            scales=port.scales,
            scales_step=port.scales_step,
        )
        for index, port in enumerate(ports)
    )
