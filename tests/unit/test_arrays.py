# SPDX-License-Identifier: Apache-2.0
"""Files of arrays that are damaged, or made to do harm: an error with file and array, and no memory for what is not
there."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tinyc.base.errors import TinycError
from tinyc.ir import arrays
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import Array

GOOD = np.arange(12, dtype=np.float32).reshape(4, 3)


def npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def header(text: str, data: bytes = b"", version: bytes = b"\1\0") -> bytes:
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(text) + 1)
    return b"\x93NUMPY" + version + size + text.encode("latin-1") + b"\n" + data


def shaped(shape: str, dtype: str = "'<f4'", data: bytes = bytes(48)) -> bytes:
    return header(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}", data)


def archive(path: Path, method: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive_file:
        for name, content in members.items():
            archive_file.writestr(f"{name}.npy", content)
    return path


def refused(path: Path, said: str, most_bytes: int = 20_000_000) -> None:
    tracemalloc.start()
    with pytest.raises(TinycError) as caught:
        load_npz(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said in caught.value.message
    assert caught.value.where is not None
    assert caught.value.hint
    assert caught.value.exit_code == 2
    assert str(caught.value).replace("\n", "").isprintable()
    assert peak < most_bytes


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_numpy_writes_is_read(tmp_path: Path, method: int) -> None:
    given = {
        "x": GOOD, "fortran": np.asfortranarray(GOOD), "scalar": np.array(3), "empty": np.zeros((0, 3)),
        "text": np.array("abc"),        "big": GOOD.astype(">f8"), "flags": np.array([True, False]), "file": GOOD,
        "half": GOOD.astype(np.float16),
    }  # fmt: skip
    read = load_npz(archive(tmp_path / "x.npz", method, **{name: npy(array) for name, array in given.items()}))
    assert list(read) == list(given)
    for name, array in given.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
        assert read[name].flags.writeable
    np.save(tmp_path / "x.npy", GOOD)
    np.testing.assert_array_equal(load_npz(tmp_path / "x.npy")["arr_0"], GOOD)
    np.savez_compressed(tmp_path / "y.npz", x=GOOD)
    np.testing.assert_array_equal(load_npz(tmp_path / "y.npz")["x"], GOOD)


HEADERS = {
    "no header": (b"\x93NUMPY", "its header cannot be read"),
    "nothing": (b"", "its header cannot be read"),
    "another magic": (b"not an array", "its header cannot be read"),
    "another version": (header("{}", version=b"\7\0"), "its header cannot be read"),
    "no literal": (header("__import__('os').abort()"), "its header cannot be read"),
    "deep": (shaped("(" * 5000 + ")" * 5000), "its header cannot be read"),
    "open": (shaped("((((((("), "its header cannot be read"),
    "no key": (header("{'descr': '<f4'}"), "its header cannot be read"),
    "long": (header("{" + " " * 60_000 + "}"), "its header cannot be read"),
    "longer than the file": (b"\x93NUMPY\2\0\xff\xff\xff\xff{", "its header cannot be read"),
    "no type": (shaped("(4, 3)", "'<q99'"), "its header cannot be read"),
    "negative": (shaped("(-4, 3)"), "impossible shape or type"),
    "huge": (shaped("(100000000000, 3)"), "impossible shape or type"),
    "beyond 64 bits": (shaped(f"({10**30}, 3)"), "impossible shape or type"),
    "huge and empty": (shaped(f"(0, {10**12})"), "impossible shape or type"),
    "many axes": (shaped("(1, " * 1 + ", ".join("1" * 40) + ")", data=bytes(4)), "impossible shape or type"),
    "no bytes each": (shaped("(4, 3)", "'|V0'", b""), "impossible shape or type"),
    "too large": (shaped("(2000000000, 1)"), "needs 8,000,000,000 bytes, the file has 48"),
    "too short": (npy(GOOD)[:-1], "needs 48 bytes, the file has 47"),
    "too long": (npy(GOOD) + b"\0", "needs 48 bytes, the file has 49"),
    "objects": (npy(np.array([{"a": 1}], object)), "holds Python objects, which are never loaded"),
    "objects in a record": (npy(np.zeros(2, [("a", object)])), "holds Python objects, which are never loaded"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_arrays_that_lie(tmp_path: Path, name: str) -> None:
    content, said = HEADERS[name]
    refused(archive(tmp_path / "x.npz", x=npy(GOOD), lies=content), "array 'lies'")
    refused(archive(tmp_path / "x.npz", x=npy(GOOD), lies=content), said)
    if content.startswith(b"\x93NUMPY"):
        (tmp_path / "x.npy").write_bytes(content)
        refused(tmp_path / "x.npy", said)


def test_pickles_do_not_run(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "harm"),)

    refused(archive(tmp_path / "x.npz", x=npy(np.array([Harm()], object))), "never loaded")
    assert not (tmp_path / "harm").exists()


def test_damaged_archives(tmp_path: Path) -> None:
    """Bytes of a compressed file changed, one after the other: the arrays, or an error."""
    whole = archive(tmp_path / "good.npz", zipfile.ZIP_DEFLATED, x=npy(GOOD), y=npy(np.arange(4))).read_bytes()
    path = tmp_path / "bad.npz"
    errors = 0
    for at in range(len(whole)):
        for change in (0x01, 0xFF)[: 1 + at % 2]:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
            try:
                read = load_npz(path)
            except TinycError:
                errors += 1
            else:
                for name, array in (("x", GOOD), ("y", np.arange(4))):
                    assert name not in read or np.array_equal(read[name], array)
    assert errors > len(whole) // 2
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(TinycError):
            load_npz(path)


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that unpacks to much is refused before it is unpacked; one that hides it is, too."""
    monkeypatch.setattr(arrays, "MAX_BYTES", 1 << 20)
    zeros = npy(np.zeros(3_000_000, np.int8))
    path = archive(tmp_path / "x.npz", zipfile.ZIP_DEFLATED, x=zeros)
    assert path.stat().st_size < 10_000
    refused(path, "1 arrays of 3,000,128 bytes", most_bytes=500_000)
    several = {f"x{i}": npy(np.zeros(400_000, np.int8)) for i in range(3)}
    refused(archive(tmp_path / "x.npz", zipfile.ZIP_DEFLATED, **several), "3 arrays of", most_bytes=500_000)
    # The table of contents says less than there is.
    data = path.read_bytes()
    path.write_bytes(
        archive(path, zipfile.ZIP_DEFLATED, x=zeros)
        .read_bytes()
        .replace((3_000_128).to_bytes(4, "little"), b"\0\1\0\0")
    )
    assert data != path.read_bytes()
    refused(path, "array 'x'", most_bytes=500_000)
    monkeypatch.setattr(arrays, "MAX_ARRAYS", 2)
    refused(archive(tmp_path / "x.npz", a=npy(GOOD), b=npy(GOOD), c=npy(GOOD)), "3 arrays")


