# SPDX-License-Identifier: Apache-2.0
"""Which kernels can run each node, and what each of them costs there.

What is chosen among them depends on all layers together: `plan/front.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.compiled_code import CompiledCode, compiled_name
from tinyc.choose.slow_flash import SlowFlash, copied, slowed
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.counted import counted_at
from tinyc.kernel.kernel import Call, Cost, Kernel, Offer, Once, Refused, RowForm, WrittenCode, call_consts
from tinyc.kernel.site import Site
from tinyc.machine.cores import CORTEX_M4, Core
from tinyc.ops import op_of

# Roles of constants that several layers may have alike.
_TABLES = frozenset({"lut", "exp", "logistic", "reciprocal"})
_STEP_CODE = 44  # bytes of compiled code: a step that calls its function once, and the call of the step
_TAKEN = "`tinyc inspect KERNEL` says what a kernel takes"


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel of a node, the integers it works with, its cost, and why better kernels were refused. flash: whose
    waits are in the cost; free: the offer without them; compiled: what a compiler makes of C, None where that is not
    counted."""

    site: Site
    params: Any
    kernel: Kernel
    offer: Offer
    cost: Cost
    refused: tuple[tuple[str, str], ...] = ()  # (kernel for this core, what it asks for)
    flash: SlowFlash | None = None
    free: Offer | None = None
    compiled: CompiledCode | None = None

    @property
    def called(self) -> Call | None:
        """How the whole layer is called; None where constants would have to be made to say so."""
        return None if self.offer.copies else self.offer.call()

    @property
    def scratch_bytes(self) -> int:
        return self.offer.scratch_bytes


def select(
    graph: Graph,
    isa: frozenset[str],
    numerics: Numerics,
    prefer: Mapping[str, str] | None = None,
    core: Core = CORTEX_M4,
) -> dict[str, Choice]:
    """The fastest Choice for each node that does work (views have none), by node name: of `candidates`."""
    return fastest(candidates(graph, isa, numerics, prefer, core=core))


def fastest(choices: Mapping[str, Sequence[Choice]]) -> dict[str, Choice]:
    """Of each node's candidates the one of fewest cycles, of equal ones that of fewest bytes."""
    return {node: min(own, key=_cycles) for node, own in choices.items()}


def _cycles(choice: Choice) -> tuple[int, int]:
    return choice.cost.cycles, choice.cost.flash_bytes


def candidates(
    graph: Graph,
    isa: frozenset[str],
    numerics: Numerics,
    prefer: Mapping[str, str] | None = None,
    flash: SlowFlash | None = None,
    core: Core = CORTEX_M4,
) -> dict[str, list[Choice]]:
    """Every Choice that there is for each node, by node name. flash: of a board on which costs shall count its waits.
    core: whose rules kernels in assembly follow. What a compiler makes of C is not counted: `as_compiled` does.

    `prefer` names the kernel of some nodes, for tests and tuning. Raises TinycError at the first node
    that no kernel serves, with what each kernel asks for.
    """
    return _sharing_code(offered(graph, isa, numerics, prefer, flash, core))


def offered(
    graph: Graph,
    isa: frozenset[str],
    numerics: Numerics,
    prefer: Mapping[str, str] | None = None,
    flash: SlowFlash | None = None,
    core: Core = CORTEX_M4,
) -> dict[str, list[Choice]]:
    """The candidates with the costs that kernels say, before it is asked what layers share."""
    choices = {}
    for node in graph.nodes:
        if op_of(node).view:
            continue
        try:
            site = Site(graph, node, numerics, core, isa)
            choices[node.name] = _candidates(site, (prefer or {}).get(node.name), flash)
        except TinycError as error:
            raise error.located(node.where).hinted(_in_float32(graph, node)) from error
    return choices


def _in_float32(graph: Graph, node: Node) -> str:
    """What to do about a layer that no integer kernel runs."""
    if op_of(node).float32 is None or graph.values[node.outputs[0]].quant is None:
        return _TAKEN
    return f"--float-layers '{node.layer}' runs this layer in float32, --float-fallback every layer like it; {_TAKEN}"


def _sharing_code(by_node: Mapping[str, list[Choice]]) -> dict[str, list[Choice]]:
    """The choices with a function's bytes in parts for all layers that it may run: which of them will, is not known."""
    costs = {
        node: [compiled_cost(choice, choice.cost, choice.called) for choice in choices]
        for node, choices in by_node.items()
    }
    layers = layers_of(costs.values())
    return {
        node: [replace(choice, cost=cost.shared(layers)) for choice, cost in zip(choices, costs[node], strict=True)]
        for node, choices in by_node.items()
    }


def compiled_cost(choice: Choice, cost: Cost, call: Call | None, form: RowForm | None = None) -> Cost:
    """The cost of one of the choice's forms with what a compiler makes of the step and of C that it calls, and with the
    constants of its call; None: what is called is not known. form: whose call makes a row, or some."""
    kernel, compiled = choice.kernel, choice.compiled
    if compiled is None:
        return cost.with_code(_STEP_CODE)
    name = kernel.name if call is None else compiled_name(kernel, call, form)
    code = compiled.kernel(name, written=kernel.written)
    constants = list(call_consts(call)) if call is not None else []
    shared = [WrittenCode(("compiled", key), size, once) for key, size, once in code.functions]
    pads = sorted((one.data for one in constants if one.role == "pad"), key=lambda data: data.nbytes)
    longest = {int(data.flat[0]): data.nbytes for data in pads}  # the others lie in it
    shared += [WrittenCode(("pad", value), size) for value, size in longest.items()]
    plain = [one for one in constants if one.role != "pad"]
    if not kernel.written and cost.code is None and not any(isinstance(one.array, Once) for one in plain):
        tables = [one for one in plain if one.role in _TABLES]
        shared += [WrittenCode(("table", one.data.tobytes()), one.data.nbytes) for one in tables]
        cost = replace(cost, flash_bytes=sum(one.data.nbytes for one in plain if one.role not in _TABLES))
    return cost.with_code(code.step).beside(shared)


