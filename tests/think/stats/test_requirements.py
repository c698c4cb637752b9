import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unslow.facts.bench import DECODE, FIRST, GAPS, PREFILL, Bench, Spread
from unslow.facts.errors import UserError
from unslow.think.stats.requirements import METRICS, Clause, judge_requirement, parse_requirement

WORDS = [*METRICS, ">=", "<=", ">", "<", "≥", "=", "0.7", "40", "%", "*", "of", "expected", "last", "and", "ms", "s"]


def bench(decode=41.2, **others):
    figures = {
        DECODE: Spread(median=decode, low=decode - 0.4, high=decode + 0.6, count=3),
        GAPS[1]: Spread(median=0.021, low=0.020, high=0.030, count=3),
        FIRST: Spread(median=0.3, low=0.3, high=0.3, count=1),
    }
    return Bench(
        id="b",
        unslow_version="0",
        taken_at="",
        seconds=1.0,
        protocol="quick",
        runtime="r",
        model="m",
        figures=figures,
        **others,
    )


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("decode >= 0.7 * expected", Clause(DECODE, ">=", 0.7, "expected")),
        ("DECODE ≥ 70% of expected", Clause(DECODE, ">=", 0.7, "expected")),
        ("decode>=expected*.5", Clause(DECODE, ">=", 0.5, "expected")),
        ("decode > expected", Clause(DECODE, ">", 1.0, "expected")),
        ("decode >= 0.95 last", Clause(DECODE, ">=", 0.95, "last")),
        ("ttft <= 110% last", Clause(FIRST, "<=", 1.1, "last")),
        ("prefill > 500", Clause(PREFILL, ">", 500.0)),
        ("prefill > 500 tok/s", Clause(PREFILL, ">", 500.0)),
        ("ttft < 2 s", Clause(FIRST, "<", 2.0)),
        ("ttft < 2", Clause(FIRST, "<", 2.0)),
        ("p95 <= 50 ms", Clause(GAPS[1], "<=", 0.05)),
        ("gap_p95_s <= 50ms", Clause(GAPS[1], "<=", 0.05)),
    ],
)
def test_requirement_syntax_is_parsed(text, clause):
    condition = parse_requirement(f"  {text} ")
    assert condition.asked == text
    assert condition.clauses == (clause,)


def test_clauses_joined_by_and_are_parsed():
    condition = parse_requirement("decode >= 40 and ttft < 1 && p95 <= 50 ms")
    assert [clause.metric for clause in condition.clauses] == [DECODE, FIRST, GAPS[1]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("fast", "is not a comparison"),
        ("decode = 40", "is not a comparison"),
        ("decode >= 40 and", "has the unit .and."),
        ("speed > 3", "does not name a figure: choose from decode, prefill"),
        ("decode >= -3", "neither a number nor a share"),
        ("decode >= nan", "neither a number nor a share"),
        ("decode >= 0.7 * hoped", "neither a number nor a share"),
        ("decode >= 40 ms", "decode is in tok/s"),
        ("ttft < 3 tok/s", "ttft is in s or ms"),
        ("p95 < 3", "a time without a unit"),
        ("decode > 999999999999", "out of range"),
        ("decode > 1" + " " * 300, "longer than"),
    ],
)
def test_invalid_requirement_is_refused_with_the_reason(text, why):
    with pytest.raises(UserError, match=why) as raised:
        parse_requirement(text)
    assert "decode >= 0.7 * expected" in raised.value.hint


@pytest.mark.no_cover  # any text, through the same lines
@settings(max_examples=300)
@given(st.one_of(st.text(max_size=220), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
@example("decode >= 40 and decode >= 40 and")
@example("decode > ٣")
def test_any_text_is_a_requirement_or_a_user_error(text):
    try:
        condition = parse_requirement(text)
    except UserError:
        return
    assert judge_requirement(condition, bench()).because
    assert all(clause.factor >= 0 for clause in condition.clauses)


def test_reason_has_the_figure_and_the_arithmetic(wording):
    found = judge_requirement(parse_requirement("decode >= 0.7 * expected"), bench(expected={DECODE: 60.0}))
    assert found.holds is False
    wording(found.because, tells=("41.2 tok/s", "40.8", "41.8"))


def test_bound_within_the_interval_is_noted(wording):
    found = judge_requirement(parse_requirement("decode > 41"), bench())
    assert found.holds is True
    wording(found.because)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("decode >= 0.7 * expected", "no expected value is known"),
        ("decode >= 0.95 * last", "there is no earlier benchmark"),
        ("prefill > 1", "prefill was not measured"),
        ("decode > 1 and prefill > 1", "prefill was not measured"),
    ],
)
def test_unknown_figure_never_passes(text, why):
    found = judge_requirement(parse_requirement(text), bench())
    assert found.holds is None
    assert why in found.because


def test_one_failing_clause_decides():
    assert judge_requirement(parse_requirement("prefill > 1 and decode > 50"), bench()).holds is False


def test_last_benchmark_is_a_bound():
    condition = parse_requirement("decode >= 0.95 * last")
    assert judge_requirement(condition, bench(41.2), last=bench(42.0)).holds is True
    assert judge_requirement(condition, bench(41.2), last=bench(44.0)).holds is False


def test_times_are_shown_in_their_units(wording):
    wording(judge_requirement(parse_requirement("p95 <= 20 ms"), bench()).because, tells=("21.0 ms", "20.0", "30.0"))
    wording(judge_requirement(parse_requirement("ttft < 500 ms"), bench()).because, tells=("0.3 s", "0.5 s"))
