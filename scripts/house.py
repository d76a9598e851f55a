# SPDX-License-Identifier: Apache-2.0
"""docs/images/house.svg: the rooms of tinyc, floor by floor, from the packages' own descriptions.

    python scripts/house.py            # `make docs` runs it; tests/unit/test_layers.py holds code and picture to FLOORS

A room imports from the floors below and from the rooms to its left on its own floor, and from nothing else.
"""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "house.svg"
FLOORS = (  # from the ground up
    ("Ground", ("base", "options", "board", "machine", "ir")),
    ("Operators and kernels", ("kernel", "kernels", "loops", "ops", "frontend")),
    ("From the file to integers", ("passes", "load", "reference", "quantize")),
    ("From integers to C", ("choose", "plan", "emit")),
    ("From C to a proof", ("toolchain", "run", "flash", "verify")),
    ("Asked afterwards", ("explain", "export", "package", "torch")),
    ("All together", ("pipeline", "bench", "sweep", "api", "cli")),
)
STAGES = ("load", "passes", "quantize", "choose", "plan", "emit", "toolchain", "run", "verify")  # a model's way

_WIDTH, _HEIGHT, _GAP = 232, 100, 14
_LEFT, _TOP = 20, 76
_STYLE = """
  text { font-family: system-ui, sans-serif; fill: #1f2933; }
  .title { font-size: 20px; font-weight: 600; }
  .note, .what { font-size: 12px; fill: #52606d; }
  .floor { font-size: 13px; font-weight: 600; fill: #7b8794; }
  .room { font-size: 16px; font-weight: 600; font-family: ui-monospace, monospace; }
  rect { fill: #ffffff; stroke: #cbd2d9; }
  rect.band { fill: #f5f7fa; stroke: none; }
  rect.stage { stroke: #2f6fd0; stroke-width: 2; }
  circle { fill: #2f6fd0; }
  .number { font-size: 13px; font-weight: 600; fill: #ffffff; text-anchor: middle; }
"""


def description(room: str) -> str:
    """The first line of the room's own docstring."""
    folder = ROOT / "tinyc" / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n", maxsplit=1)[0].replace("\n", " ")


def picture() -> str:
    """The whole SVG."""
    band = _HEIGHT + 44
    width = 2 * _LEFT + 4 * (_WIDTH + _GAP) + 6
    height = _TOP + len(FLOORS) * (band + 8) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="The rooms of tinyc">',
        f"<style>{_STYLE}</style>",
        f'<rect class="band" width="{width}" height="{height}" style="fill:#ffffff"/>',
        f'<text class="title" x="{_LEFT}" y="34">The rooms of tinyc</text>',
        f'<text class="note" x="{_LEFT}" y="56">A model goes through the numbered rooms. '
        "A room imports from the floors below it and from the rooms to its left.</text>",
    ]
    for level, (title, rooms) in enumerate(reversed(FLOORS)):
        top = _TOP + level * (band + 8)
        parts.append(f'<rect class="band" x="10" y="{top}" width="{width - 20}" height="{band}" rx="8"/>')
        parts.append(f'<text class="floor" x="{_LEFT + 4}" y="{top + 22}">{escape(title)}</text>')
        parts += [_room(room, _LEFT + 4 + place * (_WIDTH + _GAP), top + 32) for place, room in enumerate(rooms)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _room(room: str, x: int, y: int) -> str:
    stage = STAGES.index(room) + 1 if room in STAGES else 0
    shape = ' class="stage"' if stage else ""
    lines = [f'<rect{shape} x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>']
    lines.append(f'<text class="room" x="{x + 12}" y="{y + 24}">{escape(room)}</text>')
    if stage:
        lines.append(f'<circle cx="{x + _WIDTH - 20}" cy="{y + 19}" r="11"/>')
        lines.append(f'<text class="number" x="{x + _WIDTH - 20}" y="{y + 24}">{stage}</text>')
    for number, text in enumerate(textwrap.wrap(description(room), 32)[:4]):
        lines.append(f'<text class="what" x="{x + 12}" y="{y + 43 + 15 * number}">{escape(text)}</text>')
    return "\n".join(lines)


def main() -> None:
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
