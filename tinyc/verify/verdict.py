# SPDX-License-Identifier: Apache-2.0
"""What the figures of accuracy come to: a grade, the reasons for it, and what may help. Limits that a user sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, Missed, TinycError
from tinyc.base.output_folder import REPORT_FILE
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.verify.report import Accuracy, Report, UnprovedReport
from tinyc.verify.report_file import read_report

Grade = Literal["good", "doubtful", "bad", "unknown"]

_LEAST_DB = 20.0
_LEAST_AGREEMENT = 0.98
_MOST_LOST = 0.05  # of a share, from the float model's to the integers'
_ROUNDING = 1e-9  # of shares that were computed
_FEW = 8  # classes to name
_SHARES = ("AUC", "mAP", "IoU", "F1")  # figures beside top-1 that go from 0 to 1

NO_DATA = "no inputs of yours were given (--inputs FILE with labels `y`, --calibration FILE)"
AS_IN_FILE = "that of the model file, which the library computes as it is (--inputs FILE with labels `y` measures it)"

_TYPICAL = "it was quantized without inputs of yours: give a few dozen typical ones, --calibration FILE"


@dataclass(frozen=True, slots=True)
class AccuracyVerdict:
    """grade: `doubtful` and `bad` have reasons. says: the figures in words, or why there are none."""

    grade: Grade
    says: str
    reasons: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """All but the remedy: `Accuracy: doubtful, SQNR is below 20 dB: ...`."""
        reasons = f"{', '.join((self.grade, *self.reasons))}: " if self.grade != "unknown" else ""
        return f"Accuracy: {reasons}{self.says}."


def judge(report: Report | UnprovedReport) -> AccuracyVerdict:
    """The verdict on the accuracy of what a report is of."""
    if report.accuracy is not None:
        verdict = judge_accuracy(report.accuracy, fast="fast" in report.arguments, model=report.model)
        is_synthetic = report.calibration is not None and not report.calibration.proven
        return replace(verdict, remedy=_TYPICAL) if verdict.remedy and is_synthetic else verdict
    return AccuracyVerdict("unknown", f"not known: {NO_DATA}" if report.calibration is not None else AS_IN_FILE)


def judge_accuracy(accuracy: Accuracy, *, fast: bool, model: str) -> AccuracyVerdict:
    """fast: the model was quantized with `--effort fast`. model: its file's name."""
    bad, doubtful = tuple(_bad(accuracy)), tuple(_doubtful(accuracy))
    grade: Grade = "bad" if bad else "doubtful" if doubtful else "good"
    is_compared = accuracy.sqnr_db is not None or accuracy.agreement is not None
    remedy = remedy_of(fast=fast, model=model) if grade != "good" and is_compared else ""
    return AccuracyVerdict(grade, accuracy.words, (*bad, *doubtful), remedy)


def remedy_of(*, fast: bool, model: str) -> str:
    """What to do where accuracy is too low."""
    first = "leave out --effort fast; " if fast else ""
    return f"{first}`tinyc quantize {model}` names the layer that loses most and what helps; --activations int16"


def _bad(accuracy: Accuracy) -> Iterator[str]:
    shares = [(one.name, one.float_model, one.integer_model) for one in accuracy.qualities if one.name in _SHARES]
    if accuracy.top1_float is not None and accuracy.top1_int is not None:
        shares.insert(0, ("top-1", accuracy.top1_float, accuracy.top1_int))
    for name, before, after in shares:
        if before - after > _MOST_LOST + _ROUNDING:
            yield f"{name} falls by {100 * (before - after):.1f} points"


def _doubtful(accuracy: Accuracy) -> Iterator[str]:
    if accuracy.sqnr_db is not None and accuracy.sqnr_db < _LEAST_DB:
        yield f"SQNR is below {_LEAST_DB:g} dB"
    if accuracy.agreement is not None and accuracy.agreement < _LEAST_AGREEMENT - _ROUNDING:
        yield f"agreement is below {_LEAST_AGREEMENT:.0%}"
    if accuracy.never_chosen:
        classes = ", ".join(map(str, accuracy.never_chosen[:_FEW]))
        more = f" and {len(accuracy.never_chosen) - _FEW} more" if len(accuracy.never_chosen) > _FEW else ""
        are = "class" if len(accuracy.never_chosen) == 1 else "classes"
        verb = "is" if len(accuracy.never_chosen) == 1 else "are"
        yield f"{are} {classes}{more} {verb} never chosen"


