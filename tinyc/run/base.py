# SPDX-License-Identifier: Apache-2.0
"""What every machine that runs firmware takes and gives: Target, RunResult, and how replies become one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.run import protocol
from tinyc.toolchain.compile import Firmware, FirmwareInfo

INSTRUCTION_LIMIT = 2_000_000_000
OVERHEAD = -1  # the step number of code that belongs to no step: the run function itself

Progress = Callable[[int, int], None]  # inferences done, inferences in all
Inputs = Sequence[Sequence[bytes]]  # [inference][input]


class RunError(TinycError):
    """A run that did not come to its end: `step` is the model's step where it was, None when not known."""

    def __init__(
        self,
        message: str,
        step: int | None = None,
        where: Loc | None = None,
        hint: str = "",
        exit_code: int = 1,
    ) -> None:
        super().__init__(message, where, hint, exit_code)
        self.step = step

    def located(self, where: Loc | None) -> RunError:
        if self.where is not None or where is None:
            return self
        return RunError(self.message, self.step, where, self.hint, self.exit_code)


@dataclass(frozen=True, slots=True)
class InferenceCount:
    """Executed instructions of one inference, from the entry of the model's run function to its return.

    A step has what its function and everything called from it executed; overhead is the run function itself.
    """

    overhead: int
    steps: Mapping[int, int]

    @property
    def total(self) -> int:
        return self.overhead + sum(self.steps.values())


@dataclass(frozen=True, slots=True)
class BlockCount:
    """How often a straight piece of code was executed on behalf of a step (OVERHEAD: the run function), over
    all inferences. Pieces may overlap; `tinyc.run.trace.executions_by_address` tells single instructions."""

    step: int
    address: int
    size_bytes: int
    instructions: int
    executions: int


@dataclass(frozen=True, slots=True)
class JumpCount:
    """How often control went from the instruction at `source` to `target`, which is not the next address, on
    behalf of a step (that of the source), over all inferences. The same on every machine."""

    step: int
    source: int
    target: int
    executions: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What a counting machine saw: one entry per inference; blocks and jumps of all of them."""

    inferences: tuple[InferenceCount, ...] = ()
    blocks: tuple[BlockCount, ...] = ()
    jumps: tuple[JumpCount, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave.

    machine: what ran it (`QEMU 7.2.22 mps2-an386`). outputs: [inference][output]. counts, blocks, jumps: empty
    when the machine does not count. stack_bytes: the deepest of all inferences, None when not measured.
    damaged_guards: the guard zones of the arena that were written, in words. steps: per inference, step ->
    the bytes of its output, empty unless the firmware dumps steps. cycles: per inference, where the core
    counts them.
    """

    machine: str
    outputs: tuple[tuple[bytes, ...], ...]
    counts: tuple[InferenceCount, ...] = ()
    blocks: tuple[BlockCount, ...] = ()
    stack_bytes: int | None = None
    damaged_guards: tuple[str, ...] = ()
    steps: tuple[Mapping[int, bytes], ...] = ()
    cycles: tuple[int, ...] = field(default=())
    jumps: tuple[JumpCount, ...] = ()

    @property
    def instructions(self) -> tuple[int, ...]:
        """Executed instructions per inference; empty when not counted."""
        return tuple(count.total for count in self.counts)


class Target(Protocol):
    """A machine that runs firmware."""

    @property
    def machine(self) -> str:
        """What it is, with its version: `QEMU 7.2.22 mps2-an386`."""

    def run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        *,
        instruction_limit: int = INSTRUCTION_LIMIT,
        on_progress: Progress | None = None,
    ) -> RunResult:
        """Runs the firmware on every inference's inputs, each input as its raw bytes.

        instruction_limit holds for each inference. Raises RunError when the firmware faults, does not come
        to its end or refuses an input, TinycError when the inputs do not fit the model.
        """


def check_inputs(info: FirmwareInfo, inputs: Inputs) -> None:
    """Raises TinycError when an inference has not the inputs, or not the bytes, that the model takes."""
    for i, tensors in enumerate(inputs):
        sizes = tuple(len(t) for t in tensors)
        if sizes != info.input_bytes:
            raise TinycError(f"inference {i} has inputs of {sizes} bytes; the model takes {info.input_bytes}")


