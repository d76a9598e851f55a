# SPDX-License-Identifier: Apache-2.0
"""Texts that classes stand for: in the header they are what ONNX Runtime gives, whatever is in them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tinyc
from tests.hostile_names import HOSTILE, INJECTED
from tests.load.onnx_forests import saved
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Labels
from tinyc.load import load_model
from tinyc.load.onnx.importing import MOST_LABEL_BYTES
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize

ML = {"domain": "ai.onnx.ml"}
FLAGS = ("-trigraphs", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsanitize=address,undefined")
FEATURES = 3
NAMES = ("setosa", 'versi"color', "virg\u00edn??/ica")


def file_of(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], texts: dict[str, Sequence[str]]
) -> onnx.ModelProto:
    """Features x [1, FEATURES] and constants w [FEATURES, FEATURES], and tensors of texts."""
    consts = [numpy_helper.from_array(np.eye(FEATURES, dtype=np.float32) - 0.25, "w")]
    consts += [
        helper.make_tensor(name, TensorProto.STRING, [len(t)], [s.encode() for s in t]) for name, t in texts.items()
    ]
    graph = helper.make_graph(
        nodes,
        "labels",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, FEATURES])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        consts,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def linear(names: Sequence[str]) -> onnx.NodeProto:
    weights = (np.eye(FEATURES) - 0.25)[:, : len(names)].T.ravel()
    return helper.make_node(
        "LinearClassifier", ["x"], ["label", "scores"], coefficients=weights.tolist(), intercepts=[0.0] * len(names),
        classlabels_strings=list(names), **ML,
    )  # fmt: skip


def classifier() -> onnx.ModelProto:
    return file_of([linear(NAMES)], ["label"], {})


def extracted() -> onnx.ModelProto:
    """As most of scikit-learn's estimators are exported: texts at a computed place."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["place"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["classes", "place"], ["found"], **ML),
        helper.make_node("Reshape", ["found", "shape"], ["label"]),
    ]
    model_file = file_of(nodes, ["label"], {"classes": NAMES})
    model_file.graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), "shape"))
    return model_file


def encoded() -> onnx.ModelProto:
    """The encoder's own order, twice the same text, and the default behind them."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["place"], axis=1, keepdims=0),
        helper.make_node(
            "LabelEncoder", ["place"], ["label"], keys_int64s=[1, 0], values_strings=[NAMES[2], NAMES[0]],
            default_string="none\tof them", **ML,
        ),
    ]  # fmt: skip
    return file_of(nodes, ["label"], {})


def said(library: Path, name: str, main: str) -> bytes:
    """What a program with this main prints: C99 with warnings as errors and sanitizers, and C++11 to a compiler."""
    (library / "main.c").write_text(f'#include "{name}.h"\n#include <stdio.h>\n{main}')
    (library / "main.cpp").write_text(f'#include "{name}.h"\n')
    subprocess.run(["g++", "-std=c++11", *FLAGS, "-fsyntax-only", "main.cpp"], check=True, cwd=library)
    words = ["gcc", "-std=c99", *FLAGS, "main.c", f"{name}.c", "-lm", "-o", "said"]
    subprocess.run(words, check=True, cwd=library)
    return subprocess.run([library / "said"], check=True, capture_output=True).stdout


def run_on(name: str, x: np.ndarray) -> str:
    """C that prints the label of each row, with a zero byte behind it."""
    rows = ", ".join(f"{{ {', '.join(f'{v:.9g}f' if v % 1 else f'{v:.1f}f' for v in row)} }}" for row in x.tolist())
    return f"""
static {name}_arena_t arena;

int main(void)
{{
    static const float x[{len(x)}][{FEATURES}] = {{ {rows} }};
    for (int i = 0; i < {len(x)}; i++) {{
        for (int k = 0; k < {FEATURES}; k++) {{
            {name}_input_0(&arena)[k] = x[i][k];
        }}
        (void){name}_run(&arena);
        const char *said = {name}_label_output_0({name}_output_0(&arena)[0]);
        fputs(said != NULL ? said : "nothing", stdout);
        putchar(0);
    }}
    return 0;
}}
"""


@pytest.mark.parametrize("make", [classifier, extracted, encoded])
def test_labels_are_the_texts_of_onnxruntime(make, tmp_path: Path) -> None:
    x = np.random.default_rng(5).normal(0, 1, (30, FEATURES)).astype(np.float32)
    model = make()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    labels = [str(np.ravel(session.run(["label"], {"x": row[None]})[0])[0]) for row in x]
    built = tinyc.build(
        saved(model, tmp_path), "host", name="m", out=tmp_path / "out", precision="float32", proof=False
    )
    texts = said(built.folder, "m", run_on("m", x)).split(b"\0")[:-1]
    assert [text.decode() for text in texts] == labels
    assert len(set(labels)) == 3


@pytest.mark.parametrize("names", [HOSTILE, [f"class {k} \u00df" for k in range(300)]], ids=["hostile", "many"])
def test_any_text_comes_out_as_it_is(names: Sequence[str], tmp_path: Path) -> None:
    names = [name.encode("utf-8", "replace").decode() for name in names]
    names = [name for name in names if len(name.encode()) <= MOST_LABEL_BYTES]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["place"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["classes", "place"], ["label"], **ML),
    ]
    path = saved(file_of(nodes, ["label"], {"classes": names}), tmp_path)
    built = tinyc.build(path, "host", name="m", out=tmp_path / "out", precision="float32", proof=False)
    lines = (built.folder / "m.h").read_text(encoding="ascii").splitlines()
    assert all(line.startswith('        "') for line in lines if INJECTED in line)
    main = """
