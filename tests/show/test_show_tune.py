"""The output of `unslow tune` in the terminal and as JSON."""

import json

import msgspec
import pytest

from unslow.facts.errors import UserError
from unslow.facts.verification import Work
from unslow.show.tune import render_tune
from unslow.think.plan.report import SpeedShown
from unslow.think.speed.report import RateShown
from unslow.think.stats.tuning import TrialShown, TuneReport
from unslow.think.stats.verification_report import IntervalShown

RATE = RateShown(low=1.0, mid=2.0, high=3.0)


def trial(name: str, request_s: float | None, over: float | None = None, **others: object) -> TrialShown:
    spread = IntervalShown(low=request_s * 0.9, mid=request_s, high=request_s * 1.1) if request_s else None
    gain = IntervalShown(low=over * 0.9, mid=over, high=over * 1.1) if over else None
    return TrialShown(
        name=name, kind="neighbour", settings=(), command=f"llama-server -t {name}", rounds=3 if request_s else 0,
        seconds=9.0, request_s=spread, over_default=gain, decode_tokens_per_s=20.0 if request_s else None, **others,
    )  # fmt: skip


REPORT = TuneReport(
    unslow_version="0", model="a \x1b[31mmodel", work=Work(), context=2048, verdict="faster", because="it is",
    winner=1, plan=2, over_default=IntervalShown(low=1.2, mid=1.5, high=1.8),
    over_plan=IntervalShown(low=0.99, mid=1.1, high=1.2),
    command="llama-server -t 8",
    trials=(
        trial("llama.cpp's own choice", 3.0),
        trial("eight threads", 2.0, 1.5, predicted=SpeedShown(
            decode_tokens_per_s=RATE, prefill_tokens_per_s=RATE, request_s=RATE)),
        trial("no memory", None, dropped="out of memory", dropped_in_round=1),
        trial("one round", 5.0, 0.6, dropped="takes 66.7% longer than the best in 1 round"),
    ),
    budget_s=60, spent_s=55, rounds=3, ended="the time is over", notes=("other processes ran",),
)  # fmt: skip


def test_winner_its_gains_and_its_command_are_shown(wording):
    text = render_tune(REPORT, "terminal", width=120, color=False)
    assert text.startswith(f" FASTER   {REPORT.because}")
    wording(text, about="1.500", tells=("95 %", "1.200", "1.800"))
    wording(text, about="1.100")
    wording(text, about="2 s", tells=("1 s", "3 s"))
    assert "\n  llama-server -t 8\n" in text
    assert "\x1b" not in text
    same = render_tune(msgspec.structs.replace(REPORT, plan=0), "terminal", width=120, color=False)
    assert "×1.100" not in same  # a plan that is the default is told once


def test_round_count_is_singular_for_one_round(wording):
    wording(render_tune(REPORT, "terminal", width=120, color=False), about="55 s", tells="60")
    once = render_tune(msgspec.structs.replace(REPORT, rounds=1), "terminal", width=120, color=False)
    wording(once, about="55 s", tells="60")


def test_trials_are_sorted_by_speed_and_failed_ones_give_the_reason():
    text = render_tune(REPORT, "terminal", width=120, color=False)
    places = [text.index(words) for words in ("eight threads  ", "llama.cpp's own choice  ", "one round  ")]
    assert places == sorted(places)
    assert "no memory: out of memory" in text
    assert "! other processes ran" in text


def test_json_holds_every_trial():
    data = json.loads(render_tune(REPORT, "json", width=80, color=False))
    assert (data["schema"], data["winner"], len(data["trials"])) == ("unslow.tune/1", 1, 4)


def test_failed_tuning_shows_no_settings():
    failed = TuneReport(unslow_version="0", model="m", work=Work(), context=1, verdict="failed", because="nothing ran",
                        budget_s=1, spent_s=1, rounds=0)  # fmt: skip
    text = render_tune(failed, "terminal", width=80, color=False)
    assert text.startswith(" FAILED   nothing ran")
    assert "SETTINGS" not in text


def test_unsupported_format_is_refused():
    with pytest.raises(UserError, match="markdown"):
        render_tune.check_format("markdown")
