# SPDX-License-Identifier: Apache-2.0
"""Every estimator of scikit-learn that skl2onnx knows: which build, which are refused and why, and how they decide.

    pip install scikit-learn skl2onnx
    python bench/sklearn_zoo.py [--only RandomForest]

Each is trained on every second row of iris (classes) or diabetes (numbers), exported as one would, and built for the
host with no option and no calibration data. Its C library is compared, on the rows that were not learned, with
scikit-learn's own predictions (right classes, or R2) and with ONNX Runtime. labels: how many differ. values: the
largest difference, of the largest value.
"""

from __future__ import annotations

import argparse
import json
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
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.feature_selection import SelectorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

import tinyc
from tinyc.base.errors import TinycError
from tinyc.load import load_model

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


def estimator(name: str, kind: type) -> Any:
    """The estimator, small and the same each time."""
    model = kind(**SETTINGS.get(name, {}))
    parameters = model.get_params()
    small = {"n_estimators": 10, "random_state": 0} | ({"max_iter": 10} if name.startswith("Hist") else {})
    return model.set_params(**{key: value for key, value in small.items() if key in parameters})


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
    """Build for the host as anybody does, with no option; how: in integers where trees alone decide."""
    tinyc.build(file, "host", out=folder, proof=False)
    report = json.loads((folder / "report.json").read_text())
    return "integers" if all("f32" not in layer["kernel"] for layer in report["layers"]) else "float32"


def compared(file: Path, folder: Path, name: str, x: np.ndarray) -> tuple[int, float, dict[str, np.ndarray[Any, Any]]]:
    """(labels that differ from ONNX Runtime's, the largest difference of values over the largest value, the C
    library's outputs)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(file), options)
    theirs_by_row = list(zip(*(session.run(None, {name: row[None]}) for row in x), strict=True))
    graph, result = load_model(file), tinyc.load(folder).run(x)
    labels, worst, outputs = 0, 0.0, {}
    arrays = result if isinstance(result, tuple) else (result,)
    for output, ours, theirs in zip(graph.outputs, arrays, theirs_by_row, strict=True):
        got, want = (np.asarray(array).reshape(len(x), -1) for array in (ours, theirs))
        quant = graph.values[output].quant
        outputs[output] = quant.dequantize(got) if quant is not None and got.dtype.kind == "i" else got
        if want.dtype.kind == "f":
            worst = max(worst, float(np.abs(outputs[output] - want).max() / max(np.abs(want).max(), 1e-30)))
        else:
            labels += int((got != want).sum())
    return labels, worst, outputs


def scored(model: Any, outputs: dict[str, np.ndarray[Any, Any]], x: np.ndarray, y: np.ndarray) -> str:
    """`97.3 % | 97.3 %`: right classes as scikit-learn predicts and as the C library does, or both R2 of a regression;
    `- | -` where what is exported does not predict what was learned."""
    if isinstance(model, SelectorMixin) or not (is_classifier(model) or is_regressor(model)):
        return "- | -"
    theirs = model.predict(x)
    pair = (theirs, next(iter(outputs.values())).reshape(theirs.shape))
    if is_classifier(model):
        return " | ".join(f"{100 * float((predicted == y).mean()):.1f} %" for predicted in pair)
    return " | ".join(f"R2 {r2_score(y, predicted):.4f}" for predicted in pair)


def row(name: str, kind: type) -> tuple[str, str]:
    """(how it builds or who refuses it, figures or the reason)."""
    model = estimator(name, kind)
    x, y = data(name, model)
    model.fit(x[::2], y[::2])
    with tempfile.TemporaryDirectory() as held:
        file, folder = Path(held) / "model.onnx", Path(held) / "built"
        try:
            exported_file = exported(model, x)
        except Exception as e:  # whatever its converters raise
            return "not exported", "| | " + str(e).splitlines()[0][:90]
        file.write_bytes(exported_file.SerializeToString())
        try:
            how = built(file, folder)
        except TinycError as e:
            return "refused", "| | " + e.message.splitlines()[-1].strip()[:110]
        seen, truth = x[1::2], y[1::2]
        labels, worst, outputs = compared(file, folder, exported_file.graph.input[0].name, seen)
        return how, f"{scored(model, outputs, seen, truth)} | labels {labels}, values {worst:.0e}"


def estimators(only: str) -> Iterator[tuple[str, type]]:
    names = {kind.__name__ for kind in sklearn_operator_name_map} | {"Pipeline", "FeatureUnion", "ColumnTransformer"}
    for name, kind in all_estimators():
        if name in names and name not in (*TEXTS, *OF_LABELS) and name.startswith(only):
            yield name, kind


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="estimators whose names begin so")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| estimator | builds | scikit-learn | C | beside ONNX Runtime |\n|---|---|---|---|---|")
    for name, kind in estimators(arguments.only):
        try:
            how, says = row(name, kind)
        except Exception as e:  # it does not train on such data, or ONNX Runtime does not run the file
            how, says = "not tried", f"| | {type(e).__name__}: {str(e).splitlines()[0][:90]}"
        print(f"| {name} | {how} | {says} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
