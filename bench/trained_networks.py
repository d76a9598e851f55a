# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="misc"
"""Small networks of eight kinds, trained within minutes on made-up data: what `bench/trained_accuracy.py` measures.

    python bench/trained_networks.py FOLDER [NAME...]

Takes PyTorch (any 2.x, CPU), which tinyc's own environment need not have. Writes FOLDER/NAME.onnx, and NAME.fit.npz and
NAME.test.npz with inputs `x` and labels `y`; nothing of the second was trained on. Pictures have discs, squares and
triangles, filled or not, on noise; sequences are tones with noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FIT, TEST, TRAIN = 96, 400, 3000
SIDE, CELLS, SHAPES = 48, 6, 3
FRAMES, BANDS = 24, 16


def pictures(rng: np.random.Generator, count: int, side: int, objects: int) -> tuple[Any, Any, Any]:
    """(pictures [N,3,side,side], boxes [N,objects,5] of class, centre and size in pixels, masks [N,side,side])."""
    at = np.arange(side)
    x = rng.normal(0, 0.25, (count, 3, side, side)) + rng.uniform(-0.5, 0.5, (count, 3, 1, 1))
    x += rng.uniform(-0.5, 0.5, (count, 3, 1, 1)) * (at / side)
    boxes, masks = np.full((count, objects, 5), -1.0), np.zeros((count, side, side), np.int64)
    for k in range(count):
        for j in range(objects if objects == 1 else rng.integers(1, objects + 1)):
            size, kind = rng.uniform(0.25, 0.5) * side, int(rng.integers(2 * SHAPES if objects == 1 else SHAPES))
            cx, cy = rng.uniform(size / 2, side - size / 2, 2)
            u, v = (at[None] - cx) / (size / 2), (at[:, None] - cy) / (size / 2)
            far = (np.hypot(u, v), np.maximum(abs(u), abs(v)), np.maximum(2 * abs(u) - v, v))[kind % SHAPES]
            inside = (far <= 1) & ((far > 0.6) if kind >= SHAPES else True)
            x[k][:, inside] += (rng.uniform(0.6, 1.2, 3) * rng.choice([-1, 1], 3))[:, None]
            boxes[k, j], masks[k][far <= 1] = (kind, cx, cy, size, size), 1
    return x.astype(np.float32), boxes, masks


def sounds(rng: np.random.Generator, count: int) -> tuple[Any, Any, Any]:
    """(features [N,FRAMES,BANDS], number of the tone's pattern, (its pitch in bands, its loudness))."""
    x = rng.normal(0, 0.6, (count, FRAMES, BANDS))
    kind, pitch, loud = rng.integers(0, 6, count), rng.uniform(3, BANDS - 4, count), rng.uniform(0.1, 1, count)
    time, band = np.arange(FRAMES)[:, None], np.arange(BANDS)[None]
    for k in range(count):
        bend = (0.0, 0.12, -0.12, 0.0, 0.0, 0.06)[kind[k]]
        gate = (1.0, 1.0, 1.0, (time // 3) % 2, (time // 6) % 2, (time // 3) % 2)[kind[k]]
        centre = pitch[k] + bend * (time - FRAMES / 2)
        x[k] += 2.5 * (0.3 + loud[k]) * gate * np.exp(-np.square(band - centre) / 2)
    return x.astype(np.float32), kind, np.stack([50 * (pitch - 3) / (BANDS - 7), loud], 1).astype(np.float32)


class Block(nn.Module):
    """An inverted residual: MobileNetV3's with hard swish and squeeze, EfficientNet-lite's with relu6 and without."""

    def __init__(self, c: int, out: int, stride: int, v3: bool) -> None:
        super().__init__()
        act: Callable[[], nn.Module] = nn.Hardswish if v3 else nn.ReLU6
        wide = 4 * c
        self.same = stride == 1 and c == out
        self.first = nn.Sequential(nn.Conv2d(c, wide, 1, bias=False), nn.BatchNorm2d(wide), act())
        self.deep = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), act()
        )
        squeeze = (nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, c, 1), nn.ReLU(), nn.Conv2d(c, wide, 1), nn.Hardsigmoid())
        self.squeeze = nn.Sequential(*squeeze) if v3 else None
        self.last = nn.Sequential(nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Any) -> Any:
        y = self.deep(self.first(x))
        y = self.last(y if self.squeeze is None else y * self.squeeze(y))
        return x + y if self.same else y


