# SPDX-License-Identifier: Apache-2.0
"""tinyc/load/onnx/homes.py says where importers are, and a model loads no others than its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import importer_homes  # noqa: E402  a script

LOAD = """\
import sys
from pathlib import Path
from tinyc.load import load_model
load_model(Path(sys.argv[1]))
print(*(name.rpartition(".")[2] for name in sys.modules if name.startswith("tinyc.load.onnx.")))
"""


def test_the_file_is_up_to_date() -> None:
    assert importer_homes.FILE.read_text(encoding="utf-8") == importer_homes.homes(), "run `make docs`"


def test_a_model_loads_the_importers_of_its_operators() -> None:
    model = ROOT / "examples" / "kws" / "kws.onnx"
    ran = subprocess.run([sys.executable, "-c", LOAD, model], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert loaded >= {"activations", "convolution", "dense"}
    assert not loaded & {"every", "attention", "elementwise", "integers", "recurrent", "resampling", "trees", "vectors"}
