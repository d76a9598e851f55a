# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="misc"
"""What training in integers wins back in int4: networks for keywords, pictures and boxes, on samples that no step saw.

    python bench/trained_int4.py DATA [NAME...]

Takes PyTorch (CPU, one thread), pillow for `pictures`, and zig. DATA has, of what the names ask for:

* speech/recordings/DIGIT_SPEAKER_NUMBER.wav: the Free Spoken Digit Dataset (`digits`: a keyword network of MLPerf
  Tiny's shape, trained here in float first; recordings 0 to 24 of each digit and speaker are the test);
* kws_rebuilt_fp32.onnx and kws_inputs_dev.npz: a public keyword network and recordings (`keywords`: in thirds, each of
  which is the test once);
* cifar/train/CLASS/*.jpg and cifar/test/CLASS/*.jpg: CIFAR-10, and ic_fp32.onnx, a public ResNet (`pictures`);
* nothing for `boxes`, the YOLO head and the made-up pictures of `bench/trained_networks.py`.

Float networks teach: the int4 network learns to give what they give on the training inputs, without labels. Prints a
Markdown table. A figure after +- is 1.96 standard errors of the difference from float, each test sample paired with
itself (for mAP: of 100 resamplings). The exported file is compiled for this computer and compared with the module.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import tempfile
import time
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional
from trained_networks import KINDS, fitted

import tinyc
import tinyc.torch
from tinyc.quantize.metrics import mean_average_precision

EXAMPLES, BATCH, COMPARED = 256, 64, 200
Pair = tuple[Any, Any]  # inputs and labels


@dataclass(frozen=True, slots=True)
class Part:
    """A float network with the inputs that it teaches by, a function that varies them, and the test."""

    net: nn.Module
    fit: Any
    vary: Callable[[Any], Any]
    test: Pair


@dataclass(frozen=True, slots=True)
class Row:
    """A task. loss(output, teacher's output); right: of outputs and labels, a number for each sample, or None where
    the figure is mAP. passes over the training inputs; rate: of `at_rate`."""

    title: str
    parts: Callable[[Path], list[Part]]
    loss: Callable[[Any, Any], Any]
    is_map: bool = False
    passes: int = 20
    rate: float = 2e-3


class KeywordNet(nn.Module):
    """MLPerf Tiny's: [samples, 49, 10], one convolution of 10x4, four times depthwise and pointwise, mean, dense."""

    def __init__(self, classes: int, norm: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ZeroPad2d((1, 1, 4, 5)), *self._unit(1, (10, 4), 2, 1, 0, norm)]
        for _ in range(4):
            layers += [*self._unit(64, (3, 3), 1, 64, 1, norm), *self._unit(64, (1, 1), 1, 1, 0, norm)]
        self.body, self.last = nn.Sequential(*layers), nn.Linear(64, classes)

    @staticmethod
    def _unit(c: int, kernel: tuple[int, int], stride: int, groups: int, pad: int, norm: bool) -> list[nn.Module]:
        layer = nn.Conv2d(c, 64, kernel, stride, pad, groups=groups)
        return [layer, *([nn.BatchNorm2d(64)] if norm else []), nn.ReLU()]

    def forward(self, x: Any) -> Any:
        return self.last(self.body(x[:, None]).mean((2, 3)))


class PictureNet(nn.Module):
    """MLPerf Tiny's ResNet: [samples, 3, 32, 32] of 0..1; the public file takes 0..255. Layers are in its order."""

    def __init__(self) -> None:
        super().__init__()

        def conv(c: int, out: int, kernel: int, stride: int = 1) -> nn.Module:
            return nn.Conv2d(c, out, kernel, stride, kernel // 2 if stride == 1 else 0)

        self.first = nn.ModuleList([conv(3, 16, 3), conv(16, 16, 3), conv(16, 16, 3)])
        self.next = nn.ModuleList(
            nn.ModuleList([conv(c, 2 * c, 1, 2), conv(c, 2 * c, 3, 2), conv(2 * c, 2 * c, 3)]) for c in (16, 32)
        )
        self.last = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        x = functional.relu(self.first[0](255 * x))
        x = functional.relu(x + self.first[2](functional.relu(self.first[1](x))))
        for short, down, more in self.next:
            y = functional.relu(down(functional.pad(x, (0, 1, 0, 1))))
            x = functional.relu(short(x) + more(y))
        return self.last(x.mean((2, 3)))


def with_weights(net: nn.Module, path: Path) -> nn.Module:
    """The network with the weights of an ONNX file whose layers come in the same order."""
    graph = onnx.load(path).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = []
    for node in graph.node:
        if node.op_type == "Conv":
            weights += [arrays[name] for name in node.input[1:]]
        elif node.op_type == "MatMul":
            weights.append(arrays[node.input[1]].T)
        elif node.op_type == "Add":
            weights += [arrays[name] for name in node.input if name in arrays]
    for parameter, array in zip(net.parameters(), weights, strict=True):
        parameter.data = torch.from_numpy(array.reshape(parameter.shape).copy())
    return net.eval()


def in_float(net: nn.Module, fit: Pair, vary: Callable[[Any], Any], passes: int, rate: float) -> None:
    """Training to tell classes, by labels."""
    optimizer = torch.optim.AdamW(net.parameters(), rate / 4, weight_decay=1e-2)
    batches = len(fit[0]) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, passes * batches)
    for _ in range(passes):
        for at in torch.randperm(len(fit[0]))[: BATCH * batches].view(batches, -1):
            optimizer.zero_grad()
            functional.cross_entropy(net(vary(fit[0][at])), fit[1][at]).backward()
            optimizer.step()
            schedule.step()
    net.eval()


def cepstra(path: Path, rng: np.random.Generator) -> Any:
    """[49, 10]: of a second of sound in as much noise, cosines of the logarithms of 40 bands, as keyword networks take
    them."""
    with wave.open(str(path)) as file:
        rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), np.int16)
    sound = samples[:rate] / 32768
    before = (rate - len(sound)) // 2
    sound = np.pad(sound, (before, rate - len(sound) - before))
    sound = sound + sound.std() * rng.normal(size=rate)
    size, hop = rate * 4 // 100, rate // 50
    frames = np.stack([sound[k * hop : k * hop + size] for k in range(49)]) * np.hanning(size)
    power = np.abs(np.fft.rfft(frames, 512)) ** 2
    edges = np.expm1(np.linspace(np.log1p(60 / 700), np.log1p(3800 / 700), 42)) * 700 * 512 / rate
    at = np.arange(power.shape[1])[:, None]
    bands = np.minimum((at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1]))
    logs = np.log(power @ np.maximum(bands, 0) + 1e-6)
    cosines = np.cos(np.pi / 40 * np.outer(np.arange(40) + 0.5, np.arange(10)))
    return (logs @ cosines / 20).astype(np.float32)


