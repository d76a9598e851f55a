# SPDX-License-Identifier: Apache-2.0
"""load_model: files that are no models at all, and how the format is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.load.tflite_models import network_bytes
from tinyc.base.errors import TinycError
from tinyc.load import load_model, unsupported


def refuse(path: Path) -> str:
    with pytest.raises(TinycError) as caught:
        load_model(path)
    with pytest.raises(TinycError):
        unsupported(path)
    assert path.name in str(caught.value)
    assert caught.value.hint
    return str(caught.value)


def test_content_decides(tmp_path: Path) -> None:
    for name in ("m.tflite", "m.bin", "m.onnx", "M.TFLITE", "m"):
        path = tmp_path / name
        path.write_bytes(network_bytes())
        assert load_model(path).outputs == ("y",)


def test_missing_and_folders(tmp_path: Path) -> None:
    assert "does not exist" in refuse(tmp_path / "none.tflite")
    assert "is a folder" in refuse(tmp_path)


@pytest.mark.parametrize("name", ["m.tflite", "m.onnx", "m.txt"])
def test_empty(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    assert "is empty" in refuse(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), "Keras HDF5"),
        ("m.tflite", b"\x89HDF\r\n\x1a\n" + bytes(100), "Keras HDF5"),
        ("m.keras", b"PK\x03\x04" + bytes(100), "zip archive"),
        ("m.onnx", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ("m.tflite", b"<!DOCTYPE html>", "web page"),
        ("m.tflite", b"\x00" * 64, "TFL3 is missing"),
        ("m.tflite", b"x", "TFL3 is missing"),
        ("m.txt", b"hello, world", "unknown kind of model '.txt'"),
        ("model", b"hello, world", "unknown kind of model 'model'"),
    ],
)
def test_other_kinds(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert message in refuse(path)