class Conversation:
    """Collects what the firmware answers, piece by piece, and makes the RunResult of it."""

    def __init__(self, firmware: Firmware, inferences: int, on_progress: Progress | None = None) -> None:
        self._firmware = firmware
        self._expected = inferences
        self._on_progress = on_progress
        self._reader = protocol.FrameReader()
        self._results: list[protocol.Result] = []
        self._steps: list[dict[int, bytes]] = [{} for _ in range(inferences)] if firmware.dump_steps else []
        self.fault: protocol.FaultFrame | None = None

    @property
    def done(self) -> int:
        """Inferences answered so far."""
        return len(self._results)

    def feed(self, data: bytes) -> None:
        """Takes bytes from the firmware. Raises RunError when it reports a refused request."""
        for frame in self._reader.feed(data):
            self.take(protocol.decode(frame))

    def take(self, message: protocol.Message) -> None:
        """Takes what one frame says. Raises RunError when it is a refusal, FrameError when it does not belong here."""
        if isinstance(message, protocol.Result):
            self._add_result(message)
        elif isinstance(message, protocol.StepFrame):
            self._add_step(message)
        elif isinstance(message, protocol.FaultFrame):
            self.fault = message
        elif isinstance(message, protocol.Refusal):
            raise RunError(f"the firmware refused a request: error {message.code}, detail {message.detail}")

    def _add_step(self, step: protocol.StepFrame) -> None:
        if not self._steps:
            raise protocol.FrameError("the firmware sent the output of a step, which it was not built to do")
        if step.inference != self.done or self.done >= self._expected or step.step >= self._firmware.info.steps:
            raise protocol.FrameError(
                f"the firmware sent step {step.step} of inference {step.inference} in inference {self.done}; "
                f"the model has {self._firmware.info.steps} steps, the run {self._expected} inferences"
            )
        outputs = self._steps[step.inference]
        outputs[step.step] = outputs.get(step.step, b"") + step.output

    def _add_result(self, result: protocol.Result) -> None:
        if result.inference != self.done or self.done >= self._expected:
            raise protocol.FrameError(
                f"the firmware sent the result of inference {result.inference} in inference {self.done} "
                f"of {self._expected}"
            )
        if result.status != 0:
            raise RunError(f"{self._firmware.model}_run returned {result.status} in inference {result.inference}")
        protocol.check_outputs(result, self._firmware.info.output_bytes)
        self._results.append(result)
        if self._on_progress is not None:
            self._on_progress(self.done, self._expected)

    def require_all(self) -> None:
        """Raises RunError when the firmware stopped before its end."""
        if self.done != self._expected:
            raise RunError(f"the firmware stopped after {self.done} of {self._expected} inferences")

    def finish(self, machine: str, counts: Counts | None = None) -> RunResult:
        """The result of the whole run. Raises RunError when the firmware stopped before its end."""
        self.require_all()
        if counts is None or self._firmware.dump_steps:
            counts = Counts()
        stacks = [r.stack_bytes for r in self._results if r.stack_bytes is not None]
        return RunResult(
            machine=machine,
            outputs=tuple(_split(r.outputs, self._firmware.info.output_bytes) for r in self._results),
            counts=counts.inferences,
            blocks=counts.blocks,
            stack_bytes=max(stacks) if stacks and not self._firmware.dump_steps else None,
            damaged_guards=tuple(text for r in self._results for text in _damage(r)),
            steps=tuple(self._steps),
            cycles=tuple(r.cycles for r in self._results if r.cycles is not None),
            jumps=counts.jumps,
        )


def _split(data: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(data[start : start + size] for start, size in zip(starts, sizes, strict=True))


def _damage(result: protocol.Result) -> list[str]:
    sides = (("below", 1), ("above", 2))
    return [f"inference {result.inference}: bytes {side} the arena" for side, bit in sides if result.guards & bit]


def place_name(firmware: Firmware, step: int | None, address: int | None, exact: bool = True) -> str:
    """Where execution was: `in step 3, tc_conv2d_s8+0x1c`; without the offset when the address is not exact.

    step None: outside the model, OVERHEAD: between steps.
    """
    parts = []
    if step is not None:
        parts.append(f"in {firmware.model}_run" if step == OVERHEAD else f"in step {step}")
    function = firmware.read_elf().function_at(address) if address is not None else None
    if function is not None and address is not None:
        parts.append(function.name + (f"+0x{address - function.address:x}" if exact else ""))
    elif address is not None:
        parts.append(f"at 0x{address:08x}")
    return ", ".join(parts) or "outside the model"


def fault_error(
    firmware: Firmware, reason: str, step: int | None, address: int | None, inference: int, exact: bool = True
) -> RunError:
    """The error for firmware that faulted at `address` (None: not known) on behalf of a step."""
    place = place_name(firmware, step, address, exact)
    return RunError(
        f"the firmware faulted {place}: {reason} (inference {inference})",
        step=step if step != OVERHEAD else None,
        hint="the same inputs on the board 'host' with sanitizers show the access that is wrong",
    )


def limit_error(
    firmware: Firmware, limit: int, step: int | None, inference: int, address: int | None = None
) -> RunError:
    """The error for firmware that executed `limit` instructions without ending an inference. address: where it was."""
    place = place_name(firmware, step, address)
    return RunError(
        f"inference {inference} did not end within {limit:,} instructions: it was {place}",
        step=step if step != OVERHEAD else None,
        hint="raise the instruction limit if the model is that large",
    )
