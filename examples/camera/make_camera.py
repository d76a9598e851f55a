#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the camera example: colors.onnx, colors.calib.npz and pictures/.

Scenes are drawn: a thing that is red, green, blue or grey before a wall, in uneven light, with noise. The network sees
them through tinyc's camera in camera.toml, whose integers the device computes too, and is trained with NumPy alone.
README.md beside this file says what came out.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import tinyc
from tinyc.frontend.encoding import as_frames

Reals = npt.NDArray[np.float32]
Colors = npt.NDArray[np.uint8]
Weights = dict[str, Reals]

FOLDER = Path(__file__).resolve().parent
CAMERA = tinyc.picture(str(FOLDER / "camera.toml"))
CLASSES = ("grey", "red", "green", "blue")
CHANNELS = (3, 8, 16, 24)
TRAINED, CALIBRATED, TESTED = 1200, 32, 500  # scenes
BATCH, EPOCHS, RATE = 40, 6, 4e-3


# ---- scenes


def scene(kind: int, rng: np.random.Generator) -> Colors:
    """uint8 [height, width, 3] of the camera's size."""
    height, width = CAMERA.height, CAMERA.width
    y, x = np.mgrid[:height, :width].astype(np.float64)
    wall = rng.uniform(50, 200) + rng.uniform(-20, 20, 3)
    thing = rng.uniform(20, 230) + rng.uniform(-12, 12, 3)
    if kind:
        thing = rng.uniform(20, 90, 3)
        thing[kind - 1] = rng.uniform(140, 230)
    size = rng.uniform(18, 38)
    at_x, at_y = width / 2 + rng.uniform(-18, 18), height / 2 + rng.uniform(-18, 18)
    turn = rng.uniform(0, 2 * np.pi)
    u = (x - at_x) * np.cos(turn) + (y - at_y) * np.sin(turn)
    v = (y - at_y) * np.cos(turn) - (x - at_x) * np.sin(turn)
    form = rng.integers(0, 3)
    if form == 0:
        inside = u * u + v * v < size * size
    elif form == 1:
        inside = np.maximum(np.abs(u), np.abs(v)) < size * 0.85
    else:
        inside = np.maximum(-v, np.abs(u) * 0.866 + v * 0.5) < size * 0.62
    light = 1 + rng.uniform(-0.25, 0.25) * (x / width - 0.5) + rng.uniform(-0.25, 0.25) * (y / height - 0.5)
    colors = np.where(inside[..., None], thing, wall) * light[..., None] + rng.normal(0, 3, (height, width, 3))
    return np.clip(np.round(colors), 0, 255).astype(np.uint8)


def scenes(count: int, rng: np.random.Generator) -> tuple[Reals, npt.NDArray[np.int64]]:
    """What the network sees of them, float32 [count, 32, 32, 3], and what they show."""
    kinds = rng.integers(0, len(CLASSES), count)
    seen = [CAMERA.features(as_frames(CAMERA, scene(int(kind), rng)[None]))[0] for kind in kinds]
    return np.stack(seen), kinds


# ---- the network: three convolutions 3x3 of stride 2, the mean of all pixels, one layer of sums


