# SPDX-License-Identifier: Apache-2.0
"""A flame graph as an SVG picture: the run function on top, its layers below, their functions below those."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import xml_text
from tinyc.explain.cycles.profile import Profile, stacks

WIDTH = 1200
_ROW = 20
_HEAD = 28
_LETTER = 6.6  # width of a letter in 11 px monospace
_LEAST = 0.3  # narrower boxes are left out


@dataclass
class _Box:
    name: str
    weight: int = 0
    inside: dict[str, _Box] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return 1 + max((box.depth for box in self.inside.values()), default=0)


def flamegraph(profile: Profile) -> str:
    """The picture. A box is as wide as its share of modelled cycles (instructions where the core has no model); a
    pointer that rests on it shows name, cycles and share."""
    unit = "modelled cycles" if profile.cost.cycles is not None else "instructions"
    root = _tree(stacks(profile))
    height = _HEAD + root.depth * _ROW + 4
    title = f"{profile.name} on {profile.board}: {root.weight:,} {unit}, one inference"
    boxes = "\n".join(_draw(root, 0.0, 0, max(root.weight, 1), unit))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="monospace" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="4" y="18" font-size="13">{xml_text(title)}</text>\n{boxes}\n</svg>\n'
    )


def _tree(weighted: Sequence[tuple[tuple[str, ...], int]]) -> _Box:
    root = _Box(weighted[0][0][0] if weighted else "nothing")
    for names, weight in weighted:
        box = root
        box.weight += weight
        for name in names[1:]:
            box = box.inside.setdefault(name, _Box(name))
            box.weight += weight
    return root


def _draw(box: _Box, x: float, row: int, total: int, unit: str) -> Iterator[str]:
    width = WIDTH * box.weight / total
    if width < _LEAST:
        return
    y = _HEAD + row * _ROW
    letters = int((width - 6) / _LETTER)
    text = box.name if len(box.name) <= letters else box.name[: max(letters - 1, 0)] + "…"
    label = f'<text x="{x + 3:.2f}" y="{y + 14}">{xml_text(text)}</text>' if letters >= 3 else ""
    tip = f"{box.name}: {box.weight:,} {unit}, {box.weight / total:.1%}"
    yield (
        f"<g><title>{xml_text(tip)}</title>"
        f'<rect x="{x:.2f}" y="{y}" width="{max(width - 0.5, 0.2):.2f}" height="{_ROW - 1}" rx="1" '
        f'fill="{_color(box.name)}"/>{label}</g>'
    )
    for inner in sorted(box.inside.values(), key=lambda b: (-b.weight, b.name)) if row else box.inside.values():
        yield from _draw(inner, x, row + 1, total, unit)
        x += WIDTH * inner.weight / total


def _color(name: str) -> str:
    """The same warm color for the same name in every picture."""
    mark = zlib.crc32(name.encode())
    return f"hsl({20 + mark % 35}, {60 + mark // 64 % 25}%, {68 + mark // 4096 % 14}%)"
