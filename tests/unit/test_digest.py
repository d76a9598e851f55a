# SPDX-License-Identifier: Apache-2.0
"""scripts/digest.py, the gate of changes that change no library: what passes it, and what does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import digest

KWS = next(each for each in digest.combinations() if each.name == "kws cortex-m33 default")
FILES = {"net.c": '#include "a.h"\n/* sum */\nint y = A + 1;\n', "a.h": "#define A 2\n"}
MEASURED = {"text": "a", "seen": "b", "instructions": 100, "arena": 8}


@pytest.mark.skipif(not KWS.model.is_file(), reason="the combinations are of models in TINYC_MODELS")
def test_combinations_have_names_of_their_own() -> None:
    names = [each.name for each in digest.combinations()]
    assert len(names) == len(set(names)) > 100


@pytest.mark.parametrize(
    ("files", "same"),
    [
        (
            {
                "net.c": '#include "b.h"\nint y = A\n  +1; // product',
                "b.h": "#ifndef __arm__\n#else\n#define A 2\n#endif\n",
            },
            True,
        ),
        ({"net.c": "int y = 2 + 1;", "unused.h": "#error"}, True),
        ({"net.c": "int y = 2 + 2;"}, False),
        ({"net.c": 'int y = 2 + 1; __asm(" nop");'}, False),
    ],
)
def test_the_compiler_sees_the_same_where_only_layout_comments_and_twins_differ(
    files: dict[str, str], same: bool
) -> None:
    assert (digest.seen(files, KWS) == digest.seen(FILES, KWS)) == same


def test_blanks_within_strings_and_between_signs_are_seen() -> None:
    assert digest.seen({"net.c": '" a"'}, KWS) != digest.seen({"net.c": '"a"'}, KWS)
    assert digest.seen({"net.c": "- -1"}, KWS) != digest.seen({"net.c": "--1"}, KWS)


def test_of_digests_in_names_only_the_order_is_seen() -> None:
    call = "void tc_a_{0}(void); void tc_b_{1}(void); void f(void) {{ tc_a_{2}(); }}".format
    same = {"net.c": call("0abcde", "123456", "0abcde")}
    assert digest.seen(same, KWS) == digest.seen({"net.c": call("fedcba", "654321", "fedcba")}, KWS)
    assert digest.seen(same, KWS) != digest.seen({"net.c": call("fedcba", "654321", "654321")}, KWS)


@pytest.mark.parametrize(
    ("after", "failing"),
    [
        (MEASURED, set()),
        (MEASURED | {"text": "c"}, {"text"}),
        (MEASURED | {"seen": "c", "instructions": 99}, {"seen"}),
        (MEASURED | {"arena": 9}, {"costs"}),
        ({"refused": "too large"}, set(digest.GATES)),
    ],
)
def test_each_gate_fails_for_its_own_reason(after: dict[str, str | int], failing: set[str]) -> None:
    assert {gate for gate in digest.GATES if digest.compare({"net": MEASURED}, {"net": after}, gate)} == failing


def test_a_combination_that_is_gone_fails() -> None:
    assert digest.compare({"net": MEASURED}, {}, "costs") == 1
