# SPDX-License-Identifier: Apache-2.0
"""A loop for each line of the output, where an input repeats: from line to line its address moves by other steps."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.work import Work

LINE = Work(9, 14)  # around the call of a line, as gcc has it: counter, addresses, arguments
AROUND = Work(20, 30)  # around them all
CODE_BYTES = 40  # and 16 for each loop


@dataclass(frozen=True, slots=True)
class LoopLines:
    """outer: loops around the lines, outermost first: size, and what x0 and x1 move by from step to step.

    size: elements of a line. one: x1 is one number in a line; x0 always moves.
    """

    outer: tuple[tuple[int, int, int], ...]
    size: int
    one: bool = False

    @property
    def count(self) -> int:
        """LoopLines of the output."""
        lines = 1
        for size, _, _ in self.outer:
            lines *= size
        return lines

    def text(self, line: str, parameters: Sequence[str], count: tuple[str, str]) -> tuple[str, str]:
        """The name and text of a function that calls the function `line` for each of them.

        count: its first argument, and how many elements that says.
        """
        own = "_".join([line, *("x".join(map(str, loop)) for loop in self.outer)])
        steps = [self._address(side) for side in (1, 2)]
        body = [
            f"    {{}}for (int32_t i{k} = 0; i{k} < {size}; i{k}++) {{{{" for k, (size, _, _) in enumerate(self.outer)
        ]
        lines = [row.format("    " * k) for k, row in enumerate(body)]
        inside = "    " * (len(self.outer) + 1)
        lines += [f"{inside}{line}({count[0]}, x0{steps[0]}, x1{steps[1]}, y);", f"{inside}y += {count[1]};"]
        lines += ["    " * (k + 1) + "}" for k in reversed(range(len(self.outer)))]
        head = f"static void {own}({', '.join(parameters)})"
        return own, "\n".join([f"/* {self.count} lines. */", head, "{", *lines, "}"])

    def _address(self, side: int) -> str:
        return "".join(f" + {loop[side]} * i{k}" for k, loop in enumerate(self.outer) if loop[side])
