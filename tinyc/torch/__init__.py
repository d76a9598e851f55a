# SPDX-License-Identifier: Apache-2.0
"""For the person who trains with PyTorch: a module whose forward pass is tinyc's integers, and learns through them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tinyc.base.extras import load_extra

if TYPE_CHECKING:
    from tinyc.torch.prepared import PreparedModule

__all__ = ["prepare"]


def prepare(
    model: Any, example_inputs: Any, *, weights: str | Mapping[str, str] = "int8", numerics: str = "onnx"
) -> PreparedModule:
    """A torch.nn.Module that computes what the compiled model will, to the bit, and can be trained.

    model: a torch.nn.Module, trained in float; it stays as it is. example_inputs: a float tensor [samples, ...] like
    those that the module takes, or a tuple of them, one for each input: some dozens, by which ranges are chosen.
    weights: "int8" or "int4" of all layers, or by patterns of layers' names, of which the last that fits a layer
    counts: {"*": "int4", "conv1": "int8"}. numerics: "onnx", which `tinyc build` takes for the exported file by itself,
    or "single", for `tinyc build --numerics single`, which is cheaper on cores without a floating-point unit.

    TinycError where PyTorch or another package is missing, PyTorch cannot export the module, a layer cannot be trained
    in integers (it is named), or the examples do not fit.
    """
    load_extra("torch", "torch", "training in integers")
    from tinyc.torch.prepared import prepared  # noqa: PLC0415  an optional extra

    return prepared(model, example_inputs, weights, numerics)