def varied_sound(x: Any) -> Any:
    """Up to 4 frames earlier or later, louder or softer, with a little noise."""
    x = torch.stack([torch.roll(one, int(k), 0) for one, k in zip(x, torch.randint(-4, 5, (len(x),)), strict=True)])
    x = x + 0.05 * x.std() * torch.randn_like(x)
    x[:, :, 0] += 0.1 * x[:, :, 0].std() * torch.randn(len(x), 1)
    return x


def varied_picture(x: Any) -> Any:
    """Mirrored or not, moved by up to 4 pixels."""
    x = functional.pad(x / 255, (4, 4, 4, 4))
    at = torch.randint(0, 9, (len(x), 2))
    x = torch.stack([one[:, i : i + 32, j : j + 32] for one, (i, j) in zip(x, at.tolist(), strict=True)])
    return torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x, x.flip(3))


def digits(data: Path) -> list[Part]:
    """Half of the recordings trains, the other half is the test; all speakers are in both."""
    rng = np.random.default_rng(0)
    sets: dict[bool, list[Any]] = {True: [], False: []}
    for path in sorted((data / "speech/recordings").glob("*.wav")):
        digit, _, number = path.stem.split("_")
        sets[int(number) < 25].append((cepstra(path, rng), int(digit)))
    (test, fit) = (
        tuple(torch.tensor(np.array(each)) for each in zip(*sets[key], strict=True)) for key in (True, False)
    )
    net = KeywordNet(10, norm=True)
    in_float(net, fit, varied_sound, passes=40, rate=4e-3)
    return [Part(net, fit[0], varied_sound, test)]


