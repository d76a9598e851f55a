# SPDX-License-Identifier: Apache-2.0
"""Writes two sections of docs/benchmarks.md: what each lever gives, by switching it off, and each layer's cost.

    python bench/ablation.py [--board cortex-m4] [--model kws ...]

Every row of the first is a build of the five int8 MLPerf Tiny models with one thing forbidden to the compiler, proved
byte for byte and counted like any other. All are planned layer by layer (`--prefer time`), so that rows differ by
the lever alone. With --model the text is printed, not written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from peers import MODELS
from tables import INPUTS, PAGE, ROOT, write_section

from tinyc.base.errors import TinycError
from tinyc.choose.select import Choice, offered
from tinyc.explain.cycles import LayerCost, Profile
from tinyc.kernels import finish
from tinyc.kernels.fast import winograd
from tinyc.options.build import Options
from tinyc.pipeline import integers, lowering
from tinyc.pipeline.building import build
from tinyc.pipeline.profiling import profile_model
from tinyc.pipeline.progress import Progress
from tinyc.plan import draft_plan
from tinyc.verify.report import Report

Choices = Mapping[str, Sequence[Choice]]


@dataclass(frozen=True, slots=True)
class Lever:
    """Something that the compiler can do without. off: a context in which it has to."""

    name: str
    off: Callable[[], Any]


def _kernels(refused: Callable[[Choice], bool]) -> Callable[[], Any]:
    """No kernel of a kind, but where there is no other."""

    @contextmanager
    def off() -> Iterator[None]:
        def fewer(*args: Any, **more: Any) -> Choices:
            choices_by_node = offered(*args, **more)
            return {
                node: [c for c in choices if not refused(c)] or choices for node, choices in choices_by_node.items()
            }

        with patch.object(lowering, "offered", fewer):
            yield

    return off


def _named(*parts: str) -> Callable[[], Any]:
    return _kernels(lambda choice: any(part in choice.kernel.name for part in parts))


@contextmanager
def _general_requantization() -> Iterator[None]:
    """Rounding as the definition does it, each channel with its own shift; sums of fast forms divided by 3 or 9."""
    wide, packed, proved = finish._wide_shifts, finish._packed_requantizations, winograd._proved

    def wide_shifts(*args: Any) -> Iterator[tuple[bool, int, bool]]:
        yield True, 0, True
        yield from wide(*args)

    def packed_requantizations(*args: Any) -> Iterator[tuple[finish.Requantization, int | None]]:
        yield finish.Requantization(packed=True, halve=True, double=True, sign=True), None
        yield from packed(*args)

    def plainly(matrix: Any, form: Any, multiple: int, packed: bool = False) -> finish.Finish | None:
        return None if multiple > 1 else proved(matrix, form, multiple, packed)

    with ExitStack() as stack:
        for place, name, other in (
            (finish, "_wide_shifts", wide_shifts),
            (finish, "_packed_requantizations", packed_requantizations),
            (winograd, "finish_drops", lambda *_: None),
            (winograd, "_proved", plainly),
        ):
            stack.enter_context(patch.object(place, name, other))
        yield


@contextmanager
def _all_channels() -> Iterator[None]:
    with patch.object(integers, "drop_dead_channels", lambda graph, numerics: graph):
        yield


@contextmanager
def _no_overlap() -> Iterator[None]:
    with patch("tinyc.plan.families.draft_plan", lambda *given, **more: draft_plan(*given, **{**more, "slide": False})):
        yield


LEVERS = (
    Lever("assembly for each layer", _kernels(lambda choice: choice.kernel.written)),
    Lever("exact fast convolutions", _named("_tiles", "_one_row_asm")),
    Lever("code for products in a row", _named("_inline_")),
    Lever("requantization as proved", _general_requantization),
    Lever("dead channels", _all_channels),
    Lever("int16 weights", _named("_w16_")),
    Lever("taps in FPU registers", _named("_fpu_")),
    Lever("depthwise without planes", _named("_direct_")),
    Lever("linear add", _named("tc_add_linear")),
    Lever("output rows over dead input rows", _no_overlap),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write what each lever gives into docs/benchmarks.md")
    parser.add_argument("--board", default="cortex-m4")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these, printed and not written")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    folder = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
    if not folder.is_dir():
        print(f"no models in {folder}; set TINYC_MODELS", file=sys.stderr)
        return 2
    models = tuple(args.model or MODELS)
    texts = {
        f"levers on {args.board}": _levers(folder, models, args.board),
        f"layers on {args.board}": _layers(folder, models, args.board),
    }
    for name, text in texts.items():
        if args.model:
            print(text)
        else:
            write_section(args.page, name, text, "bench/ablation.py", name[0].upper() + name[1:])
    return 0


def _options(folder: Path, model: str, board: str) -> Options:
    return Options(board=board, prefer="time", inputs=folder / f"{INPUTS[model]}.npz", samples=1)


# ---- levers ----


def _levers(folder: Path, models: Sequence[str], board: str) -> str:
    rows = {"all of them": _measure(folder, models, board)}
    for lever in LEVERS:
        print(f"without {lever.name}", file=sys.stderr)
        with lever.off():
            rows[f"without {lever.name}"] = _measure(folder, models, board)
    figures: tuple[tuple[str, Callable[[Report], int]], ...] = (
        ("instructions", lambda report: report.instructions or 0),
        ("modelled cycles", lambda report: report.cycles or 0),
        ("arena bytes", lambda report: report.arena_bytes),
        ("flash bytes", lambda report: report.flash.code_bytes + report.flash.const_bytes),
    )
    tables = [_table(title, models, rows, figure) for title, figure in figures]
    how = "In brackets: how much more or less than with all levers; empty where nothing changes."
    return "\n\n".join(["`--prefer time`. " + how, *tables]) + "\n"


def _measure(folder: Path, models: Sequence[str], board: str) -> list[Report]:
    return [_report(folder, model, board) for model in models]


def _report(folder: Path, model: str, board: str) -> Report:
    with tempfile.TemporaryDirectory(prefix="tinyc-ablation-") as out:
        options = _options(folder, model, board)
        report, _ = build(folder / f"{model}_int8.tflite", Path(out) / model, options, Progress())
    assert isinstance(report, Report)
    if not report.passed:
        raise TinycError(f"{model}: outputs differ from the reference")
    return report


def _table(
    title: str, models: Sequence[str], rows: Mapping[str, Sequence[Report]], figure: Callable[[Report], int]
) -> str:
    base = [figure(report) for report in rows["all of them"]]
    lines = [[title, *models], ["---", *["---:"] * len(models)]]
    for name, reports in rows.items():
        cells = [_beside(figure(report), reference) for report, reference in zip(reports, base, strict=True)]
        lines.append([name, *(cells if any(cells) else [""] * len(cells))])
    lines[2][1:] = [f"{value:,}" for value in base]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _beside(value: int, reference: int) -> str:
    return "" if value == reference else f"{value:,} ({(value - reference) / reference:+.1%})"


# ---- layers ----


def _layers(folder: Path, models: Sequence[str], board: str) -> str:
    parts = []
    for model in models:
        profile = profile_model(folder / f"{model}_int8.tflite", _options(folder, model, board), Progress(), False, 0)
        parts += [f"### {model} ({board})", _layer_table(profile), _parts(profile)]
    return "\n\n".join(parts) + "\n"


def _layer_table(profile: Profile) -> str:
    lines = [
        "| step | operator | kernel | MACs | instructions | per MAC | cycles | per MAC |",
        "| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for layer in profile.layers:
        cost, step = layer.cost, "" if layer.step < 0 else str(layer.step)
        cells = (step, layer.op or layer.name, layer.kernel, f"{layer.macs:,}" if layer.macs else "")
        counts = (f"{cost.instructions:,}", _per_mac(cost.instructions, layer), f"{cost.cycles or 0:,}")
        lines.append(f"| {' | '.join([*cells, *counts, _per_mac(cost.cycles or 0, layer)])} |")
    return "\n".join(lines)


def _per_mac(value: int, layer: LayerCost) -> str:
    return f"{value / layer.macs:.2f}" if layer.macs else ""


_PARTS = {
    "_pixels": "sums and requantization of pixel pairs",
    "_products": "products and requantization of fast convolutions",
    "_vertical": "inputs of fast convolutions, vertically",
    "_horizontal": "inputs of fast convolutions, horizontally",
    "_block_": "copies at the border",
}


def _parts(profile: Profile) -> str:
    """Where the inference goes, over all layers."""
    shares: Counter[str] = Counter()
    for layer in profile.layers:
        for function in layer.functions:
            part_name = next((text for part, text in _PARTS.items() if part in function.name), None)
            kind = "the other kernels" if "tc_" in function.name else "steps, loops over rows and tiles"
            shares[part_name or kind] += function.cost.instructions
    total = sum(shares.values())
    listed = [f"{name} {count / total:.1%}" for name, count in shares.most_common()]
    return f"{total:,} instructions: {', '.join(listed)}."


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