int main(void)
{
    for (int32_t n = -1; n <= M_OUTPUT_0_LABELS; n++) {
        const char *said = m_label_output_0(n);
        fputs(said != NULL ? said : "nothing", stdout);
        putchar(0);
    }
    return 0;
}
"""
    texts = said(built.folder, "m", main).decode().split("\0")[:-1]
    assert texts == ["nothing", *(name.partition("\0")[0] for name in names), "nothing"]


def test_scores_of_zipmap_have_the_names_of_their_places(tmp_path: Path) -> None:
    zipped = helper.make_node("ZipMap", ["scores"], ["zipped"], classlabels_strings=NAMES, **ML)
    graph = load_model(saved(file_of([linear(NAMES), zipped], ["label", "zipped"], {}), tmp_path))
    assert {name: (held.texts, held.by_value) for name, held in normalize(graph).labels.items()} == {
        "label": (NAMES, True),
        "zipped": (NAMES, False),
    }


def test_what_is_computed_of_an_index_is_not_called_so(tmp_path: Path) -> None:
    """And texts that no C compiler must take are left out."""
    cast = helper.make_node("Cast", ["place"], ["y"], to=TensorProto.FLOAT)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["place"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["classes", "place"], ["label"], **ML),
    ]
    graph = load_model(saved(file_of([*nodes, cast], ["y", "label"], {"classes": NAMES}), tmp_path))
    assert set(graph.labels) == {"label"}
    longer = ["a" * MOST_LABEL_BYTES, "b" * (MOST_LABEL_BYTES + 1), "c"]
    assert not load_model(saved(file_of(nodes, ["label"], {"classes": longer}), tmp_path)).labels


def test_a_function_that_is_not_used_takes_nothing(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path)
    built = tinyc.build(path, "host", name="m", out=tmp_path / "out", precision="float32", proof=False)
    subprocess.run(["gcc", "-O0", "-c", "m.c", "-o", "m.o"], check=True, cwd=built.folder)
    assert b"setosa" not in (built.folder / "m.o").read_bytes()


@pytest.mark.parametrize("outputs", [["label", "zipped"], ["label"], ["zipped"]])
def test_a_quantized_classifier_keeps_its_texts(outputs: Sequence[str], tmp_path: Path) -> None:
    """Quantizing compares the float model with ONNX Runtime, where classes are texts and scores a map."""
    zipped = helper.make_node("ZipMap", ["scores"], ["zipped"], classlabels_strings=NAMES, **ML)
    classifier_node = linear(NAMES)
    classifier_node.attribute.append(helper.make_attribute("post_transform", "SOFTMAX"))
    path = saved(
        file_of([classifier_node, zipped] if "zipped" in outputs else [classifier_node], outputs, {}), tmp_path
    )
    x = np.random.default_rng(6).normal(0, 1, (40, 1, FEATURES)).astype(np.float32)
    built = tinyc.build(path, "host", name="m", out=tmp_path / "out", calibration={"x": x})
    assert built.report.passed
    header = (built.folder / "m.h").read_text(encoding="ascii")
    assert all(f"m_label_output_{n}" in header for n in range(len(outputs)))


def test_texts_that_were_misread_are_found_while_quantizing(tmp_path: Path) -> None:
    path = saved(classifier(), tmp_path)
    graph = normalize(load_model(path))
    x = np.random.default_rng(7).normal(0, 1, (40, 1, FEATURES)).astype(np.float32)
    calibration = Calibration({"x": x}, "test", True, path)
    quantize(graph, calibration)
    swapped = replace(graph, labels={"label": Labels(NAMES[::-1])})
    with pytest.raises(TinycError, match="output 'label' differs from what onnxruntime computes"):
        quantize(swapped, calibration)
    quantize(replace(graph, labels={}), calibration)  # texts that tinyc leaves out cannot be compared
