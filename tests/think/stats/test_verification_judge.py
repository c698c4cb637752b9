"""The whole report of two sides."""

import msgspec
import pytest

from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.facts.verification import Sample, Side, TokenScores, Work, parse_side
from unslow.think.plan.report import GoalShown, OptionShown, PlanReport, QualityShown, SpeedShown
from unslow.think.speed.report import RateShown
from unslow.think.stats.gain import crowding
from unslow.think.stats.verification import (
    VerifyContext,
    changes_of,
    chosen_option,
    judge_verification,
    verify_status,
    work_of,
)

TOLD = VerifyContext("1.0")
ANSWERS = tuple(f"Answer {n} is fine." for n in range(12))
WOBBLE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 0.998)


def side(rate: float, **others: object) -> Side:
    samples = tuple(
        Sample(round=n, decode_tokens_per_s=rate * w, prefill_tokens_per_s=900 * w, request_s=128 / rate / w)
        for n, w in enumerate(WOBBLE, 1)
    )
    known = {"what": "http://127.0.0.1:1", "samples": samples, "answers": ANSWERS, "again": ANSWERS, **others}
    return msgspec.convert(known, Side, from_attributes=True)


def option(speedup: float | None, rate: float = 20.0) -> OptionShown:
    shown = RateShown(low=rate * 0.9, mid=rate, high=rate * 1.1)
    speed = SpeedShown(decode_tokens_per_s=shown, prefill_tokens_per_s=shown, request_s=shown)
    quality = QualityShown(perplexity_increase=0.0)
    return OptionShown(
        name="more threads", quant="Q4_K_M", context=4096, changes=(), speed=speed, quality=quality, speedup=speedup
    )


def test_faster_side_gives_faster_with_its_speedup():
    report = judge_verification(side(10.0), side(15.0), TOLD)
    assert report.verdict == "faster"
    assert [figure.verdict for figure in report.figures] == ["faster", "faster", "same"]
    assert report.figures[0].metric == "request_s"
    assert report.figures[0].speedup.low < 1.5 < report.figures[0].speedup.high
    assert report.figures[0].before.mid == pytest.approx(12.8, rel=0.01)
    assert verify_status(report) == 0


def test_slower_exits_1_and_same_exits_0():
    assert verify_status(judge_verification(side(15.0), side(10.0), TOLD)) == 1
    same = judge_verification(side(15.0), side(15.0), TOLD)
    assert (same.verdict, verify_status(same)) == ("same", 0)


def test_speedup_with_broken_answers_is_answers_changed():
    report = judge_verification(side(10.0), side(30.0, answers=("!" * 60,) * 12), TOLD)
    assert report.verdict == "answers_changed"
    assert verify_status(report) == 1
    assert report.figures[0].verdict == "faster"


def test_nothing_answered_gives_cannot_tell(wording):
    report = judge_verification(
        side(10.0), Side(what="gone", failures=("nothing listens there",)), TOLD._replace(interrupted=True)
    )
    assert (report.verdict, verify_status(report)) == ("cannot_tell", 3)
    wording(report.because, tells="nothing listens there")
    wording(report.notes)


def test_differing_settings_are_listed(wording):
    report = judge_verification(
        side(10.0, settings={"runtime.threads": "1", "runtime.batch": "512"}),
        side(15.0, settings={"runtime.threads": "2", "runtime.batch": "512", "runtime.fit": "on"}, not_scored="no way"),
        TOLD,
    )
    told = {change.setting: (change.before, change.after) for change in report.changes}
    assert told == {"runtime.threads": ("1", "2"), "runtime.fit": ("", "on")}
    wording(report.notes)


def test_side_that_never_started_has_no_differing_settings():
    known = side(10.0, settings={"runtime.threads": "1"}, runtime="llama.cpp", model="a model")
    assert changes_of(known, Side(what="never started")) == ()
    assert changes_of(known, side(10.0, settings={"runtime.threads": "1"}, runtime="llama.cpp"))[0].setting == "model"


@pytest.mark.parametrize(
    ("promised", "words"), [(1.5, "as predicted"), (2.0, "less than predicted"), (1.2, "more than predicted")]
)
def test_measured_gain_is_compared_with_the_plan(promised, words):
    predicted = judge_verification(side(10.0), side(15.0), TOLD._replace(option=option(promised))).predicted
    assert predicted is not None
    assert predicted.because.endswith(words)
    assert predicted.measured_over_predicted == pytest.approx(1.5 / promised, rel=0.01)
    assert predicted.decode_tokens_per_s is not None


def test_plan_without_a_predicted_gain_is_accepted(wording):
    predicted = judge_verification(side(10.0), side(15.0), TOLD._replace(option=option(None))).predicted
    assert predicted is not None
    assert predicted.measured_over_predicted is None
    unmeasured = judge_verification(side(10.0), Side(what="gone"), TOLD._replace(option=option(2.0))).predicted
    assert unmeasured is not None
    wording(unmeasured.because)


