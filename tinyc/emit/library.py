# SPDX-License-Identifier: Apache-2.0
"""Program -> the text of the generated library: `<name>.h`, `<name>.c`, `<name>_weights.h`, where layers have functions
of their own `<name>_kernels.h`, where they run row by row `<name>_schedule.h`, and the kernels in use."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tinyc import __version__
from tinyc.base.dataclass import dataclass
from tinyc.base.escape import C
from tinyc.base.templates import render
from tinyc.emit import alignment, arrays, blob, schedule, steps
from tinyc.emit.columns import narrow
from tinyc.emit.headers import with_included
from tinyc.emit.program import LOST, Place, Program
from tinyc.emit.text import CTYPE, FILTERS
from tinyc.ir.graph import INT_RANGE, Labels, Value
from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernels.scalar.loops.headers import ALL
from tinyc.plan.answer import SLOW

_DIGEST = "@digest@"  # where in the template the digest of the text goes
_PROOF = "library/proof.c.j2"
_UNPROVED = "/* NOT PROVED: written by `tinyc build --no-proof` and never run; `tinyc verify` proves it. */\n"


@dataclass(frozen=True, slots=True)
class Info:
    """What a library is for beyond the Program, most of which the banner says: nothing that changes between runs or
    machines. options: those of the command line that make the library another one than the defaults do. loops: the
    cores whose loops in assembly the kernels' headers have, as of `loops.headers.cores_of`."""

    model: str
    sha256: str
    board: str
    version: str = __version__
    options: tuple[str, ...] = ()
    loops: frozenset[str] = ALL


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of a library once it was compiled and run. Sizes in bytes, of the library alone; stack_bytes,
    instructions: None where the machine does not tell; instructions: of `calls` calls, a whole input. by_reference:
    compared with the reference, not with outputs that the user gave. kind: of the reference, `Program.kind`."""

    toolchain: str
    flag: str
    machine: str
    code_bytes: int
    const_bytes: int
    stack_bytes: int | None
    instructions: int | None
    calls: int
    inputs: int
    output_bytes: int
    mismatches: int
    by_reference: bool
    kind: str = "integer"


@dataclass(frozen=True, slots=True)
class _Port:
    """A model input or output in the header."""

    kind: str
    index: int
    place: Place
    labels: Labels | None = None

    @property
    def value(self) -> Value:
        return self.place.value

    @property
    def offset(self) -> int:
        return self.place.offset or 0

    @property
    def in_slow(self) -> int | None:
        """Where in the slow part it lies; None: in the other one."""
        return self.place.first if self.place.is_slow else None

    @property
    def title(self) -> C:
        return C(f"{self.kind} {self.index}")

    @property
    def prefix(self) -> str:
        return f"{self.kind.upper()}_{self.index}"

    @property
    def ctype(self) -> str:
        return CTYPE[self.value.dtype]

    @property
    def quant(self) -> tuple[float, int] | None:
        """Of a port with one scale."""
        quant = self.value.quant
        return quant.per_tensor if quant and len(quant.scale) == 1 else None

    @property
    def scales(self) -> tuple[float, ...]:
        """Of an output with a scale for each of its quantities."""
        return self.value.quant.scale if self.value.quant and not self.quant else ()

    @property
    def scales_step(self) -> int:
        """Elements from one of these quantities to the next."""
        quant = self.value.quant
        return math.prod(self.value.shape[len(self.value.shape) + (quant.axis or -1) + 1 :]) if quant else 1

    @property
    def range(self) -> tuple[int, int]:
        return INT_RANGE[self.value.dtype]


def emit_library(program: Program, info: Info) -> dict[str, str]:
    """File name -> text of every file of the library. Same program and info, same bytes."""
    files = _texts(program, info, b"" if program.blob is None else blob_of(program, info))
    source = f"{program.name}.c"
    before, _, after = files[source].rpartition(_DIGEST)
    files[source] = f"{before}{digest_of(files):08x}{after}"
    return files | _kernel_files(program, info)


def blob_of(program: Program, info: Info) -> bytes:
    """`<name>.blob`: the constants of a program that keeps them apart."""
    unnamed = replace(info, model="", sha256="0" * 64, options=())
    files = _texts(program, unnamed, bytes(blob.HEADER)) | _kernel_files(program, info)
    del files[f"{program.name}_weights.h"]
    return blob.blob_bytes(program, blob.code_of(files, program), info.sha256)


def _texts(program: Program, info: Info, constants: bytes) -> dict[str, str]:
    """The files that are made, with `_DIGEST` in its place. constants: where they are apart."""
    context = {**_context(program, info), "blob": constants, "code": constants[16:32]}
    templates = {".h": "model.h.j2", ".c": "model.c.j2", "_weights.h": "weights.h.j2"}
    if program.specials:
        templates["_kernels.h"] = "kernels.h.j2"
    if context["has_schedule"]:
        templates["_schedule.h"] = "schedule.h.j2"
    return {f"{program.name}{end}": _rendered(template, context) for end, template in templates.items()}


def with_proof(source: str, proof: Proof) -> str:
    """The text of `<name>.c`, whose banner now says what is known. It has as many lines as before, and its digest is
    that of the text before: it tells libraries apart, not the machines that they were run on."""
    before, after = (narrow(render(_PROOF, {"proof": said, "kind": C(proof.kind)}, FILTERS)) for said in (None, proof))
    if before not in source:
        raise ValueError("the banner says already what is known")
    return source.replace(before, after, 1)


def marked_unproved(files: Mapping[str, str], name: str) -> dict[str, str]:
    """The files of a library that nobody has run, with a header that begins by saying so. What `digest_of` saw stays:
    a proof made later is of the same library."""
    header = f"{name}.h"
    return {**files, header: _UNPROVED + files[header]}


def digest_of(files: Mapping[str, str]) -> int:
    """32 bits that tell generated text from other generated text."""
    whole = hashlib.sha256("".join(text for _, text in sorted(files.items())).encode())
    return int.from_bytes(whole.digest()[:4], "big")


def _rendered(template: str, context: Mapping[str, Any]) -> str:
    return narrow(render(f"library/{template}", context, FILTERS))


def _context(program: Program, info: Info) -> dict[str, Any]:
    ports = [_Port("input", i, place) for i, place in enumerate(program.inputs)]
    labels = program.labels
    ports += [_Port("output", i, place, labels.get(place.value.name)) for i, place in enumerate(program.outputs)]
    table = program.row_input.rows if program.row_input else program.incremental.places if program.incremental else None
    return {
        "p": program,
        "P": program.name.upper(),
        "info": info,
        "proof": None,
        "kind": C(program.kind),
        "ports": ports,
        "steps": [steps.view(program, step) for step in program.steps],
        "specials": [C(_special(program, special)) for special in program.specials],
        "weights": arrays.weights(program),
        "tables": arrays.tables(program),
        "orders": schedule.orders(program),
        "moves": schedule.moves(program),
        "has_schedule": any(symbol.const.role in schedule.ROLES for symbol in program.symbols),
        "input_row": steps.input_row(program, table) if table else "",
        "lost": LOST,
        "slow_from": SLOW,
        "const_bytes": sum(symbol.const.data.nbytes for symbol in program.symbols),
        "macs": sum(step.macs for step in program.steps),
        "unaligned": alignment.unaligned_steps(program),
        "unaligned_between": alignment.unaligned_between(program),
        "uses_fpu": alignment.uses_fpu(program),
    }


def _special(program: Program, special: SpecializedKernel) -> str:
    """The text of a function written for a layer, its assembly in the section for RAM where that is asked for."""
    if program.in_ram is None or special.name not in program.in_ram.functions:
        return special.text
    return special.text.replace("static TC_NAKED ", f"static {program.name.upper()}_RAM_CODE TC_NAKED ")


def _kernel_files(program: Program, info: Info) -> dict[str, str]:
    """The kernel headers in use and what they include."""
    own = ["tc_begin.h", "tc_end.h", "tc_math.h", *program.headers, *(["tc_blob.h"] if program.blob else [])]
    own += ["tc_fpu.h"] * alignment.uses_fpu(program)
    return dict(sorted(with_included(own, info.loops).items()))
