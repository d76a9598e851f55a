# SPDX-License-Identifier: Apache-2.0
"""UnicornTarget: firmware on the unicorn CPU emulator, which pip installs; Python plays the semihosting."""

from __future__ import annotations

import ctypes
import importlib
import struct
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.board import Board, Memory
from tinyc.board.core import CORES
from tinyc.run import protocol
from tinyc.run.base import (
    INSTRUCTION_LIMIT,
    BlockCount,
    Conversation,
    Counts,
    Inputs,
    Progress,
    RunError,
    RunResult,
    check_inputs,
    fault_error,
    limit_error,
)
from tinyc.run.process import REPLIES, REQUESTS
from tinyc.run.trace import (
    OUTSIDE,
    TracePlan,
    TraceReport,
    build_trace_library,
    instruction_starts,
    ordered,
    ordered_jumps,
    plan_trace,
    read_report,
)
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.elf import Elf

# Not UC_MODE_MCLASS: it makes every core a Cortex-M33. The model goes to the constructor: later is too late.
CPUS = {name: core.unicorn for name, core in CORES.items() if core.unicorn}
SYSTEM_SPACE = 0xE000_E000  # SCB, MPU: plain memory here, so the MPU says that it has no regions
PAGE = 0x1000
_IT_BITS = 0x0600_FC00  # of xPSR
NEVER_REACHED = 0xDFFF_FFF0  # below the system space, from which a core never executes
BKPT_EXCEPTION = 7
SEMIHOSTING = b"\xab\xbe"  # bkpt 0xab

# Exception numbers of QEMU's Arm target, from which unicorn is made.
_EXCEPTIONS = {
    1: "undefined instruction",
    3: "instruction fetch refused",
    4: "data access refused",
    17: "jump to an address without the Thumb bit",
    18: "coprocessor instruction with no coprocessor",
    22: "unaligned access",
}


def find_unicorn(board: Board) -> UnicornTarget | None:
    """unicorn for the board, None when it is not installed or has no such core."""
    if board.unicorn is None or board.memory is None:
        return None
    if board.unicorn.cpu not in CPUS:
        raise TinycError(f"unicorn has no CPU '{board.unicorn.cpu}'", hint=f"it has: {', '.join(CPUS)}")
    try:
        version = load_unicorn().__version__
    except ImportError:
        return None
    return UnicornTarget(board.unicorn.cpu, board.memory, version)


def load_unicorn(name: str = "unicorn") -> Any:
    """unicorn or a part of it. Loaded when needed: it is not on every computer, and it has no types."""
    return importlib.import_module(name)


@dataclass(frozen=True, slots=True)
class UnicornTarget:
    """A bare core with exactly the board's memories: any access elsewhere stops it.

    native: count with the compiled tracer where this computer has a C compiler, else (slower) in Python.
    check_alignment: run the first inference once before, with every access to memory watched: unicorn carries out
    LDRD, LDM, STRD, STM and FPU accesses that are not word aligned, on which cores fault.
    """

    cpu: str
    memory: Memory
    version: str
    native: bool = True
    check_alignment: bool = True

    @property
    def machine(self) -> str:
        return f"unicorn {self.version} {self.cpu}"

    def run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        *,
        instruction_limit: int = INSTRUCTION_LIMIT,
        on_progress: Progress | None = None,
    ) -> RunResult:
        check_inputs(firmware.info, inputs)
        if self.check_alignment and inputs:
            self._run(firmware, inputs[:1], instruction_limit, None, watch=True)
        return self._run(firmware, inputs, instruction_limit, on_progress, watch=False)

    def _run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        instruction_limit: int,
        on_progress: Progress | None,
        watch: bool,
    ) -> RunResult:
        elf = firmware.read_elf()
        plan = plan_trace(firmware, elf, instruction_limit)
        talk = Conversation(firmware, len(inputs), on_progress)
        core = EmulatedCore(self.cpu, self.memory, elf)
        files = Semihosting(core, protocol.requests(inputs, firmware.resets), talk)
        tracer = _make_tracer(core, plan, self.native, watch)
        tracer.start()
        try:
            core.run(files.call)
        finally:
            report = tracer.finish()
        if core.failure is not None:
            raise core.failure
        if report.misaligned is not None:
            pc, address = report.misaligned
            reason = f"unaligned access at 0x{address:08x}"
            raise fault_error(firmware, reason, report.step, pc, talk.done)
        if report.stopped:
            raise limit_error(firmware, instruction_limit, report.step, talk.done)
        if core.fault is not None:
            raise fault_error(firmware, core.fault.reason, report.step, core.fault.address, talk.done, exact=False)
        if files.exit_code != 0:
            raise RunError(f"the firmware ended with status {files.exit_code} in inference {talk.done}")
        return talk.finish(self.machine, report.counts)


