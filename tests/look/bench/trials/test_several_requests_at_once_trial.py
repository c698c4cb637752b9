import pytest
from doubles import FakeSystem

from unslow.facts.values import Known
from unslow.look.bench.trials.several_requests import AnsweredAtOnce, at_once_of, perform_at_once
from unslow.look.requests import AskError, Plan, Reply, Target
from unslow.look.system import LookError

KNOWN = {"decode_tokens_per_s": 100.0, "prefill_tokens_per_s": 1000.0}


def answered(start=0.0, first=1.0, tokens=11, step=0.1, server=None) -> AnsweredAtOnce:
    arrivals = tuple(first + step * n for n in range(tokens))
    return AnsweredAtOnce(start, Reply(20, tokens, arrivals, arrivals[-1], "client clock", server_decode_s=server))


def test_concurrent_speed_covers_the_time_when_all_were_decoding():
    seen = at_once_of([answered(), answered(start=0.1), answered(start=0.2)])
    assert seen.requests == 3
    assert seen.tokens_per_s == pytest.approx(30)
    assert seen.first_token_s == 1.0


def test_queued_requests_are_measured_over_the_whole_time():
    seen = at_once_of([answered(first=1.0), answered(first=2.0), answered(first=3.0)])
    assert seen.tokens_per_s == pytest.approx(10)
    assert seen.first_token_s == 3.0


def test_server_timings_win_over_a_client_that_reads_late():
    assert at_once_of([answered(first=2.0, step=1e-6, server=1.0)]).tokens_per_s == pytest.approx(10)


def test_a_failed_or_unstreamed_request_gives_no_concurrent_speed():
    with pytest.raises(LookError, match="one failed"):
        at_once_of([answered(), AskError("stalled", "fell silent")])
    with pytest.raises(LookError, match="one piece"):
        at_once_of([answered(), AnsweredAtOnce(0.0, Reply(20, 11, (1.0,), 1.0, "client clock"))])


@pytest.mark.parametrize(
    ("plan", "runtime", "most"),
    [
        (Plan(slots=(1, 3), slot=3), "llama.cpp", 2),
        (Plan(), "llama.cpp", 4),
        (Plan(), "vLLM", 8),
        (Plan(at_once=6), "Ollama", 6),
    ],
)
def test_concurrency_is_limited_by_free_slots_or_runtime(plan, runtime, most):
    asked = {f"at once {n}": {"requests": n, "tokens_per_s": 10.0, "first_token_s": 0.1} for n in (1, most)}
    target = Target("http://127.0.0.1:8080", runtime=runtime)
    run = perform_at_once(FakeSystem(asks=asked), target, plan._replace(**KNOWN), lambda *_: None)
    assert [one.requests for one in run.at_once.need()] == [1, most]


def test_one_free_slot_is_not_enough_for_concurrent_requests():
    run = perform_at_once(FakeSystem(), Target("http://127.0.0.1:8080"), Plan(slot=2, slots=(2,)), lambda *_: None)
    assert "--evict" in run.at_once.how_to_get


def test_a_tampered_recording_gives_no_concurrent_speed():
    door = FakeSystem(asks={"at once 1": {"requests": -1}})
    run = perform_at_once(door, Target("http://127.0.0.1:8080"), Plan(**KNOWN), lambda *_: None)
    assert not isinstance(run.at_once, Known)
