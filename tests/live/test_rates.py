"""Current speeds from repeated looks at a server."""

import pytest

from unslow.live.rates import Minute, rates_of
from unslow.look.bench.trials.observations import Look
from unslow.look.bench.trials.server_work import Decoding, TaskPrompt, Work

S = "http://127.0.0.1:8080/slots"


def slots(second: float, prompts: tuple[TaskPrompt, ...] = (), **tokens: tuple[int, int]) -> Look:
    decoding = {int(name[1:]): Decoding(*counts) for name, counts in tokens.items()}
    return Look(second, Work(S, len(decoding), 0.0, decoding=decoding, prompts=prompts))


def test_speeds_per_request_and_in_total():
    rates = rates_of([slots(0, s0=(7, 10), s1=(8, 100)), slots(2, s0=(7, 30), s1=(8, 160))])
    assert [request.tokens_per_s for request in rates.requests.each] == [10, 30]
    assert (rates.tokens_per_s, rates.each_tokens_per_s, rates.phase) == (40, 20, "decode")


def test_old_looks_do_not_count():
    rates = rates_of([slots(0, s0=(7, 1)), slots(10, s0=(7, 1000)), slots(11, s0=(7, 1005))])
    assert rates.tokens_per_s == 5


def test_late_look_still_gives_a_speed():
    assert rates_of([slots(0, s0=(7, 1)), slots(8, s0=(7, 17))]).tokens_per_s == 2
    assert rates_of([slots(0, s0=(7, 1)), slots(80, s0=(7, 17))]).tokens_per_s is None


def test_new_request_on_a_slot_starts_a_new_count():
    rates = rates_of([slots(0, s0=(7, 500)), slots(1, s0=(9, 3))])
    assert rates.tokens_per_s is None
    assert rates.requests.each[0].tokens == 3


def test_responses_seen_once_use_the_speed_of_earlier_ones():
    looks = [
        slots(n + part, **{f"s{slot}": (10 * n + slot, 20 + round(200 * part)) for slot in range(2)})
        for n in range(4)
        for part in (0, 0.2)
    ]
    rates = rates_of([*looks, slots(4, s0=(90, 5), s1=(91, 5))])
    assert (rates.tokens_per_s, rates.each_tokens_per_s) == pytest.approx((400, 200))
    assert rates.needs_second_look, "one look more tells their own"
    assert not rates_of(looks).needs_second_look
    assert rates_of([*looks, slots(4, s0=(90, 5))]).tokens_per_s is None, "one alone may be quicker than two"


def test_idle_server_has_speed_zero_not_unknown():
    rates = rates_of([slots(0), slots(1)])
    assert (rates.tokens_per_s, rates.phase) == (0, "idle")


def test_prefill_beside_a_decode_makes_the_phase_prefill():
    reading = [TaskPrompt(1, 8, 1000, 100, done) for done in (0, 400)]
    rates = rates_of([slots(second, (reading[second],), s0=(7, 50 + second), s1=(8, 0)) for second in range(2)])
    assert rates.phase == "prefill"
    assert rates.prompt_tokens_per_s == 400
    assert rates.requests.each[1].prompt_read == pytest.approx(0.5), "a tenth was still in the cache"


def test_speed_from_a_token_counter():
    rates = rates_of([Look(0, Work(S, 4, 2, tokens=100)), Look(2, Work(S, 4, 2, tokens=300))])
    assert (rates.tokens_per_s, rates.each_tokens_per_s, rates.phase) == (100, 25, "decode")


def test_restarted_token_counter_gives_no_speed():
    rates = rates_of([Look(0, Work(S, 1, 0, tokens=300)), Look(2, Work(S, 1, 0, tokens=10))])
    assert (rates.tokens_per_s, rates.phase) == (None, "busy")


def test_reported_speed_is_divided_by_the_running_requests():
    assert rates_of([Look(0, Work(S, 2, 0, tokens_per_s=80.0))]).each_tokens_per_s == 40


@pytest.mark.parametrize(
    ("work", "phase"),
    [(Work(S, None), "unknown"), (Work(S, 1, 0), "busy"), (Work(S, 0, 2), "queue"), (Work(S, 0, 0), "idle")],
)
def test_phase_without_token_counts(work, phase):
    assert rates_of([Look(0, work)]).phase == phase


def test_phase_shares_of_the_last_minute():
    minute = Minute()
    for second in range(100):
        minute.add(second, second + 1, "decode" if second >= 85 else "idle", queued=second >= 94)
    seen = minute.phases("decode")
    assert seen.minute == pytest.approx({"idle": 46 / 61, "decode": 15 / 61})
    assert seen.queued == pytest.approx(6 / 61)
    minute = Minute()
    assert minute.phases("idle").minute == {}