# Limits --------------------------------------------------------------------------------------------------------------


def figures_of(accuracy: Accuracy | None) -> Mapping[str, float]:
    """What a limit can be set for, in percent and dB; of an exact model no SQNR is too low."""
    if accuracy is None:
        return {}
    shares = {"top-1": accuracy.top1_int, "agreement": accuracy.agreement}
    shares |= {figure.name: figure.integer_model for figure in accuracy.qualities if figure.name in _SHARES}
    figures = {name: 100 * share for name, share in shares.items() if share is not None}
    if accuracy.exact:
        return figures | {"agreement": 100.0, "SQNR": float("inf")}
    return figures | ({} if accuracy.sqnr_db is None else {"SQNR": accuracy.sqnr_db})


def check_limits(accuracy: Accuracy | None, options: Options, model: str) -> None:
    """Raises TinycError, with exit code 1, where a figure is below what `options` allows, or below the baseline's; with
    exit code 2 where a figure that is asked for is not known. model: its file's name."""
    figures = figures_of(accuracy)
    where = None if options.inputs is None else Loc(options.inputs.name)
    limits = [(name, limit, f"{flag} {limit:g}") for name, flag, limit in _least(options)]
    for name, _, flag in limits:
        if name not in figures:
            raise TinycError(f"{flag}: {name} of this model is not known", where, _UNKNOWN[name])
    if options.baseline is not None:
        limits += _of_baseline(options.baseline, options.max_drop, figures)
    low = [(name, limit, said) for name, limit, said in limits if figures[name] < limit - _ROUNDING]
    if low:
        words = "; ".join(f"{name} is {_said(name, figures[name])}, below {said}" for name, _, said in low)
        remedy = _beyond_float(accuracy, options) or remedy_of(fast=options.effort == "fast", model=model)
        missed = [Missed(name, "dB" if name == "SQNR" else "percent", limit, figures[name]) for name, limit, _ in low]
        raise TinycError(f"the integers are too inaccurate: {words}", where, remedy, exit_code=1, missed=missed)


def _beyond_float(accuracy: Accuracy | None, options: Options) -> str:
    """What to do where the float model, too, has fewer right answers than are asked for: no integers mend that."""
    share = None if accuracy is None else accuracy.top1_float
    if share is None or options.min_top1 is None or 100 * share >= options.min_top1:
        return ""
    return f"the float model itself has {100 * share:.2f}% on these inputs: train it further, or ask for less"


def _least(options: Options) -> Iterator[tuple[str, str, float]]:
    """The figures that have a limit of their own, with the option that sets it."""
    recipe = options.recipe or Recipe()
    asked = (
        ("top-1", "--min-top1", options.min_top1),
        ("agreement", "--min-agreement", options.min_agreement),
        ("SQNR", "--min-sqnr", recipe.min_sqnr),
    )
    yield from ((name, flag, limit) for name, flag, limit in asked if limit is not None)


def _of_baseline(baseline: Path, drop: float, figures: Mapping[str, float]) -> list[tuple[str, float, str]]:
    """The limits that the report of an earlier build sets."""
    before = figures_of(read_report(baseline / REPORT_FILE if baseline.is_dir() else baseline).accuracy)
    both = [name for name in before if name in figures]
    if not both:
        message = "the baseline states no figure of accuracy that this build has, too"
        raise TinycError(message, Loc(str(baseline)), "give a build of the same model, with the same --inputs")
    less = f" less {drop:g} (--max-drop)" if drop else ""
    return [(name, before[name] - drop, f"the baseline's {_said(name, before[name])}{less}") for name in both]


def _said(name: str, figure: float) -> str:
    return f"{figure:.2f}{' dB' if name == 'SQNR' else '%'}"


_COMPARED = "it compares with a float model: give one, with --inputs or --calibration"
_UNKNOWN = {
    "top-1": "give --inputs FILE.npz whose array `y` has the class of each input",
    "agreement": f"{_COMPARED}; of models that choose between classes",
    "SQNR": _COMPARED,
}
