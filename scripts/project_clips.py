# SPDX-License-Identifier: Apache-2.0
"""Writes the clips that the projects in examples/projects/ feed to the model: `python scripts/project_clips.py`.

They are clips of examples/kws/kws.test.npz, real ones of its test speakers. Its features are multiples of 1/32, so that
integers hold them exactly; the application makes the model's input of them. tests/package/test_projects.py compares the
files with what this writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TEST = EXAMPLES / "kws" / "kws.test.npz"
WORDS = ("yes", "left", "stop", "go")  # of each the first clip
STEPS = 32  # of a feature in 1

_ABOUT = (
    "Clips of {words}, by speakers of the test set of examples/kws: for each {rows} rows of {columns} features,",
    "which are the integers divided by {steps}. Written by scripts/project_clips.py; do not edit.",
)


@dataclass(frozen=True)
class Clips:
    """features: int16 [clips,rows,columns], in 1/STEPS; said: of each clip the index of its word among the labels."""

    labels: tuple[str, ...]
    said: tuple[int, ...]
    features: NDArray[np.int16]

    @property
    def about(self) -> list[str]:
        """What a reader should know, in lines."""
        _, rows, columns = self.features.shape
        return [line.format(words=", ".join(WORDS), rows=rows, columns=columns, steps=STEPS) for line in _ABOUT]


def read_clips(test: Path = TEST) -> Clips:
    """The first clip of each of WORDS. Raises ValueError for features that are no multiples of 1/STEPS."""
    with np.load(test, allow_pickle=False) as held:
        x, y, labels = held["x"], held["y"], tuple(map(str, held["labels"]))
    said = tuple(labels.index(word) for word in WORDS)
    chosen = np.stack([x[np.flatnonzero(y == label)[0], 0] for label in said]) * STEPS
    features = chosen.astype(np.int16)
    if not np.array_equal(features, chosen):
        raise ValueError(f"{test.name} has features that are no multiples of 1/{STEPS}")
    return Clips(labels, said, features)


def header(clips: Clips) -> str:
    """clips.h, for C and C++."""
    count, rows, columns = clips.features.shape
    blocks = [f"    {{{_numbers(clip, '     ')}}}" for clip in clips.features]
    names = ", ".join(f'"{label}"' for label in clips.labels)
    return "\n".join(
        [
            "/* SPDX-License-Identifier: 0BSD */",
            f"/* {clips.about[0]}\n * {clips.about[1]} */",
            "#ifndef CLIPS_H\n#define CLIPS_H\n\n#include <stdint.h>\n",
            f"#define CLIP_COUNT {count}",
            f"#define CLIP_SIZE {rows * columns}",
            f"#define CLIP_STEPS {STEPS}",
            f"#define CLIP_LABELS {len(clips.labels)}\n",
            f"static const char *const clip_labels[CLIP_LABELS] = {{{names}}};\n",
            "/* Of each clip what was said, as an index of clip_labels. */",
            f"static const uint8_t clip_said[CLIP_COUNT] = {{{', '.join(map(str, clips.said))}}};\n",
            "static const int16_t clip_features[CLIP_COUNT][CLIP_SIZE] = {",
            ",\n".join(blocks) + "};\n",
            "#endif\n",
        ]
    )


def module(clips: Clips) -> str:
    """clips.rs, for Rust."""
    count, rows, columns = clips.features.shape
    blocks = [f"    [\n        {_numbers(clip, '        ')},\n    ]," for clip in clips.features]
    names = ", ".join(f'"{label}"' for label in clips.labels)
    return "\n".join(
        [
            "// SPDX-License-Identifier: 0BSD",
            *(f"//! {line}" for line in clips.about),
            "",
            f"pub const STEPS: f32 = {STEPS}.0;",
            "#[rustfmt::skip]",
            f"pub const LABELS: [&str; {len(clips.labels)}] = [{names}];",
            "/// Of each clip what was said, as an index of LABELS.",
            f"pub const SAID: [usize; {count}] = [{', '.join(map(str, clips.said))}];",
            "#[rustfmt::skip]",
            f"pub const FEATURES: [[i16; {rows * columns}]; {count}] = [",
            *blocks,
            "];\n",
        ]
    )


def _numbers(clip: Sequence[Sequence[int]] | NDArray[np.int16], margin: str) -> str:
    """A line for each row of features."""
    return f",\n{margin}".join(", ".join(str(value) for value in row) for row in clip)


FILES = {
    EXAMPLES / "projects" / "shared" / "clips.h": header,
    EXAMPLES / "projects" / "rust" / "src" / "clips.rs": module,
}


def main() -> None:
    clips = read_clips()
    for file, text in FILES.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(clips), encoding="utf-8")


if __name__ == "__main__":
    main()
