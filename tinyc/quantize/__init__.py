"""From a float graph and calibration inputs to an integer graph."""

from __future__ import annotations

from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.ops import all_ops
from tinyc.quantize.assign import assign_activations, separate_fixed
from tinyc.quantize.calibration import Calibration, calibrate
from tinyc.quantize.convert import to_integers
from tinyc.quantize.observe import observe
from tinyc.quantize.ranges import METHODS

__all__ = ["METHODS", "Calibration", "calibrate", "quantize_model"]


def quantize_model(graph: Graph, calibration: Calibration, method: str = "minmax") -> Graph:
    """The normalized float graph in int8: activations per tensor, weights per output channel, bias int32.

    Inputs and outputs are int8 as well. `method`, a key of METHODS, says how ranges are chosen. Numerics of
    the result: `Numerics.OURS`. TinycError if the calibration does not fit the graph's inputs, or an
    operator has no integer form.
    """
    stats = observe(graph, calibration)
    graph = separate_fixed(graph)
    integer = to_integers(graph, assign_activations(graph, stats, METHODS[method]))
    check(integer, "quantize", all_ops())
    return integer
