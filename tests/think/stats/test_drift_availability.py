from unslow.facts.bench import Failure, FailureKind, Gaps, Pass
from unslow.think.stats.drift import Outage, Timeline, availability_line


def passed(first_s: float = 0.1, longest_s: float = 0.2) -> Pass:
    gaps = Gaps(count=9, p50_s=0.1, p95_s=0.1, p99_s=0.1, max_s=longest_s)
    return Pass(
        case="minutes", round=1, started_s=0, asked_tokens=10, prompt_tokens=5, generated_tokens=10,
        client_first_token_s=first_s, client_last_token_s=2, client_total_s=2, gaps=gaps,
    )  # fmt: skip


def failed(kind: FailureKind, lasted_s: float = 1.0) -> Failure:
    return Failure(case="minutes", round=1, started_s=0, lasted_s=lasted_s, kind=kind, why="because")


def test_availability_line_counts_requests_and_outages(wording):
    failures = [failed("broke_off"), failed("refused"), failed("broke_off"), failed("stalled", 61.0)]
    line = availability_line([passed(), passed(3.0)], failures, [Outage(5, 9), Outage(20, 30.4)])
    wording(line, tells=("6 requests", "14 s", "61.0 s"))


def test_availability_line_without_failures_is_short(wording):
    wording(availability_line([passed()] * 3, [], []))


def test_every_failure_kind_has_a_word(wording):
    kinds: tuple[FailureKind, ...] = ("refused", "not_answered", "stalled", "broke_off", "error", "gone")
    wording(availability_line([], [failed(kind) for kind in kinds], []))


def test_outage_is_clipped_to_a_period():
    points = Timeline(0, 21, 7, [], [], [Outage(5, 9)]).points()
    assert [point.seen.get("down_s") for point in points] == [2, 2, None]
