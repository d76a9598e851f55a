# SPDX-License-Identifier: Apache-2.0
"""The list of seeded faults does not rot, and the runner tells a fault that is caught from one that is not."""

from __future__ import annotations

import pytest

from tests.seeded.__main__ import main
from tests.seeded.fault import FOLDER, Fault, all_faults, is_there
from tests.seeded.trial import Verdict, try_fault

NAMES = "tests/unit/test_names.py"
NOTHING = Fault(
    name="nothing",
    about="A docstring has another word.",
    file="tinyc/base/names.py",
    text='"""C identifiers, each handed out once."""',
    instead='"""C identifiers, each handed out a single time."""',
    tests=(NAMES,),
)


def test_every_fault_can_be_seeded_and_names_tests_that_are_there() -> None:
    for fault in all_faults().values():
        assert fault.times() == 1, f"{fault.name}: {fault.file} has the text {fault.times()} times, not once"
        assert fault.text != fault.instead, f"{fault.name} changes nothing"
        assert fault.tests, f"{fault.name} has no test"
        for test in fault.tests:
            assert is_there(test), f"{fault.name}: there is no {test}"


def test_every_fault_says_what_is_wrong_in_a_sentence_and_the_list_is_long() -> None:
    faults = all_faults()
    assert len(faults) >= 40  # of all parts of the house
    assert len({fault.file for fault in faults.values()}) >= 40
    for fault in faults.values():
        assert fault.about[0].isupper(), fault.name
        assert fault.about.endswith("."), fault.name


@pytest.mark.parametrize(
    ("text", "instead", "verdict", "said"),
    [
        (NOTHING.text, NOTHING.instead, Verdict.MISSED, f"by {NAMES}"),
        ("while name in self._taken:", "if name in self._taken:", Verdict.CAUGHT, f"{NAMES}::test_"),
        ("name = base", "name = base", Verdict.STALE, "renew it in tests/seeded/faults"),
        ("class Names:", "class Names(", Verdict.BROKEN, "SyntaxError"),
    ],
    ids=lambda value: value.value if isinstance(value, Verdict) else "",
)
def test_verdicts(text: str, instead: str, verdict: Verdict, said: str) -> None:
    fault = Fault("one", NOTHING.about, NOTHING.file, text, instead, NOTHING.tests)
    trial = try_fault(fault)
    assert (trial.verdict, said in trial.said) == (verdict, True), trial.said


def test_names_are_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "conv2d-*"]) == 0
    assert "runtime_c/layers/conv2d.h.in" in capsys.readouterr().out
    assert main(["--list", "no-such-*"]) == 2
    assert "no-such-*" in capsys.readouterr().err


def test_the_folder_of_the_faults_has_nothing_else() -> None:
    assert {file.suffix for file in FOLDER.iterdir()} == {".toml"}
