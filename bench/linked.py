# SPDX-License-Identifier: Apache-2.0
"""Several models in one firmware: arena and code of three of MLPerf Tiny's, together and apart, for docs/integrate.md.

    python bench/linked.py

The models are looked for in TINYC_MODELS, by default shared/models beside the checkout; they are not part of tinyc.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import tinyc
from tinyc.options.build import Prefer
from tinyc.package.link import link_libraries

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("kws", "sww", "ad")


def main() -> int:
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    print("| `--prefer` | arena together, apart | code together, apart |\n|---|---|---|")
    preferences: tuple[Prefer, ...] = ("balanced", "flash")
    for prefer in preferences:
        with tempfile.TemporaryDirectory() as held:
            built = []
            for name in MODELS:
                library = tinyc.build(folder / f"{name}_int8.tflite", out=Path(held) / name, samples=1, prefer=prefer)
                built.append(library.folder)
            sizes = link_libraries(built, "models", Path(held) / "models")
        arenas = f"{sizes.arena_bytes:,}, {sizes.separate_arena_bytes:,}"
        print(f"| {prefer} | {arenas} | {sizes.code_bytes:,}, {sizes.separate_code_bytes:,} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
