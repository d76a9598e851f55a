# SPDX-License-Identifier: Apache-2.0
"""tree_ensemble: every kernel gives the reference's bytes, for every type of codes and of leaves."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from tests.ops.forests import forest
from tests.ops.harness import check_kernels
from tests.ops.one_node import one_node, tensor
from tinyc.base.numerics import Numerics
from tinyc.base.paths import runtime_dir
from tinyc.kernel.site import Site
from tinyc.kernels.trees.forest import Forest
from tinyc.kernels.trees.keys import keys_of, reals_of, steps
from tinyc.ops.argmax import ArgMax

SPECIAL = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1.5, -1.5, np.inf, -np.inf, 3.4e38, -3.4e38, np.nan, -np.nan, 2.0**-126], np.float32
)


def test_keys_order_floats() -> None:
    x = np.sort(np.concatenate([SPECIAL[~np.isnan(SPECIAL)], np.random.default_rng(0).normal(size=99).astype("f4")]))
    keys = keys_of(x)
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
    np.testing.assert_array_equal(reals_of(keys).view(np.int32), x.view(np.int32))


TABLES = ["tc_tree_ensemble_u8", "tc_tree_ensemble_s16", "tc_tree_ensemble_s32"]
BRANCHES = ["tc_tree_branches_bits", "tc_tree_branches_u8", "tc_tree_branches_s16", "tc_tree_branches_s32"]


@pytest.mark.parametrize(
    ("source", "leaf", "columns", "complement", "cuts"),
    [
        ("f32", 100, 3, None, 20),
        pytest.param("f32", 0, 3, None, 5, marks=pytest.mark.slow),
        pytest.param("s32", 10**8, 1, 70000, 400, marks=pytest.mark.slow),
        ("s32", 3000, 1, -5, 9),
        pytest.param("f32", 3000, 1, -5, 400, marks=pytest.mark.slow),
        pytest.param("s32", 100, 3, None, 20, marks=pytest.mark.slow),
        pytest.param("f32", 10**8, 2, None, 5, marks=pytest.mark.slow),
        pytest.param("s32", 3000, 2, None, 20, marks=pytest.mark.slow),
    ],
)
def test_kernels(source: str, leaf: int, columns: int, complement: int | None, cuts: int) -> None:
    """On every cut, beside it, and on numbers of every kind; 400 cuts are too many for a byte."""
    graph = forest(source, leaf, columns, complement, cuts)
    rng = np.random.default_rng(0)
    near = rng.choice(graph.consts["nodes"][:, 1], (40, 10)) + rng.integers(-1, 2, (40, 10))
    reals = np.where(rng.random((40, 10)) < 0.8, reals_of(near), rng.choice(SPECIAL, (40, 10))).astype(np.float32)
    samples = [{"x": (row if source == "f32" else row.view(np.int32))[None]} for row in reals]
    used = check_kernels(graph, samples)
    counts = [len({cut for code, cut, _, _ in graph.consts["nodes"] if code == k}) for k in range(9)]
    first = 0 if max(counts) <= 255 else 1
    assert used == [BRANCHES[0], *BRANCHES[1 + first :], *TABLES[first:]]
    assert first == (cuts > 255)


ONE_FOREST = """#include "tc_compiler.h"
#include "tc_begin.h"
#include "tc_feature_codes.h"
static const tc_feature_codes_t codes = {.n = COUNT, .is_float = 1, .not_negative = SIGN};
int walk(const tc_feature_bits_t *bits);
int classify(const void *x, void *copy);
int classify(const void *x, void *copy) { return walk(tc_feature_bits(&codes, x, copy)); }
"""


@pytest.mark.parametrize("count", [1, 12, 13, 64])
@pytest.mark.parametrize("compiler", ["arm-none-eabi-gcc -mcpu=cortex-m0plus -mthumb", "gcc"])
def test_any_number_of_features_compiles_without_a_warning(compiler: str, count: int, tmp_path: Path) -> None:
    """GCC 12 for Arm warned of 12, 16, 20, ... features, which made every build with as many an error."""
    command = compiler.split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (tmp_path / "forest.c").write_text(ONE_FOREST)
    headers = [f"-I{runtime_dir() / room}" for room in ("base", "classical")]
    flags = ["-std=c99", "-ffreestanding", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", *headers]
    for level, sign in product(("-Os", "-O2", "-O3"), (0, 1)):
        of_it = [level, f"-DCOUNT={count}", f"-DSIGN={sign}", "-c", tmp_path / "forest.c", "-o", tmp_path / "forest.o"]
        subprocess.run([*command, *flags, *of_it], check=True)


STEPS = ["tc_tree_ensemble_bits_u8", "tc_tree_ensemble_bits_u16"]


@pytest.mark.parametrize(
    ("source", "step", "leaf", "columns", "complement", "steps"),
    [
        ("f32", 0.5, 10**7, 7, None, STEPS),
        ("s32", 7, 100, 12, None, STEPS[1:]),
        pytest.param("f32", 0.25, 10**8, 1, 70000, STEPS, marks=pytest.mark.slow),
        pytest.param("s32", 1, 3000, 5, None, STEPS[1:], marks=pytest.mark.slow),
        pytest.param("f32", 32.0, 0, 5, None, STEPS[1:], marks=pytest.mark.slow),
    ],
)
def test_cuts_with_a_step(
    source: str, step: float, leaf: int, columns: int, complement: int | None, steps: list[str]
) -> None:
    """Features compared as they lie: on every cut, beside it, below 0, with NaN of both signs; leaves mostly 0."""
    graph = forest(source, leaf, columns, complement, 12, step)
    rng = np.random.default_rng(1)
    near = rng.choice(graph.consts["nodes"][:, 1], (60, 10)) + rng.integers(-1, 2, (60, 10))
    if source == "f32":
        special = np.where(np.arange(60)[:, None] % 2, SPECIAL[rng.integers(len(SPECIAL), size=(60, 10))], 0.0)
        x = np.where(rng.random((60, 10)) < 0.8, reals_of(near), special).astype(np.float32)
    else:
        x = np.where(rng.random((60, 10)) < 0.8, near, rng.choice([0, -1, -(2**31), 2**31 - 1], (60, 10)))
        x = x.astype(np.int32)
    used = check_kernels(graph, [{"x": row[None]} for row in x])
    assert used == [*BRANCHES, *steps, *TABLES]


@pytest.mark.parametrize(("cuts", "fits"), [((-(2**30), 2**30 - 2**24), True), ((-(2**31), 2**30), False)])
def test_steps_that_leave_int32_are_none(cuts: tuple[int, int], fits: bool) -> None:
    """base + (number << shift) is added in int32, in which neither term may overflow."""
    nodes = np.array([[0, cuts[0], -1, 1], [0, cuts[1], -1, -2]], np.int32)
    leaves = np.array([[1], [2]], np.int32)
    features = np.array([[0, 2**31 - 1]], np.int32)
    p = Forest.of(features, nodes, np.zeros(1, np.int32), leaves, np.zeros(1, np.int32), None)
    graph = forest("s32", 100, 3, None, 5)
    assert (steps(Site(graph, graph.nodes[0], Numerics.TFLM), p, 8) is not None) == fits


def test_leaves_that_are_mostly_0() -> None:
    """Words of a number and its column, in fewer bytes than all columns take."""
    consts = forest("f32", 10**7, 7, None, 5).consts
    p = Forest.of(*(consts[name] for name in ("features", "nodes", "roots", "leaves", "base")), None)
    assert p.entries is not None
    assert p.entries.nbytes < p.rows.nbytes / 2
    for row, (start, end) in enumerate(pairwise(p.entries.starts)):
        words = p.entries.words[start:end]
        np.testing.assert_array_equal(p.rows[row, words & 7], words >> 3)
        assert np.count_nonzero(p.rows[row]) == end - start


def test_argmax_of_sums() -> None:
    graph = one_node("argmax", ArgMax(1), [tensor("x", (1, 5), 0.1, 0, "s32")])
    rows = np.random.default_rng(0).integers(-3, 3, (30, 1, 5)).astype(np.int32) * 2**29
    assert check_kernels(graph, [{"x": row} for row in rows]) == ["tc_argmax_s32"]