def test_strange_archives(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive_file:
        archive_file.writestr("x.npy", npy(GOOD))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive_file.writestr("x.npy", npy(GOOD + 1))
    refused(path, "two arrays 'x'")
    locked = bytearray(archive(path, x=npy(GOOD)).read_bytes())
    for at in (6, locked.index(b"PK\1\2") + 8):
        locked[at] |= 1  # encrypted
    path.write_bytes(locked)
    refused(path, "password required")
    compressed = bytearray(archive(path, x=npy(GOOD)).read_bytes())
    for at in (8, compressed.index(b"PK\1\2") + 10):
        compressed[at] = 99  # compressed in a way that nobody knows
    path.write_bytes(compressed)
    refused(path, "not supported")
    assert load_npz(archive(path, **{"../../x": npy(GOOD)})).keys() == {"../../x"}  # a key, never a path
    with zipfile.ZipFile(path, "w") as archive_file:
        archive_file.writestr("read.me", b"x")
    assert load_npz(path) == {}


@pytest.mark.parametrize("name", ["absent.npz", "folder.npz", "pipe.npz", "/dev/zero", "circle.npz", "x" * 300])
def test_what_is_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "circle.npz").symlink_to("circle.npz")
    with pytest.raises(TinycError, match=r"no such file|no file|cannot be read"):
        load_npz(tmp_path / name)
