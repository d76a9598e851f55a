# SPDX-License-Identifier: Apache-2.0
"""Reads bench/peers.toml: what other tools need for the same models."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("peers.toml")
MODELS = ("kws", "vww", "ic", "ad", "sww")
# Half of vww's channels are constant, which flatters a compiler that drops them; of these two all are alive.
LIVE = ("person", "mobilenet")

PerModel = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool; figures by model, absent where it has none. instructions: by board, then model."""

    name: str
    how: str
    instructions: Mapping[str, PerModel]
    arena_bytes: PerModel
    stack_bytes: PerModel
    code_bytes: PerModel
    flash_bytes: PerModel


@dataclass(frozen=True, slots=True)
class Published:
    """Million cycles on `board` by product and model, and how they came about. elsewhere: results on other boards, in
    words: product, model, board, figure, source."""

    board: str
    how: str
    cycles: Mapping[str, Mapping[str, float]]
    elsewhere: tuple[Mapping[str, str], ...] = ()


def read_peers(file: Path = FILE) -> tuple[tuple[Peer, ...], Published]:
    """The tools in the order of the file, and the published cycles."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    published = data.pop("published_cycles")
    board, how = published.pop("board"), published.pop("how")
    elsewhere = tuple(data.pop("published_elsewhere"))
    return tuple(_peer(entry) for entry in data.values()), Published(board, how, published, elsewhere)


def _peer(entry: Mapping[str, Any]) -> Peer:
    figures = ("arena_bytes", "stack_bytes", "code_bytes", "flash_bytes")
    return Peer(
        name=str(entry["name"]),
        how=str(entry["how"]),
        instructions=entry["instructions"],
        **{key: entry.get(key, {}) for key in figures},
    )