def classifier(v3: bool) -> nn.Module:
    act = nn.Hardswish() if v3 else nn.ReLU6()
    blocks = [Block(8, 12, 2, v3), Block(12, 12, 1, v3), Block(12, 24, 2, v3), Block(24, 24, 1, v3)]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 2 * SHAPES))
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), act, *blocks, *head)


def conv(c: int, out: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(c, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())


class Yolo(nn.Module):
    """[1, cells, 4 + classes]: boxes in pixels, scores in 0..1."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 12, 2), conv(12, 24, 2), conv(24, 32, 2), conv(32, 32), conv(32, 32))
        self.boxes, self.scores = nn.Conv2d(32, 4, 1), nn.Conv2d(32, SHAPES, 1)
        at = torch.arange(CELLS) * (SIDE / CELLS)
        grid = torch.stack([at[None].expand(CELLS, -1), at[:, None].expand(-1, CELLS)])
        self.register_buffer("grid", torch.cat([grid, torch.zeros(2, CELLS, CELLS)])[None])
        self.register_buffer("span", torch.tensor([SIDE / CELLS, SIDE / CELLS, SIDE, SIDE])[None, :, None, None])

    def parts(self, x: Any) -> tuple[Any, Any]:
        y = self.body(x)
        return torch.sigmoid(self.boxes(y)) * self.span + self.grid, self.scores(y)

    def forward(self, x: Any) -> Any:
        boxes, scores = self.parts(x)
        return torch.cat([boxes, torch.sigmoid(scores)], 1).flatten(2).transpose(1, 2)


class UNet(nn.Module):
    """From out channels: a sigmoid's mask, or a picture without noise."""

    def __init__(self, out: int, mask: bool) -> None:
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8), conv(8, 16, 2), conv(16, 24, 2)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(24, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join = nn.ModuleList([conv(32, 16), conv(16, 8)])
        self.last, self.mask = nn.Conv2d(8, out, 1), mask

    def forward(self, x: Any) -> Any:
        a = self.down[0](x)
        b = self.down[1](a)
        c = self.join[0](torch.cat([self.up[0](self.down[2](b)), b], 1))
        y = self.last(self.join[1](torch.cat([self.up[1](c), a], 1)))
        return torch.sigmoid(y) if self.mask else y


class Recurrent(nn.Module):
    """A GRU or LSTM, and a dense layer on its last step."""

    def __init__(self, kind: type[nn.RNNBase], out: int, sigmoid: bool) -> None:
        super().__init__()
        self.cell, self.last, self.sigmoid = kind(BANDS, 32, batch_first=True), nn.Linear(32, out), sigmoid

    def forward(self, x: Any) -> Any:
        y = self.last(self.cell(x)[0][:, -1])
        return torch.sigmoid(y) if self.sigmoid else y


class Conformer(nn.Module):
    """One block: half a feed forward, attention, a gated convolution, half a feed forward; width 32, 4 heads."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(BANDS, width), nn.Linear(width, 6)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.feed = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(2)
        )
        self.qkv, self.context = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gated, self.deep = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.point = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        x = self.into(x)
        x = x + 0.5 * self.feed[0](self.norms[0](x))
        n, t, c = x.shape
        q, k, v = self.qkv(self.norms[1](x)).view(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (c // 4) ** -0.5, -1)
        x = x + self.context((weights @ v).transpose(1, 2).reshape(n, t, c))
        a, b = self.gated(self.norms[2](x)).chunk(2, -1)
        y = self.deep((a * torch.sigmoid(b)).transpose(1, 2)).transpose(1, 2)
        x = x + self.point(functional.silu(y))
        x = x + 0.5 * self.feed[1](self.norms[3](x))
        return self.out(self.norms[4](x).mean(1))


def yolo_loss(net: nn.Module, x: Any, y: Any) -> Any:
    assert isinstance(net, Yolo)
    boxes, scores = net.parts(x)
    targets, seen = torch.zeros_like(scores), y[:, :, 0] >= 0
    sample, number = torch.nonzero(seen, as_tuple=True)
    one = y[sample, number]
    column, row = ((one[:, k] * CELLS / SIDE).long().clamp(0, CELLS - 1) for k in (1, 2))
    targets[sample, one[:, 0].long(), row, column] = 1
    far = functional.smooth_l1_loss(boxes[sample, :, row, column], one[:, 1:].float())
    return functional.binary_cross_entropy_with_logits(scores, targets) * 20 + 0.3 * far


@dataclass(frozen=True, slots=True)
class Kind:
    """How a network is made and trained. data(rng, count): inputs and labels."""

    build: Callable[[], nn.Module]
    data: Callable[[np.random.Generator, int], tuple[Any, Any]]
    loss: Callable[[nn.Module, Any, Any], Any]
    epochs: int = 12


def of(loss: Callable[[Any, Any], Any]) -> Callable[[nn.Module, Any, Any], Any]:
    return lambda net, x, y: loss(net(x), y)


def _classes(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, boxes, _ = pictures(rng, count, 32, 1)
    return x, boxes[:, 0, 0].astype(np.int64)


def _boxes(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, boxes, _ = pictures(rng, count, SIDE, 3)
    return x, boxes.astype(np.float32)


def _masks(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, _, masks = pictures(rng, count, SIDE, 3)
    return x, masks[:, None].astype(np.float32)


def _noisy(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, _, _ = pictures(rng, count, 32, 3)
    smooth = functional.avg_pool2d(torch.tensor(x), 5, 1, 2, count_include_pad=False).numpy()
    return (smooth + rng.normal(0, 0.3, x.shape)).astype(np.float32), smooth


def _targets(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, _, targets = sounds(rng, count)
    return x, targets


def _patterns(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, kind, _ = sounds(rng, count)
    return x, kind.astype(np.int64)


def _voice(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    x, _, _ = sounds(rng, count)
    silent = rng.random(count) < 0.5
    x[silent] = rng.normal(0, 0.75, (int(silent.sum()), FRAMES, BANDS))
    x[~silent] = 0.2 * x[~silent] + rng.normal(0, 0.6, (int((~silent).sum()), FRAMES, BANDS))
    return x, (~silent).astype(np.int64)


def _regression(out: Any, y: Any) -> Any:
    return functional.mse_loss(out / torch.tensor([50.0, 1.0]), y / torch.tensor([50.0, 1.0]))


KINDS = {
    "mobilenet_v3": Kind(lambda: classifier(True), _classes, of(functional.cross_entropy), 14),
    "efficientnet_lite": Kind(lambda: classifier(False), _classes, of(functional.cross_entropy), 14),
    "yolo": Kind(Yolo, _boxes, yolo_loss, 16),
    "unet": Kind(lambda: UNet(1, True), _masks, of(functional.binary_cross_entropy), 5),
    "denoiser": Kind(lambda: UNet(3, False), _noisy, of(functional.mse_loss), 8),
    "vad_gru": Kind(
        lambda: Recurrent(nn.GRU, 1, True),
        _voice,
        of(lambda out, y: functional.binary_cross_entropy(out[:, 0], y.float())),
        25,
    ),
    "lstm_regression": Kind(lambda: Recurrent(nn.LSTM, 2, False), _targets, of(_regression), 40),
    "conformer": Kind(Conformer, _patterns, of(functional.cross_entropy), 25),
}


def fitted(name: str) -> nn.Module:
    """The network, trained."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kind = KINDS[name]
    net, (x, y) = kind.build(), (torch.tensor(part) for part in kind.data(_rng(name), TRAIN))
    optimizer = torch.optim.AdamW(net.parameters(), 4e-3, weight_decay=1e-3)
    batches = TRAIN // 50
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, kind.epochs * batches)
    for _ in range(kind.epochs):
        for at in torch.randperm(TRAIN).view(batches, -1):
            optimizer.zero_grad()
            loss = kind.loss(net, x[at], y[at])
            loss.backward()
            optimizer.step()
            schedule.step()
    print(f"{name}: {sum(p.numel() for p in net.parameters()):,} parameters, loss {loss.item():.4f}", file=sys.stderr)
    return net.eval()


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, name)))


def train(name: str, folder: Path) -> None:
    net, rng = fitted(name), _rng(name)
    x, *sets = (KINDS[name].data(rng, count) for count in (TRAIN, FIT, TEST))
    folder.mkdir(parents=True, exist_ok=True)
    sample, path = torch.tensor(x[0][:1]), str(folder / f"{name}.onnx")
    torch.onnx.export(net, (sample,), path, input_names=["x"], opset_version=17, dynamo=False)
    for part, (inputs, labels) in zip(("fit", "test"), sets, strict=True):
        np.savez(folder / f"{name}.{part}.npz", x=inputs[:, None], y=labels)


if __name__ == "__main__":
    for name in sys.argv[2:] or list(KINDS):
        train(name, Path(sys.argv[1]))
