# SPDX-License-Identifier: Apache-2.0
"""Random PyTorch modules of the layers that `tinyc.torch` prepares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Layer = Callable[[torch.Tensor], torch.Tensor]


class RandomImages(nn.Module):
    """A few layers over images [samples, 3, size, size], and one or two outputs."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.layers = nn.ModuleList()
        self.plan: list[tuple[str, Any]] = []
        channels, size = 3, int(self.rng.integers(7, 13))
        self.size = size
        for _ in range(int(self.rng.integers(3, 7))):
            channels, size = self._add(channels, size)
        self.last = nn.Linear(channels * size * size, 5)
        self.ends_in_two = bool(self.rng.integers(2))

    def _add(self, channels: int, size: int) -> tuple[int, int]:
        kind = str(self.rng.choice(sorted(_LAYERS)))
        layer, channels, size = _LAYERS[kind](self.rng, channels, size)
        if isinstance(layer, nn.Module):
            self.layers.append(layer)
            layer = len(self.layers) - 1
        self.plan.append((kind, layer))
        return channels, size

    def forward(self, x: torch.Tensor) -> Any:
        for kind, layer in self.plan:
            y = self.layers[layer](x) if isinstance(layer, int) else layer(x)
            x = x + y if kind == "residual" else y
        y = self.last(x.flatten(1))
        return (y, torch.sigmoid(x)) if self.ends_in_two else y


Drawn = tuple[Any, int, int]  # a module or a function, and the channels and the size behind it


def _conv(r: np.random.Generator, channels: int, size: int) -> Drawn:
    kernel, stride = int(r.integers(1, 4)), int(r.integers(1, 3))
    pad = int(r.integers(0, kernel))
    out = 2 * int(r.integers(2, 6))
    dilation = 2 if kernel == 2 and size > 4 else 1
    groups = 2 if channels % 2 == 0 and r.integers(4) == 0 else 1
    after = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    if after < 2:
        return _residual(r, channels, size)
    layers = [nn.Conv2d(channels, out, kernel, stride, pad, dilation, groups, bias=bool(r.integers(2)))]
    if r.integers(2):
        layers.append(nn.BatchNorm2d(out))
        layers[-1].running_mean.normal_()
        layers[-1].running_var.uniform_(0.5, 2)
    return nn.Sequential(*layers, _activation(r)), out, after


def _activation(r: np.random.Generator) -> nn.Module:
    kinds = (nn.ReLU, nn.ReLU6, nn.Identity, nn.SiLU, nn.Hardswish, nn.Tanh, nn.Sigmoid, nn.LeakyReLU)
    return kinds[int(r.integers(len(kinds)))]()


def _depthwise(r: np.random.Generator, channels: int, size: int) -> Drawn:
    times = int(r.integers(1, 3))
    layer = nn.Conv2d(channels, channels * times, 3, 1, 1, groups=channels)
    return nn.Sequential(layer, _activation(r)), channels * times, size


def _residual(r: np.random.Generator, channels: int, size: int) -> Drawn:
    return nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1), _activation(r)), channels, size


def _transposed(r: np.random.Generator, channels: int, size: int) -> Drawn:
    kernel = int(r.integers(2, 4))
    extra = int(r.integers(2))
    after = (size - 1) * 2 + kernel - 2 + extra
    if after > 16:
        return _residual(r, channels, size)
    return nn.ConvTranspose2d(channels, 4, kernel, 2, 1, extra), 4, after


def _pool(r: np.random.Generator, channels: int, size: int) -> Drawn:
    if size < 4:
        return _residual(r, channels, size)
    layer = [nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1)][int(r.integers(4))]
    return layer, channels, (size + 1) // 2 if layer.padding else size // 2


def _moves(r: np.random.Generator, channels: int, size: int) -> Drawn:
    def flipped(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(2, 3)

    def cut(x: torch.Tensor) -> torch.Tensor:
        return x[:, :, 1:, : size - 1]

    def padded(x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x, (1, 0, 0, 1))

    def larger(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, scale_factor=2)

    def joined(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x[:, :1] * 0.5], 1)

    kinds = [(flipped, channels, size), (padded, channels, size + 1), (joined, channels + 1, size)]
    kinds += [(cut, channels, size - 1)] if size > 2 else []
    kinds += [(larger, channels, 2 * size)] if size < 8 else []
    return kinds[int(r.integers(len(kinds)))]


def _gated(r: np.random.Generator, channels: int, size: int) -> Drawn:
    def gated(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x.mean((2, 3), keepdim=True)) - x / 4

    return gated, channels, size


_LAYERS: dict[str, Callable[[np.random.Generator, int, int], Drawn]] = {
    "conv": _conv,
    "depthwise": _depthwise,
    "gated": _gated,
    "moves": _moves,
    "pool": _pool,
    "residual": _residual,
    "transposed": _transposed,
}


class Sequences(nn.Module):
    """Over [samples, 6, 8]: a layer of some kind between two dense ones, and three numbers."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.into, self.out = kind, nn.Linear(8, 8), nn.Linear(8, 3)
        layers = {
            "group norm": lambda: nn.GroupNorm(2, 6),
            **dict.fromkeys(("gru", "gru backwards"), lambda: nn.GRU(8, 8, batch_first=True)),
            **dict.fromkeys(("heads", "causal heads"), lambda: nn.MultiheadAttention(8, 2, batch_first=True)),
            "layer norm": lambda: nn.LayerNorm(8),
            "lstm": lambda: nn.LSTM(8, 8, batch_first=True),
        }
        self.layer = layers.get(kind, nn.Identity)()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        match self.kind:
            case "attention":
                y = torch.softmax(x @ x.transpose(1, 2) / 3, -1) @ x
            case "causal attention":
                head = x[:, None]  # PyTorch's exporter takes four axes alone
                y = functional.scaled_dot_product_attention(head, head, head, is_causal=True)[:, 0]
            case "causal heads":
                hidden = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
                y = x + self.layer(x, x, x, need_weights=False, attn_mask=hidden)[0]
            case "gelu":
                y = functional.gelu(x)
            case "heads":
                y = x + self.layer(x, x, x, need_weights=False)[0]
            case "gru" | "lstm":
                y = self.layer(x)[0]
            case "gru backwards":
                y = self.layer(x.flip(1))[0].flip(1)
            case "log softmax":
                y = functional.log_softmax(x, -1)
            case _:
                y = self.layer(x)
        return self.out(y)