def keywords(data: Path) -> list[Part]:
    net = with_weights(KeywordNet(12, norm=False), data / "kws_rebuilt_fp32.onnx")
    file = np.load(data / "kws_inputs_dev.npz")
    x, y = torch.from_numpy(file["x_f32"][..., 0]), torch.from_numpy(file["y"].astype(np.int64))
    third = torch.randperm(len(x)) % 3
    return [Part(net, x[third != k], varied_sound, (x[third == k], y[third == k])) for k in range(3)]


def pictures(data: Path) -> list[Part]:
    from PIL import Image  # noqa: PLC0415  only here

    sets = []
    for part in ("train", "test"):
        classes = sorted(path.name for path in (data / "cifar" / part).iterdir())
        paths = [
            (path, k) for k, name in enumerate(classes) for path in sorted((data / "cifar" / part / name).iterdir())
        ]
        x = np.stack([np.asarray(Image.open(path), np.uint8) for path, _ in paths]).transpose(0, 3, 1, 2)
        sets.append((torch.from_numpy(x.copy()), torch.tensor([k for _, k in paths])))
    fit, test = sets
    net = with_weights(PictureNet(), data / "ic_fp32.onnx")
    in_float(net, fit, varied_picture, passes=3, rate=1e-3)
    return [Part(net, fit[0], varied_picture, (test[0] / 255, test[1]))]


def boxes(data: Path) -> list[Part]:
    rng = np.random.default_rng(7)
    net = fitted("yolo")
    (x, _), test = (tuple(map(torch.tensor, KINDS["yolo"].data(rng, count))) for count in (6000, 2000))
    return [Part(net, x, lambda x: x, test)]


def of_classes(out: Any, teacher: Any) -> Any:
    """How far the teacher's probabilities are from the pupil's."""
    return functional.kl_div(out.log_softmax(1), teacher.log_softmax(1), reduction="batchmean", log_target=True)


def of_boxes(out: Any, teacher: Any) -> Any:
    """Scores, and boxes in pixels where the teacher sees something."""
    far = functional.smooth_l1_loss(out[..., :4], teacher[..., :4], reduction="none").mean(-1)
    return 100 * functional.mse_loss(out[..., 4:], teacher[..., 4:]) + (far * teacher[..., 4:].amax(-1)).mean()


ROWS = {
    "digits": Row("spoken digits in noise, DS-CNN, top-1", digits, of_classes, passes=30),
    "keywords": Row("keywords, public DS-CNN, top-1", keywords, of_classes, passes=60),
    "pictures": Row("CIFAR-10, public ResNet, top-1", pictures, of_classes, passes=3),
    "boxes": Row("boxes, YOLO head, mAP at .5", boxes, of_boxes, is_map=True, passes=12),
}


def outputs(module: nn.Module, x: Any) -> Any:
    with torch.no_grad():
        return torch.cat([module(part) for part in x.split(250)])


