# SPDX-License-Identifier: Apache-2.0
"""Support vector machines, nearest neighbours and naive Bayes of scikit-learn as C: flash, instructions, decisions.

    pip install scikit-learn skl2onnx emlearn m2cgen
    python bench/neighbours.py [--only iris] [--json FILE]

tinyc (`--precision float32`) beside m2cgen and emlearn where these take the model, measured as `bench/forests.py`
measures forests: a Cortex-M4 with FPU, gcc -O2, unicorn; class (or value) only. arena: of tinyc. emlearn's neighbours
take features as int16, its naive Bayes computes with 16 bits behind the point. differ: predictions that are not
scikit-learn's, of samples that were not learned from.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import emlearn
import m2cgen
import numpy as np
from forests import EMLEARN, EMPTY, M2CGEN, SAMPLES, TINYC, compiled, filled, flash_bytes, run
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress


@dataclass(frozen=True)
class Row:
    """instructions: the mean of a prediction. ram_bytes: 0 where it is not known."""

    model: str
    tool: str
    flash_bytes: int
    ram_bytes: int
    instructions: int
    differ: int
    samples: int


def models() -> Iterator[tuple[str, Any, np.ndarray]]:
    """(name, trained model, features of which every second row was learned, scaled where that is usual)."""
    iris, digits, cancer, wine, diabetes = (
        load(return_X_y=True) for load in (load_iris, load_digits, load_breast_cancer, load_wine, load_diabetes)
    )
    many = [
        ("iris, SVC linear", iris, SVC(kernel="linear"), False),
        ("iris, SVC poly", iris, SVC(kernel="poly"), False),
        ("iris, SVC rbf", iris, SVC(), False),
        ("wine, SVC sigmoid", wine, SVC(kernel="sigmoid"), True),
        ("wine, SVC rbf", wine, SVC(), True),
        ("breast cancer, SVC rbf", cancer, SVC(), True),
        ("digits, SVC linear", digits, SVC(kernel="linear"), False),
        ("digits, SVC rbf", digits, SVC(), False),
        ("diabetes, SVR rbf", diabetes, SVR(C=50), True),
        ("iris, 5 neighbours", iris, KNeighborsClassifier(5), False),
        ("breast cancer, 5 neighbours", cancer, KNeighborsClassifier(5), True),
        ("digits, 5 neighbours", digits, KNeighborsClassifier(5), False),
        ("diabetes, 5 neighbours", diabetes, KNeighborsRegressor(5), True),
        ("iris, GaussianNB", iris, GaussianNB(), False),
        ("wine, GaussianNB", wine, GaussianNB(), False),
        ("breast cancer, GaussianNB", cancer, GaussianNB(), False),
    ]
    for name, (x, y), model, scaled in many:
        features = (StandardScaler().fit(x[::2]).transform(x) if scaled else x).astype(np.float32)
        model.fit(features[::2], y[::2])
        yield name, model, features


def by_tinyc(model: Any, x: np.ndarray, folder: Path, sizes: dict[str, str]) -> tuple[str, int]:
    """(C text, bytes of the arena): the class alone, or the value."""
    classes = hasattr(model, "classes_")
    options = {"zipmap": False} if classes else None
    onnx_file = folder / "forest.onnx"
    exported = to_onnx(model, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    onnx_file.write_bytes(exported.SerializeToString())
    chosen = Options(board="cortex-m4", name="forest", precision="float32", outputs=("label",) if classes else ())
    built = compile_model(onnx_file, load_board("cortex-m4"), chosen, Progress())
    for file, text in built.files.items():
        (folder / file).write_text(text)
    return filled(TINYC, sizes | {"RESULT": "forest_output_0(&arena)[0]"}), built.plan.arena_bytes


_VOTES = """float input[COUNT];
double result;
static double features[COUNT], out[CLASSES * (CLASSES - 1) / 2];
void predict(void)
{
    int votes[CLASSES] = {0}, pair = 0, best = 0;
    for (int i = 0; i < COUNT; i++) features[i] = input[i];
    score(features, out);
    for (int i = 0; i < CLASSES; i++)
        for (int j = i + 1; j < CLASSES; j++) votes[out[pair++] > 0 ? i : j]++;
    for (int i = 1; i < CLASSES; i++) best = votes[i] > votes[best] ? i : best;
    result = best;
}
"""
_NEIGHBOURS = """#include "model.h"
float input[COUNT];
double result;
static int16_t features[COUNT];
static EmlNeighborsDistanceItem distances[ITEMS];
void predict(void)
{
    int16_t label = -1;
    for (int i = 0; i < COUNT; i++) features[i] = (int16_t)input[i];
    eml_neighbors_predict(&model, features, COUNT, distances, ITEMS, &label);
    result = label;
}
"""
_SIGN = """float input[COUNT];
double result;
static double features[COUNT];
void predict(void)
{
    for (int i = 0; i < COUNT; i++) features[i] = input[i];
    result = score(features) > 0;
}
"""


def by_others(model: Any, folder: Path, sizes: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(tool, C text) of those that take the model. m2cgen gives the sums of pairs of classes: they are counted here."""
    if isinstance(model, SVC):
        yield "m2cgen", m2cgen.export_to_c(model) + filled(_VOTES if len(model.classes_) > 2 else _SIGN, sizes)
    elif isinstance(model, SVR):
        text = M2CGEN.replace("SCORE", "result = score(features);")
        yield "m2cgen", m2cgen.export_to_c(model) + filled(text, sizes)
    elif isinstance(model, GaussianNB | KNeighborsClassifier):
        with chdir(folder):  # it leaves files where it runs
            emlearn.convert(model).save(file=str(folder / "model.h"), name="model")
        shape, items = (EMLEARN, 0) if isinstance(model, GaussianNB) else (_NEIGHBOURS, model.n_samples_fit_)
        yield "emlearn", filled(shape, sizes | {"TYPE": "float", "ITEMS": str(items)})


def measured(name: str, model: Any, x: np.ndarray) -> Iterator[Row]:
    unseen = x[1::2][:SAMPLES]
    predicted = model.predict(unseen)
    sizes = {"COUNT": str(x.shape[1]), "CLASSES": str(len(getattr(model, "classes_", [0])))}
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        elf = compiled(filled(EMPTY, sizes), folder)
        empty_flash, empty_work = flash_bytes(elf), run(elf, unseen)[1]
        text, arena_bytes = by_tinyc(model, x, folder, sizes)
        programs = [("tinyc", text, arena_bytes), *((tool, text, 0) for tool, text in by_others(model, folder, sizes))]
        for tool, text, ram in programs:
            elf = compiled(text, folder)
            results, executed = run(elf, unseen)
            differ = int((~np.isclose(results, predicted, rtol=1e-4)).sum())
            work = round((executed - empty_work) / len(unseen))
            yield Row(name, tool, flash_bytes(elf) - empty_flash, ram, work, differ, len(unseen))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="models whose names begin so")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    rows = []
    print("| model | tool | flash, bytes | arena, bytes | instructions | differ |\n|---|---|---|---|---|---|")
    for name, model, x in models():
        if name.startswith(arguments.only):
            for row in measured(name, model, x):
                ram = f"{row.ram_bytes:,}" if row.ram_bytes else ""
                print(
                    f"| {row.model} | {row.tool} | {row.flash_bytes:,} | {ram} | {row.instructions:,} |"
                    f" {row.differ} of {row.samples} |",
                    flush=True,
                )
                rows.append(asdict(row))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