def patches(x: Reals) -> Reals:
    """[n, h, w, c] -> [n, h/2, w/2, 9 c]: the windows of a convolution with one row and column of zeros around it."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
    return np.ascontiguousarray(view.transpose(0, 1, 2, 4, 5, 3)).reshape(*view.shape[:3], -1)


@dataclass
class Pass:
    """What a pass forwards leaves for the one backwards."""

    windows: list[Reals]
    outputs: list[Reals]
    means: Reals
    chances: Reals


def forwards(w: Weights, x: Reals) -> Pass:
    windows, outputs = [], []
    for layer in range(3):
        windows.append(patches(x))
        x = np.maximum(windows[-1] @ w[f"w{layer}"] + w[f"b{layer}"], 0)
        outputs.append(x)
    means = x.mean((1, 2))
    sums = means @ w["w3"] + w["b3"]
    powers = np.exp(sums - sums.max(1, keepdims=True))
    return Pass(windows, outputs, means, powers / powers.sum(1, keepdims=True))


def gradients(w: Weights, x: Reals, kinds: npt.NDArray[np.int64]) -> Weights:
    """Of the cross entropy."""
    p = forwards(w, x)
    delta = p.chances.copy()
    delta[np.arange(len(kinds)), kinds] -= 1
    delta /= len(kinds)
    found = {"w3": p.means.T @ delta, "b3": delta.sum(0)}
    pixels = p.outputs[2].shape[1] * p.outputs[2].shape[2]
    back = np.broadcast_to((delta @ w["w3"].T / pixels)[:, None, None], p.outputs[2].shape)
    for layer in (2, 1, 0):
        back = back * (p.outputs[layer] > 0)
        rows = p.windows[layer].reshape(-1, p.windows[layer].shape[-1])
        found[f"w{layer}"], found[f"b{layer}"] = rows.T @ back.reshape(len(rows), -1), back.sum((0, 1, 2))
        if layer:
            back = spread(back @ w[f"w{layer}"].T, p.outputs[layer - 1].shape)
    return found


def spread(windows: Reals, shape: tuple[int, ...]) -> Reals:
    """The sum of what each window says of a pixel: the way back of `patches`."""
    n, height, width, c = shape
    made = np.zeros((n, height + 2, width + 2, c), np.float32)
    parts = windows.reshape(*windows.shape[:3], 3, 3, c)
    for row in range(3):
        for column in range(3):
            made[:, row : row + height : 2, column : column + width : 2] += parts[:, :, :, row, column]
    return made[:, 1:-1, 1:-1]


def train(x: Reals, kinds: npt.NDArray[np.int64], rng: np.random.Generator) -> Weights:
    """By Adam, with a rate that falls to nothing."""
    w: Weights = {}
    for layer, (c, o) in enumerate(pairwise(CHANNELS)):
        w[f"w{layer}"] = rng.normal(0, np.sqrt(2 / (9 * c)), (9 * c, o)).astype(np.float32)
        w[f"b{layer}"] = np.zeros(o, np.float32)
    w["w3"] = rng.normal(0, 0.2, (CHANNELS[-1], len(CLASSES))).astype(np.float32)
    w["b3"] = np.zeros(len(CLASSES), np.float32)
    first, second = ({name: np.zeros_like(array) for name, array in w.items()} for _ in range(2))
    steps = EPOCHS * len(x) // BATCH
    for step in range(steps):
        picked = rng.integers(0, len(x), BATCH)
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name, slope in gradients(w, x[picked], kinds[picked]).items():
            first[name] += 0.1 * (slope - first[name])
            second[name] += 0.001 * (slope * slope - second[name])
            known = (first[name] / (1 - 0.9 ** (step + 1)), second[name] / (1 - 0.999 ** (step + 1)))
            w[name] -= (rate * known[0] / (np.sqrt(known[1]) + 1e-8)).astype(np.float32)
    return w


def as_onnx(w: Weights) -> onnx.ModelProto:
    """`image` [1,3,32,32] -> `probabilities` [1,4]."""
    nodes, held, x = [], [], "image"
    for layer, c in enumerate(CHANNELS[:-1]):
        kernel = w[f"w{layer}"].reshape(3, 3, c, -1).transpose(3, 2, 0, 1)
        held += [numpy_helper.from_array(np.ascontiguousarray(kernel), f"w{layer}")]
        held += [numpy_helper.from_array(w[f"b{layer}"], f"b{layer}")]
        settings = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        nodes.append(
            helper.make_node("Conv", [x, f"w{layer}", f"b{layer}"], [f"sum{layer}"], f"conv{layer}", **settings)
        )
        nodes.append(helper.make_node("Relu", [f"sum{layer}"], [f"relu{layer}"], f"relu{layer}"))
        x = f"relu{layer}"
    held += [numpy_helper.from_array(w["w3"], "w3"), numpy_helper.from_array(w["b3"], "b3")]
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flat"))
    nodes.append(helper.make_node("Gemm", ["flat", "w3", "b3"], ["logits"], "dense"))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax"))
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("image", [1, 3, 32, 32]), ("probabilities", [1, len(CLASSES)]))
    ]
    graph = helper.make_graph(nodes, "colors", [ports[0]], [ports[1]], held)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="make_camera"
    )


def generator_of_tests(seed: int) -> np.random.Generator:
    """Of the scenes to test with, which are drawn apart from all others: scripts/example_numbers.py draws them too."""
    return np.random.default_rng([seed, 1])


def right(w: Weights, x: Reals, kinds: npt.NDArray[np.int64]) -> int:
    return int((forwards(w, x).chances.argmax(1) == kinds).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER)
    words = parser.parse_args()
    rng = np.random.default_rng(words.seed)
    w = train(*scenes(TRAINED, rng), rng)
    onnx.save(as_onnx(w), str(words.out / "colors.onnx"))
    images = scenes(CALIBRATED, rng)[0].transpose(0, 3, 1, 2)
    np.savez_compressed(words.out / "colors.calib.npz", image=images, labels=np.array(CLASSES))
    (words.out / "pictures").mkdir(exist_ok=True)
    for kind, name in enumerate(CLASSES):
        Image.fromarray(scene(kind, rng)).save(words.out / "pictures" / f"{name}.png")
    print(f"float: {right(w, *scenes(TESTED, generator_of_tests(words.seed)))} of {TESTED} new scenes")


if __name__ == "__main__":
    main()
