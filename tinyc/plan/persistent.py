# SPDX-License-Identifier: Apache-2.0
"""Places for what lasts from run to run: behind the arena's other buffers."""

from __future__ import annotations

from dataclasses import replace

from tinyc.ir.graph import Graph
from tinyc.plan.answer import Allocation, Plan
from tinyc.plan.states import overwritten, views_of

ALIGN = 4


def place_states(graph: Graph, plan: Plan) -> Plan:
    """The plan of a graph, with places for its states as well; itself for a graph without any."""
    if not graph.states:
        return plan
    lasting, allocations = dict[str, int](), [one for one in plan.allocations if one.size]
    end = plan.arena_bytes
    for state in graph.states:
        size = graph.values[state.name].size_bytes
        end = -(-end // ALIGN) * ALIGN
        lasting[state.name] = end
        allocations.append(Allocation(state.name, 0, end, size, 0, len(plan.turns), "state"))
        end += size
    lasting |= {after: lasting[name] for after, name in overwritten(graph).items()}
    lasting |= {view: lasting[root] for view, root in views_of(graph).items() if root in lasting}
    bound = plan.lower_bound_bytes + end - plan.arena_bytes
    return replace(plan, lasting=lasting, allocations=tuple(allocations), arena_bytes=end, lower_bound_bytes=bound)


def state_bytes(graph: Graph) -> int:
    """Bytes that `place_states` adds to an arena whose size is a multiple of the alignment."""
    return sum(-(-graph.values[state.name].size_bytes // ALIGN) * ALIGN for state in graph.states)