def learn(row: Row, part: Part, module: Any) -> None:
    """`passes` over the training inputs, with rates that fall to nothing as a cosine does."""
    optimizer = torch.optim.Adam(module.at_rate(row.rate))
    steps = row.passes * (len(part.fit) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = torch.cat([torch.randperm(len(part.fit))[: len(part.fit) // BATCH * BATCH] for _ in range(row.passes)])
    for number, at in enumerate(order.view(steps, BATCH)):
        x = part.vary(part.fit[at])
        with torch.no_grad():
            of_teacher = part.net(x)
        optimizer.zero_grad()
        loss = row.loss(module(x), of_teacher)
        loss.backward()
        optimizer.step()
        schedule.step()
        if number % 100 == 0:
            print(f"step {number} of {steps}: {loss.item():.4f}", file=sys.stderr, flush=True)


def different_bytes(module: Any, x: Any) -> str:
    """Of the library that is compiled for this computer from the exported file: `0 of 2,000`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        module.export(Path(folder) / "net.onnx")
        tinyc.build(Path(folder) / "net.onnx", "host", out=Path(folder) / "host")
        images = x.numpy().transpose(0, 2, 3, 1) if x.ndim == 4 else x.numpy()
        y = tinyc.load(Path(folder) / "host")(images, real=False)
    (ours,) = module.integers(x)
    return f"{int((y.reshape(ours.shape) != ours).sum()):,} of {ours.size:,}"


def figures(row: Row, answers: Any, labels: Any) -> Any:
    """For each test sample 1 or 0; for mAP, itself, and of 100 resamplings of the samples."""
    if not row.is_map:
        return (answers.argmax(1) == labels).double().numpy()
    rng, answers, labels = np.random.default_rng(0), answers.numpy(), labels.numpy()
    ways = [np.arange(len(answers)), *(rng.integers(0, len(answers), len(answers)) for _ in range(100))]
    return np.array([mean_average_precision(answers[way], labels[way], {}) for way in ways])


def said(row: Row, values: Any, floats: Any) -> str:
    """`91.3 (-0.2 +- 0.3)`, in percent."""
    apart = 100 * (values - floats)
    if row.is_map:
        return f"{100 * values[0]:.1f} ({apart[0]:+.1f} ± {1.96 * apart[1:].std():.1f})"
    return f"{100 * values.mean():.1f} ({apart.mean():+.1f} ± {1.96 * apart.std() / len(apart) ** 0.5:.1f})"


def line(name: str, data: Path) -> str:
    torch.manual_seed(0)
    row = ROWS[name]
    results: dict[str, list[Any]] = {"float": [], "int8": [], "int4": [], "trained": []}
    seconds, bytes_apart, trained_on, tested = 0.0, [], [], 0
    for part in row.parts(data):
        x, y = part.test
        examples = part.vary(part.fit[torch.randperm(len(part.fit))[:EXAMPLES]])
        results["float"].append(figures(row, outputs(part.net, x), y))
        for weights in ("int8", "int4"):
            module = tinyc.torch.prepare(copy.deepcopy(part.net), examples, weights=weights)
            results[weights].append(figures(row, outputs(module, x), y))
        began = time.process_time()
        learn(row, part, module)
        seconds += time.process_time() - began
        results["trained"].append(figures(row, outputs(module, x), y))
        bytes_apart.append(different_bytes(module, x[:COMPARED]))
        trained_on.append(f"{len(part.fit):,}")
        tested += len(x)
    joined = {key: np.concatenate(each) for key, each in results.items()}
    first = joined["float"][0] if row.is_map else joined["float"].mean()
    cells = [said(row, joined[key], joined["float"]) for key in ("int8", "int4", "trained")]
    inputs = f"{' / '.join(trained_on)}, {row.passes} times"
    return " | ".join(
        [
            "",
            row.title,
            f"{tested:,}",
            f"{100 * first:.1f}",
            *cells,
            inputs,
            f"{seconds / 60:.1f}",
            " / ".join(bytes_apart),
            "",
        ]
    ).strip()


def main(data: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    titles = [
        "",
        "test samples",
        "float",
        "int8",
        "int4",
        "int4, trained",
        "training inputs",
        "CPU minutes",
        "bytes that differ",
    ]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
    for name in names or list(ROWS):
        print(line(name, data), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