def layers_of(costs: Iterable[Iterable[Cost]]) -> Mapping[Hashable, int]:
    """How many layers may have a function, by the key of its code. costs: of each layer's choices."""
    return Counter(key for own in costs for key in {code.key for cost in own for code in cost.codes})


def ask(kernel: Kernel, site: Site, isa: frozenset[str], params: Once[Any] | None = None) -> Offer | Refused:
    """What the kernel offers for the node, or what it asks for that the core or the node does not give.

    Of the conditions the first that fails: those behind it may rely on it. What is dear to find out, the kernel's offer
    says. params: what the node's operator prepares.
    """
    missing = [f"a core with {feature}" for feature in sorted(kernel.isa - isa)]
    failed = next((test for test in kernel.when if not test(site)), None)
    if failed is not None:
        missing.append((failed.__doc__ or failed.__name__).strip())
    if missing:
        return Refused("; ".join(missing))
    return kernel.offer(site, params() if params else op_of(site.node).prepared(site))


def _candidates(site: Site, kernel_name: str | None, flash: SlowFlash | None) -> list[Choice]:
    """A Choice for every kernel that can run the node, in the operator's order: best first where costs are equal."""
    op = op_of(site.node)
    params = Once(lambda: op.prepared(site))
    refused: list[tuple[str, str]] = []
    fitting = []
    kernels = [kernel for kernel in op.every_kernel if kernel.name == kernel_name]
    if kernel_name is None:
        unbeaten = (kernel for kernel in op.every_kernel if not kernel.beaten_with & site.isa)
        kernels = [kernel for kernel in unbeaten if flash is not None or not kernel.slow_flash]
    for kernel in (kernel for kernel in kernels if kernel.isa <= site.isa):
        offer = ask(kernel, site, site.isa, params)
        if isinstance(offer, Refused):
            refused.append((kernel.name, offer.asks))
            continue
        for own in (offer,) if flash is None else filter(None, (offer, copied(offer))):
            fitting.append(_priced(Choice(site, params(), kernel, own, cost_of(own, site), free=own), flash))
    if not fitting:
        raise _no_kernel(site, kernels, params)
    return [replace(choice, refused=tuple(refused)) for choice in fitting]


def _priced(choice: Choice, flash: SlowFlash | None) -> Choice:
    """The choice with its waits for flash."""
    if flash is None or choice.free is None:
        return choice
    offer = slowed(choice.kernel, choice.free, flash)
    return replace(choice, offer=offer, cost=cost_of(offer, choice.site), flash=flash)


def repriced(by_node: Mapping[str, Sequence[Choice]], flash: SlowFlash) -> dict[str, list[Choice]]:
    """The candidates as they are where the flash, or the RAM for what waits for it, is this."""
    return _sharing_code({node: [_priced(choice, flash) for choice in choices] for node, choices in by_node.items()})


def as_compiled(by_node: Mapping[str, Sequence[Choice]], compiled: CompiledCode) -> dict[str, list[Choice]]:
    """The candidates, or what kernels offer, with what a core's compiler makes of kernels in C."""
    compiled = compiled.for_layers(choice.kernel.name for choices in by_node.values() for choice in choices)
    return _sharing_code(
        {
            node: [replace(choice, cost=cost_of(choice.offer, choice.site), compiled=compiled) for choice in choices]
            for node, choices in by_node.items()
        }
    )


def optimized_for_size(by_node: Mapping[str, Sequence[Choice]], compiled: CompiledCode) -> dict[str, list[Choice]]:
    """The candidates as they are where the compiler makes code small: compiled."""
    compiled = compiled.for_layers(choice.kernel.name for choices in by_node.values() for choice in choices)
    small = {node: [_for_size(choice, compiled) for choice in choices] for node, choices in by_node.items()}
    return _sharing_code(small)


def _for_size(choice: Choice, compiled: CompiledCode) -> Choice:
    assert choice.free is not None
    counted = counted_at(choice.kernel.name, choice.site)
    offer = _slower(choice.free, 1.0 if counted is None else counted.for_size)
    small = replace(choice, offer=offer, cost=cost_of(offer, choice.site), free=offer, compiled=compiled)
    return _priced(small, choice.flash)


def _slower(offer: Offer, times: float) -> Offer:
    """The offer with the time of all its ways so many times as long."""
    if times == 1:
        return offer

    def forms() -> tuple[RowForm, ...]:
        return tuple(replace(form, cost=form.cost.slower(times)) for form in offer.row_forms())

    return replace(offer, cost=offer.cost.slower(times), row_forms=Once(forms))


def cost_of(offer: Offer, site: Site) -> Cost:
    """What the kernel says, with the scratch that it asks for."""
    return offer.cost.in_scratch(offer.scratch_bytes)


def least_flash(choices: Mapping[str, Sequence[Choice]]) -> int:
    """Bytes of the smallest kernels and their constants."""
    return sum(min(choice.cost.flash_bytes for choice in options) for options in choices.values())


def _no_kernel(site: Site, kernels: Sequence[Kernel], params: Once[Any]) -> TinycError:
    """With what each kernel asks for, those for other cores too."""
    offers = ((kernel.name, ask(kernel, site, site.isa, params)) for kernel in kernels)
    refused = [f"{name} takes {offer.asks}" for name, offer in offers if isinstance(offer, Refused)]
    asked = "; ".join(refused) or "it has no C kernel"
    return TinycError(f"no kernel runs this {site.node.op}: {asked}", site.node.where)
