"""Which kernel runs each node: the first of the operator's list that the core and the node allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tinyc.errors import TinycError
from tinyc.ir.graph import Graph, Node
from tinyc.kernels import Kernel
from tinyc.numerics import Numerics
from tinyc.ops import all_ops
from tinyc.ops.base import Site


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel of a node, the integers it works with, and why better kernels were refused."""

    site: Site
    params: Any
    kernel: Kernel
    scratch_bytes: int
    refused: tuple[tuple[str, str], ...] = ()  # (kernel, what it asks for)


def select(
    graph: Graph, isa: frozenset[str], numerics: Numerics, prefer: Mapping[str, str] | None = None
) -> dict[str, Choice]:
    """A Choice for each node that does work (views have none), by node name.

    `prefer` names the kernel of some nodes, for tests and tuning. Raises TinycError at the first node
    that no kernel serves, with what each kernel asks for.
    """
    choices = {}
    for node in graph.nodes:
        if all_ops()[node.op].view:
            continue
        try:
            choices[node.name] = _choose(Site(graph, node, numerics), isa, (prefer or {}).get(node.name))
        except TinycError as error:
            raise error.located(node.where) from error
    return choices


def refusals(kernel: Kernel, site: Site, isa: frozenset[str]) -> list[str]:
    """What the kernel asks for that the core or the node does not give; empty if it can run."""
    missing = [f"a core with {feature}" for feature in sorted(kernel.isa - isa)]
    return missing + [(test.__doc__ or test.__name__).strip() for test in kernel.when if not test(site)]


def _choose(site: Site, isa: frozenset[str], wanted: str | None) -> Choice:
    op = all_ops()[site.node.op]
    refused: list[tuple[str, str]] = []
    for kernel in op.kernels:
        if wanted is not None and kernel.name != wanted:
            continue
        reasons = refusals(kernel, site, isa)
        if not reasons:
            params = op.prepare(site)
            return Choice(site, params, kernel, kernel.scratch(site, params), tuple(refused))
        refused.append((kernel.name, "; ".join(reasons)))
    raise _no_kernel(site.node, op.name, refused)


def _no_kernel(node: Node, op: str, refused: list[tuple[str, str]]) -> TinycError:
    asked = "; ".join(f"{kernel} takes {reason}" for kernel, reason in refused) or "it has no C kernel"
    return TinycError(
        f"no kernel runs this {op}: {asked}", node.where, "docs/operators.md lists what each kernel takes"
    )
