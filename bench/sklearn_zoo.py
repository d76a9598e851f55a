# SPDX-License-Identifier: Apache-2.0
"""Every estimator of scikit-learn that skl2onnx knows: which build, which are refused and why, and how they decide.

    pip install scikit-learn skl2onnx
    python bench/sklearn_zoo.py [--only RandomForest]

Each is trained on every second row of iris (classes) or diabetes (numbers), exported as one would, built for the host,
without calibration data (in integers where trees alone decide, else with --precision float32), and its C library
compared with ONNX Runtime on 60 rows that were not learned. labels: how many differ. values: the largest difference,
of the largest value.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from skl2onnx._supported_operators import sklearn_operator_name_map
from sklearn.base import is_regressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

import tinyc
from tinyc.base.errors import TinycError
from tinyc.load import load_model
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.passes import normalize

SAMPLES = 60
TREE = DecisionTreeClassifier(max_depth=3)
CLASSIFIERS = [("a", TREE), ("b", DecisionTreeClassifier(max_depth=4, max_features=1, random_state=1))]
REGRESSORS = [("a", DecisionTreeRegressor(max_depth=3)), ("b", DecisionTreeRegressor(max_features=1, random_state=1))]
SCALERS = [("a", StandardScaler()), ("b", MinMaxScaler())]
SETTINGS: dict[str, dict[str, Any]] = {
    "VotingClassifier": {"estimators": CLASSIFIERS, "voting": "soft", "flatten_transform": False},
    "StackingClassifier": {"estimators": CLASSIFIERS},
    "VotingRegressor": {"estimators": REGRESSORS},
    "StackingRegressor": {"estimators": REGRESSORS},
    **{name: {"estimator": LogisticRegression()} for name in ("OneVsRestClassifier", "OneVsOneClassifier")},
    **{name: {"estimator": TREE} for name in ("MultiOutputClassifier", "CalibratedClassifierCV", "RFE", "RFECV")},
    "SelectFromModel": {"estimator": TREE},
    "MultiOutputRegressor": {"estimator": Ridge()},
    "GridSearchCV": {"estimator": DecisionTreeClassifier(), "param_grid": {"max_depth": [2, 3]}},
    "ColumnTransformer": {"transformers": [("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2])]},
    "FeatureUnion": {"transformer_list": SCALERS},
    "Pipeline": {"steps": [("a", StandardScaler()), ("b", DecisionTreeClassifier())]},
    "KBinsDiscretizer": {"encode": "ordinal", "quantile_method": "averaged_inverted_cdf"},
    "LocalOutlierFactor": {"novelty": True},
    "GaussianRandomProjection": {"n_components": 2},
}
TEXTS = (
    "CountVectorizer",
    "DictVectorizer",
    "FeatureHasher",
    "TfidfVectorizer",
    "TfidfTransformer",
    "HashingVectorizer",
)
OF_LABELS = ("LabelBinarizer", "LabelEncoder", "KernelCenterer")  # take no table of features


def made(name: str, kind: type) -> Any:
    """The estimator, small and the same each time."""
    model = kind(**SETTINGS.get(name, {}))
    known = model.get_params()
    wanted = {"n_estimators": 10, "random_state": 0} | ({"max_iter": 10} if name.startswith("Hist") else {})
    return model.set_params(**{key: value for key, value in wanted.items() if key in known})


def data(name: str, model: Any) -> tuple[np.ndarray, np.ndarray]:
    """(features, what is to be learned), several targets where the estimator asks for them."""
    if not is_regressor(model):
        x, y = load_iris(return_X_y=True)
        return x.astype(np.float32), np.stack([y == 0, y == 1], 1).astype(int) if name == "MultiOutputClassifier" else y
    x, y = load_diabetes(return_X_y=True)
    several = name.startswith("MultiTask") or name == "MultiOutputRegressor"
    return x.astype(np.float32), np.stack([y, y / 2 + x[:, 0]], 1) if several else y


def exported(model: Any, x: np.ndarray) -> Any:
    options = {"target_opset": {"": 18, "ai.onnx.ml": 3}}
    try:
        return to_onnx(model, x[:1], options={"zipmap": False}, **options)
    except (NameError, ValueError, KeyError):
        return to_onnx(model, x[:1], **options)


def built(file: Path, folder: Path) -> str:
    """Build for the host; how: in integers where trees alone decide, and reals are moved at most."""
    graph = normalize(load_model(file))
    made = [name for node in graph.nodes if not is_a(node, Trait.MOVES) for name in node.outputs]
    trees = any(node.op == "tree_ensemble" for node in graph.nodes)
    if not trees or any(graph.values[name].dtype == "f32" for name in made):
        tinyc.build(file, "host", out=folder, proof=False, precision="float32")
        return "float32"
    tinyc.build(file, "host", out=folder, proof=False)
    return "integers"


def compared(file: Path, folder: Path, name: str, x: np.ndarray) -> tuple[int, float]:
    """(labels that differ, the largest difference of values over the largest value)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(file), options)
    wanted = list(zip(*(session.run(None, {name: row[None]}) for row in x), strict=True))
    graph, found = load_model(file), tinyc.load(folder).run(x)
    labels, worst = 0, 0.0
    for output, ours, theirs in zip(
        graph.outputs, found if isinstance(found, tuple) else (found,), wanted, strict=True
    ):
        got, want = (np.asarray(array).reshape(len(x), -1) for array in (ours, theirs))
        quant = graph.values[output].quant
        if want.dtype.kind == "f":
            reals = quant.dequantize(got) if quant is not None and got.dtype.kind == "i" else got
            worst = max(worst, float(np.abs(reals - want).max() / max(np.abs(want).max(), 1e-30)))
        else:
            labels += int((got != want).sum())
    return labels, worst


def row(name: str, kind: type) -> tuple[str, str]:
    """(how it builds or who refuses it, figures or the reason)."""
    model = made(name, kind)
    x, y = data(name, model)
    model.fit(x[::2], y[::2])
    with tempfile.TemporaryDirectory() as held:
        file, folder = Path(held) / "model.onnx", Path(held) / "built"
        try:
            made_file = exported(model, x)
        except Exception as e:  # whatever its converters raise
            return "not exported", str(e).splitlines()[0][:90]
        file.write_bytes(made_file.SerializeToString())
        try:
            how = built(file, folder)
        except TinycError as e:
            return "refused", e.message.splitlines()[-1].strip()[:110]
        labels, worst = compared(file, folder, made_file.graph.input[0].name, x[1::2][:SAMPLES])
        return how, f"labels {labels}, values {worst:.0e}"


def estimators(only: str) -> Iterator[tuple[str, type]]:
    known = {kind.__name__ for kind in sklearn_operator_name_map} | {"Pipeline", "FeatureUnion", "ColumnTransformer"}
    for name, kind in all_estimators():
        if name in known and name not in (*TEXTS, *OF_LABELS) and name.startswith(only):
            yield name, kind


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="estimators whose names begin so")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| estimator | builds | |\n|---|---|---|")
    for name, kind in estimators(arguments.only):
        try:
            how, says = row(name, kind)
        except Exception as e:  # it does not train on such data, or ONNX Runtime does not run the file
            how, says = "not tried", f"{type(e).__name__}: {str(e).splitlines()[0][:90]}"
        print(f"| {name} | {how} | {says} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
