# SPDX-License-Identifier: Apache-2.0
"""Measures of the code that have a goal, printed with it by `python scripts/house_figures.py --measures`.

Most are counted by reading sources. Those that follow a weight, an activation and a layer run a compile of the example
model and look at every call of a function of tinyc, half a minute.
"""

from __future__ import annotations

import io
import re
import resource
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, RUNTIME = ROOT / "tinyc", ROOT / "runtime_c"
MODEL, BOARD = ROOT / "examples" / "kws" / "kws.onnx", "cortex-m4"
# Of the model: its first 1x1 convolution, what that makes, and how many elements its weights have.
LAYER, ACTIVATION, WEIGHTS = "blocks.0.5/", "/blocks/blocks.0/blocks.0.5/Relu_output_0", 4096
# As names they say that somebody looked for a value, or made it, not what it is.
PARTICIPLES = ("found", "made", "kept", "known", "wanted")

_CACHE = re.compile(r"^\s*@(functools\.)?(lru_cache|cache)\b", re.MULTILINE)
_ESTIMATE = re.compile(r"\b[Aa]n estimate\b|# .*\bestimates\b")
_GUARD = re.compile(r"#if TC_\w*(_ASM|THUMB\d)\b")


class Measure(NamedTuple):
    """What is counted, today's figure, and the goal; None: there is no number to reach."""

    what: str
    today: float
    goal: float | None = None

    def line(self) -> str:
        today = f"{self.today:,}"
        return f"{today:>9} {'' if self.goal is None else f'-> {self.goal:,}':>11}  {self.what}"


def sources(*folders: str) -> dict[str, str]:
    """Python files by their path below the root."""
    files = (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))
    return {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in files}


def lines(texts: dict[str, str]) -> int:
    return sum(len(text.splitlines()) for text in texts.values())


def names(texts: dict[str, str]) -> Counter[str]:
    """How often each word is a name in Python sources; not in comments, strings, or as part of a name."""
    tokens = (token for text in texts.values() for token in tokenize.generate_tokens(io.StringIO(text).readline))
    return Counter(token.string for token in tokens if token.type == tokenize.NAME)


def written_outside(what: Callable[[str], object], homes: tuple[str, ...]) -> int:
    """Files of kernels/ that write it themselves, but for its homes."""
    return sum(bool(what(text)) for file, text in sources("tinyc/kernels").items() if not file.startswith(homes))


def counted() -> Iterator[Measure]:
    """By reading sources."""
    package = sources("tinyc")
    headers = [file for file in RUNTIME.rglob("*") if file.suffix in (".h", ".in")]
    c = sum(len(file.read_text("utf-8").splitlines()) for file in headers)
    yield Measure("lines of kernels/ and loops/", lines(sources("tinyc/kernels", "tinyc/loops")), 17_500)
    yield Measure("lines of runtime_c/", c, 18_000)
    yield Measure("files of runtime_c/", len(headers), 250)
    yield Measure("lines of tinyc/ and runtime_c/", lines(package) + c, 112_000)
    yield Measure("caches (lru_cache, cache)", sum(len(_CACHE.findall(text)) for text in package.values()), 40)
    push = written_outside(re.compile(r'op\("(push|addi", "sp)').search, ("tinyc/kernels/form/",))
    yield Measure("files of kernels/ with a prologue of their own", push, 0)
    digests = written_outside(lambda text: "hashlib" in text, ("tinyc/kernels/form/",))
    yield Measure("files of kernels/ that name functions by a digest themselves", digests, 0)
    guards = written_outside(_GUARD.search, ("tinyc/kernels/form/", "tinyc/kernels/scalar/loops/"))
    yield Measure("files of kernels/ with an #if for assembly of their own", guards, 0)
    in_package, elsewhere = names(package), names(sources("tests", "scripts", "bench"))
    for word in PARTICIPLES:
        what = f"`{word}` as a name, {in_package[word]:,} of them in tinyc/"
        yield Measure(what, in_package[word] + elsewhere[word], 0)


