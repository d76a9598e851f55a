# SPDX-License-Identifier: Apache-2.0
"""The int8 accuracy in examples/kws/README.md, from a build: `python scripts/example_numbers.py` writes it.

tests/models/test_example_numbers.py holds the page to what a build says.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path

import tinyc

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "kws"
PAGE = FOLDER / "README.md"
ROW = re.compile(r"^\| int8, tinyc \|.*\|$", re.MULTILINE)


def row() -> str:
    """The row of the table, from a build for this computer: the integers are the same on every board."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", tinyc.TinycWarning)
        built = tinyc.build(
            FOLDER / "kws.onnx", "host", out=Path(folder) / "kws", inputs=FOLDER / "kws.test.npz", samples=0
        )
    found = built.report.accuracy
    assert found is not None
    assert found.top1_int is not None
    assert found.agreement is not None
    right = round(found.top1_int * found.inputs)
    return (
        f"| int8, tinyc | {right} of {found.inputs} = {found.top1_int:.2%}; {found.agreement:.1%} of the answers are "
        f"those of the float model; output SQNR {found.sqnr_db:.1f} dB |"
    ).replace("%", " %")


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(ROW.sub(lambda _: row(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