@dataclass(frozen=True, slots=True)
class _Fault:
    reason: str
    address: int


class EmulatedCore:
    """The emulated core with the firmware in its flash, until it exits or faults."""

    def __init__(self, cpu: str, memory: Memory, elf: Elf) -> None:
        unicorn = self._uc = load_unicorn()
        arm_const = self._arm = load_unicorn("unicorn.arm_const")
        self.engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, cpu=getattr(arm_const, CPUS[cpu]))
        self.flash = _flash_image(memory, elf)
        self.flash_origin = memory.flash_origin
        self.moved = elf.moved_code() or (0, 0, 0)
        self.fault: _Fault | None = None
        self.failure: Exception | None = None
        self._stack_end = memory.ram_origin
        self._bad_address: int | None = None
        self._on_semihosting: Callable[[int, int], int | None] = lambda operation, arguments: None
        for kind, (origin, size) in memory.spans().items():
            rights = unicorn.UC_PROT_EXEC if kind == "flash" else unicorn.UC_PROT_WRITE
            if origin <= self.moved[0] < origin + size and self.moved[1]:
                rights |= unicorn.UC_PROT_EXEC
            self.engine.mem_map(origin, size, unicorn.UC_PROT_READ | rights)
        self.engine.mem_map(SYSTEM_SPACE, PAGE, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        self.engine.mem_write(memory.flash_origin, self.flash)
        self.engine.hook_add(unicorn.UC_HOOK_INTR, self._on_exception)
        self.engine.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_bad_access)

    def code_at(self, address: int, size: int) -> bytes:
        """Bytes of code, as they lie in the flash."""
        first, end, load = self.moved
        at = (load + address - first if first <= address < end else address) - self.flash_origin
        return self.flash[at : at + size] if at >= 0 else b""

    def run(self, on_semihosting: Callable[[int, int], int | None]) -> None:
        """Resets the core and lets it run. on_semihosting(operation, arguments) gives r0, or None to stop."""
        self._on_semihosting = on_semihosting
        stack, entry = struct.unpack_from("<II", self.flash)
        self.engine.reg_write(self._arm.UC_ARM_REG_SP, stack)
        try:
            self.engine.emu_start(entry | 1, NEVER_REACHED)
        except self._uc.UcError as error:
            self._set_fault(str(error).partition(" (")[0])

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.engine.mem_read(address, size))

    def write(self, address: int, data: bytes) -> None:
        self.engine.mem_write(address, data)

    def stop(self) -> None:
        self.engine.emu_stop()

    def _set_fault(self, reason: str) -> None:
        if self.fault is not None or self.failure is not None:
            return
        if self._bad_address is not None:
            reason += f" at 0x{self._bad_address:08x}"
            if self._stack_end - PAGE <= self._bad_address < self._stack_end:
                reason = f"the stack overflowed: {reason}"
        # After a refused access unicorn gives the start of the basic block, not the instruction.
        self.fault = _Fault(reason, self.engine.reg_read(self._arm.UC_ARM_REG_PC))

    def _on_bad_access(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> bool:
        self._bad_address = address
        return False

    def _on_exception(self, engine: Any, number: int, data: Any) -> None:
        try:
            self._serve(number)
        except Exception as error:  # Python exceptions do not pass through the engine
            self.failure = error
            self.stop()

    def _serve(self, number: int) -> None:
        pc = self.engine.reg_read(self._arm.UC_ARM_REG_PC)
        if number != BKPT_EXCEPTION or self.read(pc, 2) != SEMIHOSTING:
            self._set_fault(_EXCEPTIONS.get(number, f"exception {number}"))
            self.stop()
            return
        operation = self.engine.reg_read(self._arm.UC_ARM_REG_R0)
        answer = self._on_semihosting(operation, self.engine.reg_read(self._arm.UC_ARM_REG_R1))
        if answer is None:
            self.stop()
            return
        self.engine.reg_write(self._arm.UC_ARM_REG_R0, answer & 0xFFFF_FFFF)
        self.engine.reg_write(self._arm.UC_ARM_REG_PC, (pc + 2) | 1)


def _flash_image(memory: Memory, elf: Elf) -> bytes:
    image = bytearray(memory.flash_bytes)
    for segment in elf.segments:
        start = segment.load - memory.flash_origin
        if start < 0 or start + len(segment.data) > len(image):
            raise TinycError(f"the firmware has data at 0x{segment.load:08x}, outside the board's flash")
        image[start : start + len(segment.data)] = segment.data
    return bytes(image)


class Semihosting:
    """The two files that the firmware opens, and its exit. Any other file does not exist."""

    def __init__(self, core: EmulatedCore, requests: bytes, talk: Conversation) -> None:
        self._core = core
        self._requests = requests
        self._position = 0
        self._talk = talk
        self._handles = {REQUESTS: 1, REPLIES: 2}
        self.exit_code = -1

    def call(self, operation: int, arguments: int) -> int | None:
        """Arm semihosting: SYS_OPEN 1, SYS_WRITE 5, SYS_READ 6, SYS_EXIT_EXTENDED 0x20."""
        words: tuple[int, int, int] = struct.unpack("<III", self._core.read(arguments, 12))
        first, second, third = words
        if operation == 1:
            name = self._core.read(first, third).decode("latin-1")
            return self._handles.get(name, -1)
        if operation == 5 and first == 2:
            self._talk.feed(self._core.read(second, third))
            return 0
        if operation == 6 and first == 1:
            data = self._requests[self._position : self._position + third]
            self._position += len(data)
            self._core.write(second, data)
            return third - len(data)
        if operation == 0x20:
            self.exit_code = second
            return None
        raise RunError(f"the firmware made a semihosting call that is not allowed: 0x{operation:02x}")


class _Tracer(Protocol):
    def start(self) -> None: ...
    def finish(self) -> TraceReport: ...


def _make_tracer(core: EmulatedCore, plan: TracePlan, native: bool, watch: bool) -> _Tracer:
    library = build_trace_library(None) if native else None
    engine_library = load_engine_library() if library is not None else None
    if library is None or engine_library is None:
        return _PythonTracer(core, plan, watch)
    return _NativeTracer(core, plan, library, engine_library, watch)


def load_engine_library() -> ctypes.CDLL | None:
    """unicorn's own shared library, for calls that its Python module does not offer."""
    try:
        return ctypes.CDLL(load_unicorn("unicorn.unicorn_py3.unicorn").uclib._name)
    except (ImportError, AttributeError, OSError):
        return None


def add_native_hook(engine: Any, engine_library: ctypes.CDLL, kind: int, function: Any) -> int:
    """A function in C as a hook of the engine, everywhere; what removes it (`uc_hook_del`)."""
    unicorn = load_unicorn()
    hook = ctypes.c_size_t()
    status = engine_library.uc_hook_add(
        engine._uch,
        ctypes.byref(hook),
        ctypes.c_int(kind),
        ctypes.cast(function, ctypes.c_void_p),
        None,
        ctypes.c_uint64(1),
        ctypes.c_uint64(0),  # begin > end: everywhere
    )
    if status != unicorn.UC_ERR_OK:
        raise TinycError(f"unicorn refuses the hook: error {status}")
    return hook.value


def add_native_access_hook(engine: Any, engine_library: ctypes.CDLL, trace: ctypes.CDLL, function: Any) -> int:
    """A function of block_trace.c as a hook of every access to memory."""
    unicorn, arm = load_unicorn(), load_unicorn("unicorn.arm_const")
    pointers = (ctypes.cast(f, ctypes.c_void_p) for f in (engine_library.uc_reg_read, engine_library.uc_reg_write))
    trace.registers_open(*pointers, ctypes.c_int(arm.UC_ARM_REG_XPSR))
    return add_native_hook(engine, engine_library, unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, function)


def forget_it_block(engine: Any) -> None:
    """To be called in hooks of accesses to memory. unicorn 2.1 leaves the state of an IT block behind when a hook sees
    an access inside it, and the next block's first instructions are skipped."""
    status = load_unicorn("unicorn.arm_const").UC_ARM_REG_XPSR
    held = engine.reg_read(status)
    if held & _IT_BITS:
        engine.reg_write(status, held & ~_IT_BITS)


class _NativeTracer:
    """templates/host/block_trace.c as the engine's block hook: costs next to nothing."""

    _one_at_a_time = threading.Lock()  # its state is one set of C variables

    def __init__(
        self, core: EmulatedCore, plan: TracePlan, library: Path, engine_library: ctypes.CDLL, watch: bool
    ) -> None:
        self._core = core
        self._plan = plan
        self._watch = watch
        self._trace = ctypes.CDLL(str(library))
        self._engine_library = engine_library
        self._folder = tempfile.TemporaryDirectory(prefix="tinyc-")

    def start(self) -> None:
        self._one_at_a_time.acquire()
        config = Path(self._folder.name) / "trace.cfg"
        config.write_text(self._plan.config(self._report))
        stop = ctypes.cast(self._engine_library.uc_emu_stop, ctypes.c_void_p)
        flash = self._core.flash
        opened = self._trace.trace_open(
            str(config).encode(),
            flash,
            ctypes.c_uint64(self._core.flash_origin),
            ctypes.c_uint64(len(flash)),
            stop,
        )
        self._trace.trace_moved(*map(ctypes.c_uint64, self._core.moved))
        if opened != 1:
            raise TinycError("the instruction counter cannot read its configuration")
        unicorn = load_unicorn()
        add_native_hook(self._core.engine, self._engine_library, unicorn.UC_HOOK_BLOCK, self._trace.trace_block)
        if self._watch:
            add_native_hook(
                self._core.engine, self._engine_library, unicorn.UC_HOOK_CODE, self._trace.trace_instruction
            )
            add_native_access_hook(self._core.engine, self._engine_library, self._trace, self._trace.trace_access)

    def finish(self) -> TraceReport:
        try:
            self._trace.trace_close()
            return read_report(self._plan, self._report)
        finally:
            self._folder.cleanup()
            self._one_at_a_time.release()

    @property
    def _report(self) -> Path:
        return Path(self._folder.name) / "trace.txt"


def must_be_aligned(code: bytes) -> bool:
    """Whether the instruction that begins with these two bytes faults on every core when its address is not word
    aligned: LDM, STM, LDRD, STRD, PUSH, POP, exclusive accesses, and those of the FPU."""
    half = int.from_bytes(code, "little")
    return half & 0xF000 == 0xC000 or half & 0xF600 == 0xB400 or half & 0xFE00 in (0xE800, 0xEC00)


class _PythonTracer:
    """The same counting in Python, for a computer without a C compiler."""

    def __init__(self, core: EmulatedCore, plan: TracePlan, watch: bool) -> None:
        self._core = core
        self._plan = plan
        self._watch = watch
        self._pc = 0  # of the instruction that runs, while accesses are watched
        self._misaligned: tuple[int, int] | None = None
        self._steps = {start: slot for slot, (_, start) in enumerate(plan.steps, 1)}
        self._slot = OUTSIDE
        self._executed = 0
        self._stopped = False
        self._totals: list[Counter[int]] = []
        self._executions: Counter[tuple[int, int, int]] = Counter()  # slot, address, bytes
        self._jumps: Counter[tuple[int, int, int]] = Counter()  # slot, source, target
        self._shapes: dict[tuple[int, int], tuple[int, int]] = {}  # address, bytes -> instructions, address of the last
        self._previous: tuple[int, int, int] | None = None  # slot, last instruction, end of the block before

    def start(self) -> None:
        unicorn = load_unicorn()
        self._core.engine.hook_add(unicorn.UC_HOOK_BLOCK, self._on_block)
        if self._watch:
            self._core.engine.hook_add(unicorn.UC_HOOK_CODE, self._on_instruction)
            self._core.engine.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._on_access)

    def finish(self) -> TraceReport:
        numbers = self._plan.numbers
        inferences = tuple(
            self._plan.inference([total[slot] for slot in range(len(numbers))]) for total in self._totals
        )
        blocks = (
            BlockCount(numbers[slot], address, size, self._shapes[address, size][0], count)
            for (slot, address, size), count in self._executions.items()
        )
        counts = Counts(inferences, ordered(blocks), ordered_jumps(self._plan, self._jumps))
        return TraceReport(self._stopped, self._plan.step_of(self._slot), counts, self._misaligned)

    def _on_instruction(self, engine: Any, address: int, size: int, data: Any) -> None:
        self._pc = address  # the engine's own program counter may lag behind

    def _on_access(self, engine: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        forget_it_block(engine)
        if address % 4 == 0 or size < 4 or self._misaligned is not None:
            return
        if must_be_aligned(self._core.code_at(self._pc, 2)):
            self._misaligned = self._pc, address
            self._core.stop()

    def _on_block(self, engine: Any, address: int, size: int, data: Any) -> None:
        if self._previous is not None and address != self._previous[2]:
            self._jumps[self._previous[0], self._previous[1], address] += 1
        self._previous = None
        self._set_slot(address)
        if self._slot != OUTSIDE:
            length, last = self._shape(address, size)
            self._previous = self._slot, last, address + size
            self._executions[self._slot, address, size] += 1
            self._totals[-1][self._slot] += length
            self._executed += length
            if self._executed > self._plan.limit:
                self._stopped = True
                self._core.stop()

    def _shape(self, address: int, size: int) -> tuple[int, int]:
        shape = self._shapes.get((address, size))
        if shape is None:
            starts = instruction_starts(self._core.code_at(address, size), self._plan.widths)
            shape = self._shapes[address, size] = (len(starts), address + starts[-1])
        return shape

    def _set_slot(self, address: int) -> None:
        if self._slot == OUTSIDE:
            if address == self._plan.run_start:
                self._totals.append(Counter())
                self._executed = 0
                self._slot = 0
        elif address == self._plan.run_return:
            self._slot = OUTSIDE
        elif self._plan.run_start <= address < self._plan.run_end or (
            self._plan.inner[0] <= address < self._plan.inner[1]
        ):
            self._slot = 0
        else:
            self._slot = self._steps.get(address, self._slot)
