import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import Completion, Route
from unslow.facts.snapshot import Case
from unslow.facts.values import measured
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "client_overhead"


def fires(client: float = 20.0):
    return with_facts(gpu_case(), {"run.client_decode_tokens_per_s": client})


def test_a_client_that_shows_a_sixth_of_the_speed():
    report = judge(fires())
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup == 6.5


def test_near_miss_a_client_that_keeps_up():
    assert isinstance(ask(NAME, fires(client=125.0)), Absent)


def delayed(seconds: float):
    runs = [
        Completion(
            prompt_tokens=30, generated_tokens=64, prefill_s=0.02, decode_s=0.5, client_first_token_s=seconds + i
        )
        for i in (0.0, 0.01)
    ]
    return with_facts(fires(client=125.0), {"run.completions": r(tuple(runs))})


def test_two_seconds_before_every_request():
    answer = ask(NAME, delayed(2.05))
    assert isinstance(answer, Found)
    assert "2.0 s" in answer.because
    assert isinstance(ask(NAME, delayed(0.05)), Absent)


def test_the_known_delay_of_a_name():
    pause = saying(Topic.CONSTANT_DELAY, "constant 2 s before each request", slow="first_token")
    case = saying(Topic.LOCALHOST_URL, "http://localhost:1234", slow="first_token", case=pause)
    assert judge(case).findings[0].cause == NAME
    assert not isinstance(ask(NAME, pause), Found)
    assert not isinstance(ask(NAME, saying(Topic.LOCALHOST_URL, "http://localhost:1234")), Found)
    both = "2 s more with http://localhost:1234 than with 127.0.0.1"
    assert isinstance(ask(NAME, saying(Topic.LOCALHOST_URL, both)), Found)
    assert isinstance(ask(NAME, with_facts(pause, {"runtime.url": "http://localhost:1234"})), Found)


def test_a_server_that_is_fast_by_itself():
    assert isinstance(ask(NAME, saying(Topic.SERVER_FAST, "curl is fast")), Found)
    assert isinstance(ask(NAME, tried(2.0, 40.0, Topic.CLIENT)), Found)


def test_slow_since_the_client_was_updated_is_a_suspicion():
    answer = ask(NAME, saying(Topic.CLIENT, "slow since the web UI was updated", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "eval" in answer.how_to_get
    both = tried(1.5, 30.0, Topic.CLIENT, Topic.VERSION)
    assert isinstance(ask(NAME, both), CannotTell)
    assert isinstance(ask(NAME, Case()), CannotTell)


def routes(name_s: float | None, number_s: float | None = 0.002):
    ways = (Route(host="localhost", seconds=name_s), Route(host="127.0.0.1", seconds=number_s), Route(host="::1"))
    return with_facts(fires(client=125.0), {"run.routes": measured(ways, "the fastest of three")})


def test_a_name_that_takes_longer_than_its_number():
    answer = ask(NAME, routes(2.03))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == pytest.approx(2.028)
    assert "localhost" in answer.because


def test_near_miss_a_name_that_is_looked_up_at_once():
    assert isinstance(ask(NAME, routes(0.004)), Absent)
    assert isinstance(ask(NAME, routes(None)), Absent)
    assert isinstance(ask(NAME, routes(2.0, None)), Absent)


def test_a_slow_proxy_is_priced_for_the_answer_that_was_measured():
    run = Completion(prompt_tokens=30, generated_tokens=130, prefill_s=0.02, decode_s=1.0, client_first_token_s=0.03)
    answer = ask(NAME, with_facts(fires(client=26.0), {"run.completions": r((run,))}))
    assert answer.lost.seconds == pytest.approx(4.0)


def test_a_proxy_that_is_late_shows_before_anything_is_generated():
    late = routes(2.01, 2.0)
    answer = ask(NAME, late)
    assert isinstance(answer, Found)
    assert "nothing is computed" in answer.because
    assert answer.lost.seconds == 2.0
    unmeasured = without(without(late, "run.decode_tokens_per_s"), "run.client_decode_tokens_per_s")
    report = judge(unmeasured)
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert isinstance(ask(NAME, routes(0.4, 0.4)), Absent)


def long_answer(client: float) -> Case:
    """500 tokens at 130 tokens per second, as the client saw them."""
    run = Completion(prompt_tokens=30, generated_tokens=500, prefill_s=0.02, decode_s=500 / 130)
    return with_facts(fires(client=client), {"run.completions": r((run,))})


def test_a_loss_that_is_felt_counts_though_most_of_the_speed_arrives():
    answer = ask(NAME, long_answer(client=100.0))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == pytest.approx(500 / 100 - 500 / 130)
    assert isinstance(ask(NAME, long_answer(client=120.0)), Absent)
