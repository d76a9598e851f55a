# SPDX-License-Identifier: Apache-2.0
import pytest

from tinyc.base.names import Names, identifier, some_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kws", "kws"),
        ("My-Model.v2", "my_model_v2"),
        ("3x3", "m_3x3"),
        ("", "m"),
        ("int", "int_model"),
        ("class", "class_model"),
        ("réseau", "r_seau"),
        ("a//b", "a_b"),
        ("stdint", "stdint_model"),
        ("TC", "m_tc"),
        ("tc_math", "m_tc_math"),
    ],
)
def test_identifier(text: str, expected: str) -> None:
    assert identifier(text) == expected


def test_some_of_many_names_and_a_count() -> None:
    assert some_of("abc") == "a, b, c"
    assert some_of([f"n{k}" for k in range(40)]) == "n0, n1, n2, n3, n4 and 35 more"
    assert some_of("aabab") == "a, b"


def test_names_that_differ_in_punctuation_stay_apart() -> None:
    names = Names()
    assert [names.unique("a.b"), names.unique("a/b"), names.unique("a_b_2"), names.unique("a-b")] == [
        "a_b",
        "a_b_2",
        "a_b_2_2",
        "a_b_3",
    ]
