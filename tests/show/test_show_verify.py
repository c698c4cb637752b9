"""A verified change in the terminal and as Markdown."""

import shlex

import msgspec
import pytest

from unslow.facts.errors import UserError
from unslow.facts.verification import Sample, Side, Work
from unslow.show.verify import render_side, render_verify
from unslow.think.plan.report import OptionShown, QualityShown, SpeedShown
from unslow.think.speed.report import RateShown
from unslow.think.stats.verification import VerifyContext, judge_verification
from unslow.think.stats.verification_report import IntervalShown, PerplexityShown, PublishedShown

ANSWERS = tuple(f"Answer {n} is fine." for n in range(12))
RATE = RateShown(low=18.0, mid=20.0, high=22.0)
OPTION = OptionShown(
    name="more threads", quant="Q4_K_M", context=4096, changes=(), quality=QualityShown(perplexity_increase=0.0),
    speed=SpeedShown(decode_tokens_per_s=RATE, prefill_tokens_per_s=RATE, request_s=RATE), speedup=2.0,
)  # fmt: skip


def side(rate: float, threads: str, answers: tuple[str, ...] = ANSWERS, rounds: int = 6) -> Side:
    samples = tuple(Sample(round=n, decode_tokens_per_s=rate, request_s=64 / rate) for n in range(rounds))
    return Side(
        what=f"llama-server -t {threads}\x1b[31m", samples=samples, answers=answers, again=answers,
        settings={"runtime.threads": threads}, work=Work(kept_tokens=500),
    )  # fmt: skip


def shown(before: Side, after: Side, form: str = "terminal", **told: object) -> str:
    return render_verify(judge_verification(before, after, VerifyContext("1.0", **told)), form, width=110, color=False)


def test_speedup_is_shown_with_the_predicted_gain_and_the_change(wording):
    text = shown(side(10.0, "1"), side(20.0, "2"), option=OPTION)
    assert text.startswith(" FASTER ")
    wording(text, about="128", tells="500")
    assert "10.0 tok/s" in text
    assert "×2.000" in text
    wording(text, about="20.0 tok/s", tells="2.00")
    assert "runtime.threads: 1 → 2" in text
    assert "\x1b" not in text


def test_changed_answers_come_before_the_speedup(wording):
    broken = side(30.0, "2", ("!" * 60,) * 12)
    text = shown(side(10.0, "1"), broken)
    assert text.startswith(" ANSWERS CHANGED ")
    assert text.count("12 of 12") == 1
    wording(text, about="12 of 12")
    wording(shown(side(10.0, "1"), broken, "markdown").splitlines()[0])


def test_one_round_has_no_interval_and_no_verdict():
    text = shown(side(10.0, "1", rounds=1), side(20.0, "2", rounds=1))
    assert text.startswith(" CANNOT TELL ")
    assert text.splitlines()[4].split()[-5:] == ["×2.000", "-", "1", "cannot", "tell"]


def test_markdown_shows_figures_as_a_table():
    text = shown(side(10.0, "1"), side(20.0, "2"), "markdown", option=OPTION)
    assert "| Decode | 10.0 tok/s | 20.0 tok/s | ×2.000 | 2.000 to 2.000 | 6 | faster |" in text
    assert "- runtime.threads: 1 → 2" in text


def test_saved_side_shows_the_next_command():
    kept = side(10.0, "1")
    assert "unslow verify --against before.json" in render_side(kept, "terminal", "before.json", width=100, color=False)
    assert '"schema": "unslow.verify_side/1"' in render_side(kept, "json", "before.json", width=100, color=False)


def test_unknown_format_is_refused():
    with pytest.raises(UserError, match="'pdf'"):
        render_verify.check_format("pdf")


def figures(width: int) -> str:
    report = judge_verification(side(10_000.0, "1"), side(23_456.0, "2"), VerifyContext("1.0"))
    return render_verify(report, "terminal", width=width, color=False)


def test_nothing_is_cut_at_80_columns():
    wide, usual, narrow = figures(120), figures(80), figures(60)
    assert "ROUNDS" in wide
    for text in (wide, usual, narrow):
        assert "…" not in text
        assert all(word in text for word in ("10,000 tok/s", "23,456 tok/s", "×2.346", "faster", "Total request"))
    assert "2.346 to 2.346" in usual
    assert max(map(len, usual.splitlines())) <= 80


def test_figures_fold_at_40_columns():
    assert "…" not in figures(40)


def test_next_command_is_one_shell_line_even_in_a_narrow_terminal():
    kept = side(10.0, "1")
    text = render_side(kept, "terminal", "my before.json", width=40, color=False)
    assert shlex.split(text.splitlines()[-1])[:4] == ["unslow", "verify", "--against", "my before.json"]
    assert len(shlex.split(text.splitlines()[-1])) == 5


def test_failed_requests_are_counted(wording):
    broken = msgspec.structs.replace(side(30.0, "2"), failures=("reset",) * 9)
    wording(shown(side(10.0, "1"), broken), about="9 of 15")
    wording(shown(side(10.0, "1"), broken, "markdown").splitlines()[0])


def test_published_figure_is_shown_beside_the_measured_perplexity(wording):
    report = judge_verification(side(10.0, "1"), side(10.0, "1"), VerifyContext("1.0"))
    seen = PerplexityShown(
        places=200, before=12.2, after=12.3, allowed=0.05, same_choice=0.96,
        increase=IntervalShown(low=-0.001, mid=0.008, high=0.017),
    )  # fmt: skip
    told = PublishedShown(increase=0.0007, agrees=True, because="agrees with the published +0.07% (a cache)")
    answers = msgspec.structs.replace(report.answers, perplexity=seen, published=told)
    for form in ("terminal", "markdown"):
        text = render_verify(msgspec.structs.replace(report, answers=answers), form, width=110, color=False)
        wording(text, about="12.20", tells="12.30 after")
        wording(text, about="+0.07%", tells="+0.80%")