def of_operators() -> Iterator[Measure]:
    """By asking the operators."""
    from tinyc.ops import all_ops  # noqa: PLC0415  of this checkout: house_figures.py has put it first

    ops = all_ops()
    alone = [
        name
        for name, op in ops.items()
        if op.kernels and not any(kernel.isa or kernel.written for kernel in op.every_kernel)
    ]
    yield Measure(f"operators, of {len(ops)}, that have portable C alone: {', '.join(alone)}", len(alone), 20)
    yield Measure("kernels of conv2d", len(ops["conv2d"].kernels), 20)
    yield Measure("tiles of them, and those that have one alone", len(ops["conv2d"].every_kernel))
    estimates = sum(len(_ESTIMATE.findall(text)) for text in sources("tinyc/ops", "tinyc/kernels").values())
    yield Measure("costs that are called an estimate where they are said", estimates, 0)


@dataclass
class Entered:
    """Files of the package that a compile enters, by stage; which of them get the weights, the layer or the activation
    as an argument; and the instructions that were written while kernels were chosen."""

    stage: str = "start"
    all: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    weight: set[str] = field(default_factory=set)
    layer: set[str] = field(default_factory=set)
    activation: set[str] = field(default_factory=set)
    written: int = 0

    def see(self, frame: FrameType, event: str, _: object) -> None:
        """A function of the interpreter's profiler: every call comes here."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(f"{PACKAGE}/"):
            return
        file = code.co_filename.removeprefix(f"{PACKAGE}/")
        self.all[self.stage].add(file)
        if code.co_name == "op" and file in ("machine/thumb.py", "machine/riscv.py") and self.stage == "select":
            self.written += 1
        for name in code.co_varnames[: code.co_argcount]:
            self._argument(file, frame.f_locals.get(name))

    def _argument(self, file: str, value: Any) -> None:
        """A method is also entered for an object whose fields are not set yet: its `__init__`."""
        kind = type(value).__name__
        weights = value if isinstance(value, np.ndarray) else None
        if kind in ("ConvParams", "Matrix"):
            weights = getattr(value if kind == "ConvParams" else getattr(value, "p", None), "w", None)
        if isinstance(weights, np.ndarray) and weights.size == WEIGHTS:
            self.weight.add(file)
        node = getattr(value, "node", None) if kind == "Site" else value if kind == "Node" else None
        if LAYER in getattr(node, "name", ""):
            self.layer.add(file)
        named = getattr(value, "name", "") if kind == "Value" else value if type(value) is str else ""
        if isinstance(named, str) and named.startswith(ACTIVATION):
            self.activation.add(file)


def traced() -> Iterator[Measure]:
    """By running a compile."""
    from tinyc.board import load_board  # noqa: PLC0415  of this checkout: house_figures.py has put it first
    from tinyc.explain.estimate import assembly_bytes  # noqa: PLC0415
    from tinyc.options.build import Options  # noqa: PLC0415
    from tinyc.pipeline.compiling import compile_model  # noqa: PLC0415
    from tinyc.pipeline.progress import Progress  # noqa: PLC0415

    entered = Entered()

    class Stages(Progress):
        @contextmanager
        def stage(self, name: str) -> Iterator[None]:
            outer, entered.stage = entered.stage, name
            yield
            entered.stage = outer

    sys.setprofile(entered.see)
    try:
        compiled = compile_model(MODEL, load_board(BOARD), Options(BOARD), Stages())
    finally:
        sys.setprofile(None)
    used = assembly_bytes(compiled.program) // 4
    yield Measure("files that a compile of kws enters", len(set().union(*entered.all.values())), 200)
    yield Measure("  of these in select", len(entered.all["select"]), 45)
    yield Measure("files that see a weight", len(entered.weight), 25)
    yield Measure("files that see an activation", len(entered.activation), 20)
    yield Measure("files that see a layer", len(entered.layer), 30)
    what = f"instructions written to choose kernels ({entered.written:,}) over those of the library ({used:,})"
    yield Measure(what, round(entered.written / used, 1), 1.5)


def of_start() -> Iterator[Measure]:
    """By running a command that needs little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "tinyc", "boards"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    yield Measure("CPU seconds of `tinyc boards`", round(seconds, 2), 0.3)


def print_all() -> None:
    """A line a measure: today, the goal, what it is."""
    # A compile also enters what it imports: that goes first.
    for measures in (traced(), counted(), of_operators(), of_start()):
        for measure in measures:
            print(measure.line())
