"""What a layout expression may contain, and its value where a model lacks a number."""

import pytest

from unslow.think.blueprints import Numbers, expression, names_in


def value(text, **stated):
    return expression(text)(Numbers(stated, {}))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("2 * inner + 2 * groups * state + 1", 2 * 8 + 2 * 2 * 4 + 1),
        ("inner // 3", 2),
        ("inner - 3", 5),
        ("(inner + 1) % 4 == 1", True),
        ("inner < 8 or state >= 4", True),
        ("inner and not state", False),
        ("inner if state > 3 else groups", 8),
        ("groups if nothing else state", 4),
    ],
)
def test_arithmetic_and_conditions_are_evaluated(text, result):
    assert value(text, inner=8, groups=2, state=4) == result


@pytest.mark.parametrize("text", ["nothing", "nothing + 1", "2 * nothing", "inner // nothing"])
def test_expression_with_a_missing_number_is_none(text):
    assert value(text, inner=8) is None


@pytest.mark.parametrize("text", ["nothing < 1", "nothing == 0", "nothing and inner", "not inner"])
def test_condition_on_a_missing_number_is_false(text):
    assert not value(text, inner=8)


@pytest.mark.parametrize(
    "text",
    ["open('x')", "inner.real", "[1]", "1.5", "'text'", "inner ** 2", "lambda: 1", "-inner", "1 < 2 < 3", "inner / 2"],
)
def test_other_python_is_refused(text):
    with pytest.raises(ValueError, match="cannot contain"):
        value(text, inner=8)


def test_names_in_an_expression_are_listed():
    assert names_in("a + b * (c if layer else 2)") == {"a", "b", "c", "layer"}
