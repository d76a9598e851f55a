# SPDX-License-Identifier: Apache-2.0
"""Constants apart from the code: replaced on a device, refused where they are others', signed."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.emit.blob import HEADER, SIGNATURE, numbered, read_blob
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe, hurried
from tinyc.package.signing import is_signed_by, signed
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import input_bytes, proof_samples, write_library
from tinyc.reference.interpreter import run_int
from tinyc.run.linked import run_linked
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import read_elf
from tinyc.verify.compare import reference_outputs

NODES = [
    op("Relu", "c", "r"),
    op("Conv", "r w2", "d", pads=[1] * 4, group=8),
    op("Sigmoid", "d", "s"),
    op("Mul", "d s", "m"),
    op("GlobalAveragePool", "m", "p"),
    op("Flatten", "p", "f"),
    op("Gemm", "f w3", "g", transB=1),
    op("Softmax", "g", "y"),
]


def model(seed: int, stride: int = 2) -> onnx.ModelProto:
    rng = np.random.default_rng(7)
    shapes = {"w1": (8, 1, 3, 3), "w2": (8, 1, 3, 3), "w3": (5, 8)}
    weights = {name: rng.standard_normal(shape) / 3 for name, shape in shapes.items()}
    if seed:  # as trained further
        rng = np.random.default_rng(seed)
        weights = {name: w * (1 + 0.2 * rng.standard_normal(w.shape)) for name, w in weights.items()}
    nodes = [op("Conv", "x w1", "c", pads=[1] * 4, strides=[stride] * 2), *NODES]
    return build(nodes, {"x": (1, 1, 12, 12)}, ["y"], {name: w.astype(np.float32) for name, w in weights.items()})


@dataclass(frozen=True)
class Pair:
    """A model, and one with other weights for its code."""

    folder: Path  # of the old library
    old: Compiled
    new: Compiled


def options(board: str, folder: Path, **more: object) -> Options:
    fast = hurried(Recipe())
    return Options(board, name="net", calibration=folder / "calib.npz", recipe=fast, weights_blob=True, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blob")
    np.savez(folder / "calib.npz", x=np.random.default_rng(3).standard_normal((40, 1, 12, 12)).astype(np.float32))
    for seed in (0, 1):
        onnx.save(model(seed), folder / f"net{seed}.onnx")
    return folder


def pair_for(data: Path, board: str, folder: Path, **more: object) -> Pair:
    old = compile_model(data / "net0.onnx", load_board(board), options(board, data, **more), Progress())
    write_library(folder, old)
    asked = options(board, data, like=folder, **more)
    return Pair(folder, old, compile_model(data / "net1.onnx", load_board(board), asked, Progress()))


@pytest.fixture(scope="module")
def on_host(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair_for(data, "host", tmp_path_factory.mktemp("old"))


HOST_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

static net_arena_t arena;

int main(int argc, char **argv)
{
    FILE *file = fopen(argv[1], "rb");
    static uint64_t blob[1 << 16];
    const size_t bytes = fread(blob, 1, sizeof blob, file);
    int8_t x[NET_INPUT_0_SIZE];

    memset(&arena, 0xA5, sizeof arena);
    printf("%d", net_run(&arena));
    printf(" %d", net_attach(&arena, blob, bytes - (size_t)(argc > 2)));
    printf(" %u", (unsigned)net_weights_version(&arena));
    while (fread(x, 1, sizeof x, stdin) == sizeof x) {
        memcpy(net_input_0(&arena), x, sizeof x);
        if (net_run(&arena) != NET_OK) break;
        for (int i = 0; i < NET_OUTPUT_0_SIZE; i++) printf(" %d", net_output_0(&arena)[i]);
    }
    printf("\n");
    return 0;
}
"""


