"""Before and after, from `unslow verify` or two benchmarks."""

from pathlib import Path

import pytest

from unslow.facts.bench import FIRST, Bench, Comparison, Difference, parse_bench
from unslow.page.speeds import change_of_benches, change_of_verify
from unslow.think.stats.changes import changes_between
from unslow.think.stats.comparison import compare_benches
from unslow.think.stats.verification_report import (
    AnswersShown,
    ChangeShown,
    FigureShown,
    IntervalShown,
    SideShown,
    VerifyReport,
    WorkShown,
)

BENCHES = Path(__file__).parents[1] / "benches"


def bench(name: str) -> Bench:
    return parse_bench((BENCHES / name).read_bytes(), name)


def verified(*, wanted: bool = True) -> VerifyReport:
    side = SideShown(what="http://127.0.0.1:8080", runtime="llama.cpp", runtime_version="b1", model="m", settings={})
    figure = FigureShown(
        metric="request_s",
        before=IntervalShown(low=1.9, mid=2.0, high=2.1),
        after=IntervalShown(low=0.9, mid=1.0, high=1.1),
        speedup=IntervalShown(low=1.8, mid=2.0, high=2.2),
        rounds=8,
        verdict="faster",
        because="more than noise",
    )
    return VerifyReport(
        unslow_version="1",
        way="in_turns",
        work=WorkShown(prompt_tokens=128, kept_tokens=0, answer_tokens=128),
        verdict="faster",
        because="it is twice as fast",
        figures=(figure,),
        answers=AnswersShown(verdict="kept", because="all answers begin alike", wanted=wanted),
        before=side,
        after=side,
        changes=(ChangeShown(setting="runtime.compute.ubatch", before="16", after="512"),),
    )


def test_verify_report_becomes_a_change_view():
    view = change_of_verify(verified())
    assert (view.verdict, view.source, view.answers) == ("faster", "unslow verify", verified().answers.because)
    assert view.changes == ("runtime.compute.ubatch: 16 → 512",)
    (row,) = view.rows
    assert (row.metric, row.before.mid, row.after.mid, row.speedup.low) == ("request_s", 2.0, 1.0, 1.8)
    assert change_of_verify(verified(wanted=False)).answers == ""


def test_two_benchmarks_become_a_change_view(wording):
    before, after = bench("h200_standard.json"), bench("h200_after.json")
    comparison = compare_benches(before, after, ())
    view = change_of_benches(before, after, comparison, changes_between(before, after))
    assert view.verdict == comparison.verdict
    wording(view.source, tells=("2026-11-15", "15:45", "15:46"))
    decode = next(row for row in view.rows if row.metric == "decode_tokens_per_s")
    assert decode.before.low <= decode.before.mid <= decode.before.high
    assert decode.speedup.mid == pytest.approx(decode.after.mid / decode.before.mid, rel=0.02)


def test_shorter_time_is_a_speedup_above_one(wording):
    one = Difference(
        metric=FIRST, before=2.0, after=1.0, ratio=0.5, low=0.4, high=0.8, p_value=0.01, verdict="faster", smallest=0.1,
        because="",
    )  # fmt: skip
    found = Comparison(before="a", after="b", verdict="faster", because="", differences=(one,))
    bare = Bench(id="x", unslow_version="1", taken_at="", seconds=1.0, protocol="quick", runtime="r", model="m")
    view = change_of_benches(bare, bare, found, ())
    (row,) = view.rows
    assert (row.speedup.low, row.speedup.mid, row.speedup.high) == (1.25, 2.0, 2.5)
    assert (row.before.low, row.before.high) == (2.0, 2.0)
    wording(view.source)