def test_option_and_work_come_from_the_plan():
    goal = GoalShown(aim="speed", context=4096, prompt_tokens=900, kept_tokens=100, answer_tokens=50, users=1)
    plan = PlanReport(
        unslow_version="1", model="m", runtime="llama.cpp", machine="x", goal=goal, verdict="better",
        recommended=1, options=(option(1.1), option(1.3)),
    )  # fmt: skip
    assert work_of(goal) == Work(prompt_tokens=900, kept_tokens=100, answer_tokens=50)
    assert chosen_option(plan, None) is plan.options[1]
    assert chosen_option(plan, 0) is plan.options[0]
    assert chosen_option(plan, 1) is plan.options[1]
    assert chosen_option(plan, 2) is None


def test_small_gain_measured_at_different_times_gives_cannot_tell(wording):
    told = TOLD._replace(way="apart")
    small = judge_verification(side(10.0, host_bytes_per_s=(1e10,)), side(10.2, host_bytes_per_s=(1e10,)), told)
    large = judge_verification(side(10.0, host_bytes_per_s=(1e10,)), side(20.0, host_bytes_per_s=(1e10,)), told)
    assert small.verdict == "cannot_tell"
    assert large.verdict == "faster"
    wording(large.notes[-1])


def test_changed_host_bandwidth_widens_the_interval():
    told = TOLD._replace(way="apart")
    calm = judge_verification(side(10.0, host_bytes_per_s=(1e10,)), side(11.0, host_bytes_per_s=(1e10,)), told)
    moved = judge_verification(
        side(10.0, host_bytes_per_s=(1e10,), conditions={"gpu_clock_hz": 1e9}),
        side(11.0, host_bytes_per_s=(1.3e10,), conditions={"gpu_clock_hz": 1.1e9}),
        told,
    )
    width = [report.figures[0].speedup.high / report.figures[0].speedup.low for report in (calm, moved)]
    assert width[1] > 1.3 * width[0]
    assert "GPU clock +10.0%" in moved.notes[-1]
    unknown = judge_verification(side(10.0), side(11.0), told)
    assert "not measured" in unknown.notes[-1]


def test_other_busy_processes_widen_the_interval(wording):
    told = TOLD._replace(way="apart")
    crowd = {"cpu_pressure": 0.6, "others_cpus": 1.0, "own_cpus": 1.0}
    assert judge_verification(side(14.0), side(10.0), told).verdict == "slower"
    report = judge_verification(side(14.0, conditions=crowd), side(10.0), told)
    assert report.verdict == "cannot_tell"
    wording(report.notes, tells="50%")


def test_crowding_needs_cpu_pressure_from_other_processes():
    def seen(waited: float, others: float, own: float) -> float:
        return crowding(side(1.0, conditions={"cpu_pressure": waited, "others_cpus": others, "own_cpus": own}))

    assert seen(0.9, 0.0, 4.0) == 0.0  # own threads wait for each other
    assert seen(0.0, 8.0, 1.0) == 0.0  # others have processors to themselves
    assert seen(1.0, 99.0, 0.0) == 0.95
    assert seen(0.2, 3.0, 1.0) == 0.2
    assert crowding(side(1.0, conditions={"others_cpus": 1.0})) == 0.0


def test_one_round_at_different_times_gives_cannot_tell():
    lone = side(10.0, samples=(Sample(round=1, request_s=1.0),))
    assert judge_verification(lone, side(10.0), TOLD._replace(way="apart")).verdict == "cannot_tell"


def test_side_round_trips_as_json():
    scored = TokenScores(tokens=(1, 2, 3), at=(1, 2), log_probabilities=(-1.0, -2.0), likeliest=(2, 9))
    kept = side(10.0, scored=scored, settings={"a": "b"})
    assert parse_side(dump_stored(kept), "x") == kept


UNPAIRED = {"tokens": [1], "at": [1], "log_probabilities": [], "likeliest": [1]}


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"schema": "unslow.verify_side/1"}',
        b'{"schema": "unslow.verify_side/1", "what": "x", "samples": [{"round": -1}]}',
        msgspec.json.encode({"schema": "unslow.verify_side/1", "what": "x", "scored": UNPAIRED}),
        b" " * (5 * 1024**2),
    ],
)
def test_invalid_side_file_is_refused(data):
    with pytest.raises(UserError) as caught:
        parse_side(data, "before.json")
    assert "before.json" in caught.value.message
    assert "--save" in caught.value.hint


def test_noisy_gain_neither_confirms_nor_refutes_the_plan(wording):
    lone = [side(rate, samples=(Sample(round=1, request_s=1 / rate),)) for rate in (1.0, 2.0)]
    predicted = judge_verification(*lone, TOLD._replace(option=option(2.0))).predicted
    assert predicted is not None
    wording(predicted.because, tells="2.00")