def program(pair: Pair, out: Path, *flags: str) -> Path:
    """The old code with a main that attaches what it is given."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    (out / "main.c").write_text(HOST_MAIN)
    program_file = out / "program"
    command = [compiler, "-std=c11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wall"]
    command += [
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Werror",
        *flags,
        f"-I{pair.folder}",
        str(pair.folder / "net.c"),
    ]
    subprocess.run([*command, str(out / "main.c"), "-o", str(program_file)], check=True)
    return program_file


def samples(compiled: Compiled) -> tuple[list[bytes], list[int]]:
    """Inputs of the library, and the outputs of the reference."""
    _, inputs_drawn = proof_samples(compiled, Options("host", samples=6))
    reference = [
        run_int(compiled.graph, inputs_drawn.sample(i, compiled.graph), compiled.program.numerics) for i in range(6)
    ]
    outputs = [int(v) for one in reference for v in one[compiled.graph.outputs[0]].ravel()]
    return [b"".join(one) for one in input_bytes(compiled.graph, inputs_drawn)], outputs


def run(program_file: Path, blob: Path, inputs: list[bytes], *words: str) -> list[int]:
    done = subprocess.run([program_file, blob, *words], input=b"".join(inputs), capture_output=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_old_code_with_new_weights(on_host: Pair, tmp_path: Path) -> None:
    assert on_host.old.blob is not None
    assert on_host.new.blob is not None
    assert on_host.old.blob != on_host.new.blob
    (tmp_path / "new.blob").write_bytes(numbered(read_blob(on_host.new.blob, "new"), 41).data)
    inputs, outputs = samples(on_host.new)
    _, before = samples(on_host.old)
    assert outputs != before
    assert run(program(on_host, tmp_path), tmp_path / "new.blob", inputs) == [0, 0, 41, *outputs]
    external = program(on_host, tmp_path, "-DNET_EXTERNAL_WEIGHTS")
    assert run(external, tmp_path / "new.blob", inputs) == [4, 0, 41, *outputs], "without weights it does not run"


def test_what_is_attached_is_looked_at_first(on_host: Pair, tmp_path: Path) -> None:
    assert on_host.new.blob is not None
    inputs, before = samples(on_host.old)
    program_file, good = program(on_host, tmp_path), bytearray(on_host.new.blob)

    def answer(at: int, *words: str) -> list[int]:
        data = bytearray(good)
        if at >= 0:
            data[at] ^= 0x10
        (tmp_path / "bad.blob").write_bytes(data)
        return run(program_file, tmp_path / "bad.blob", inputs, *words)

    for at, status in {
        0: 5,
        4: 5,
        6: 5,
        9: 5,
        16: 6,
        31: 6,
        13: 7,
        48: 7,
        HEADER: 7,
        len(good) - SIGNATURE - 1: 7,
    }.items():
        assert answer(at) == [0, status, 0, *before], f"byte {at}: those of the build stay"
    assert answer(-1, "cut")[1] == 5
    assert answer(len(good) - 1)[1] == 0, "a signature is the caller's"


@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m0plus"])
def test_on_a_core(data: Path, tmp_path: Path, board: str) -> None:
    """The old library as it is, wrapped so that each run attaches the new constants, which lie elsewhere in flash."""
    pair = pair_for(data, board, tmp_path)
    assert pair.new.blob is not None
    words = ", ".join(f"0x{word:08x}u" for word in struct.unpack(f"<{len(pair.new.blob) // 4}I", pair.new.blob))
    (tmp_path / "wrap.c").write_text(
        '#include "net.h"\nint inner(void *arena);\n'
        f"static const uint32_t blob[] __attribute__((aligned(8))) = {{{words}}};\n"
        "int net_run(void *arena)\n{\n    const int status = net_attach(arena, blob, sizeof blob);\n"
        "    return status != NET_OK ? status : inner(arena);\n}\n"
    )
    toolchain = find_toolchain(load_board(board))
    for flags in (["-c", "net.c", "-Dnet_run=inner", "-DNET_EXTERNAL_WEIGHTS"], ["-c", "wrap.c"]):
        command = [*toolchain.command, *toolchain.target_flags, "-std=c99", "-O2", "-ffreestanding", *flags]
        subprocess.run(command, cwd=tmp_path, check=True)
    entries = [f"-Wl,-u,net_{name}" for name in ("run", "input_0", "output_0")]
    link = [*toolchain.command, *toolchain.target_flags, "-nostdlib", "-static", *entries, "-Wl,-e,net_run"]
    subprocess.run([*link, "net.o", "wrap.o", "-lgcc", "-o", "net.elf"], cwd=tmp_path, check=True)
    _, inputs_drawn = proof_samples(pair.new, Options(board, samples=3))
    reference = reference_outputs(pair.new.graph, pair.new.program, inputs_drawn)
    ran = run_linked(
        read_elf(tmp_path / "net.elf"), pair.old.program, load_board(board), input_bytes(pair.new.graph, inputs_drawn)
    )
    assert [list(map(bytes, one)) for one in ran.result.outputs] == [list(map(bytes, one)) for one in reference]
    assert not ran.result.damaged_guards


@pytest.mark.parametrize(
    ("board", "more"), [("cortex-m4", {"input_rows": True}), ("cortex-m55", {}), ("riscv32imc", {})]
)
def test_proof(data: Path, board: str, more: dict[str, bool]) -> None:
    report = verify_model(data / "net1.onnx", options(board, data, samples=4, **more), Progress())
    assert report.verify.mismatches == 0
    assert report.verify.output_bytes == 20


def test_no_kernel_whose_constants_depend_on_their_values(data: Path) -> None:
    """Not for these weights: others may take more bytes, and then fit no firmware that is there."""
    for board in ("host", "cortex-m0plus", "riscv32imc"):
        built = compile_model(data / "net0.onnx", load_board(board), options(board, data), Progress())
        assert not any(step.choice.kernel.sized_by_values for step in built.program.steps)


def test_another_network_is_refused(data: Path, on_host: Pair, tmp_path: Path) -> None:
    onnx.save(model(0, stride=1), tmp_path / "other.onnx")
    with pytest.raises(TinycError, match=r"cannot run these weights: net.c would say `.+`") as caught:
        compile_model(
            tmp_path / "other.onnx", load_board("host"), options("host", data, like=on_host.folder), Progress()
        )
    assert caught.value.exit_code == 1


def test_no_library_to_be_like(data: Path, on_host: Pair, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="no integers of activations"):
        compile_model(data / "net1.onnx", load_board("host"), options("host", data, like=tmp_path), Progress())
    with pytest.raises(TinycError, match="give --weights-blob too"):
        Options("host", like=tmp_path)
    (tmp_path / "activations.json").write_text(
        '{"schema": "tinyc.activations/1", "equalized": 0, "activations": {"x": 1}}'
    )
    with pytest.raises(TinycError, match="not what tinyc wrote there"):
        compile_model(data / "net1.onnx", load_board("host"), options("host", data, like=tmp_path), Progress())


def test_libraries_without_it_are_as_before(data: Path) -> None:
    compiled = compile_model(data / "net0.onnx", load_board("cortex-m4"), Options("cortex-m4", name="net"), Progress())
    assert compiled.blob is None
    assert not any(re.search("blob|attach", text) for text in compiled.files.values())


def keys(folder: Path, name: str) -> tuple[Path, Path]:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    key = ed25519.Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32))
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_signatures(on_host: Pair, tmp_path: Path) -> None:
    assert on_host.new.blob is not None
    mine, my_public = keys(tmp_path, "mine")
    _, other_public = keys(tmp_path, "other")
    blob = signed(numbered(read_blob(on_host.new.blob, "new"), 3), mine)
    assert is_signed_by(read_blob(blob.data, "signed"), my_public)
    assert not is_signed_by(blob, other_public)
    assert not is_signed_by(numbered(blob, 4), my_public), "another version is another message"
    with pytest.raises(TinycError, match="no private key"):
        signed(blob, my_public)


def test_a_signature_by_another_program(on_host: Pair, tmp_path: Path) -> None:
    """libsodium, as firmware would link it, takes what `tinyc package --sign` signed, and nothing else."""
    if not Path("/usr/include/sodium.h").exists():
        pytest.skip("libsodium-dev is not installed")
    assert on_host.new.blob is not None
    mine, my_public = keys(tmp_path, "mine")
    data = signed(read_blob(on_host.new.blob, "new"), mine).data
    raw = ["openssl", "pkey", "-pubin", "-in", str(my_public), "-outform", "DER"]
    (tmp_path / "key").write_bytes(subprocess.run(raw, capture_output=True, check=True).stdout[-32:])
    example = Path(__file__).parents[2] / "examples" / "update" / "check_signature.c"
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{on_host.folder}", '-DMODEL_H="net.h"']
    command += ["-DMODEL(x)=net_##x", str(example), str(on_host.folder / "net.c"), "-lsodium", "-o", "check"]
    subprocess.run(command, cwd=tmp_path, check=True)
    (tmp_path / "good.blob").write_bytes(data)
    bad = bytearray(data)
    bad[len(bad) // 2] ^= 1
    (tmp_path / "bad.blob").write_bytes(bad)

    def says(file: str) -> tuple[int, str]:
        command = [str(tmp_path / "check"), "key", file]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.strip()

    assert says("good.blob") == (0, "attached: version 0")
    assert says("bad.blob") == (1, "refused: the signature is wrong")


def test_files_that_are_no_weights(tmp_path: Path, on_host: Pair) -> None:
    assert on_host.new.blob is not None
    data = on_host.new.blob
    for wrong in (b"", b"x" * 200, data[:-1], data[:100] + b"\1" + data[101:]):
        with pytest.raises(TinycError, match=r"no file of weights|damaged"):
            read_blob(wrong, "file")
    with pytest.raises(TinycError, match="in format 2"):
        read_blob(data[:4] + b"\2" + data[5:], "file")
