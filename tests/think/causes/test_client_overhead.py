import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import Completion, GpuUnderLoad, Route
from unslow.facts.snapshot import Case
from unslow.facts.values import measured_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "client_overhead"


def fires(client: float = 20.0):
    return with_facts(gpu_case(), {"run.client_decode_tokens_per_s": client})


def test_client_at_a_sixth_of_the_server_speed_is_found():
    report = judge(CaseView(fires()))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup == 6.5


def test_client_that_keeps_up_is_ruled_out_only_with_timed_requests():
    assert isinstance(ask(NAME, delayed(0.03)), Absent)
    assert isinstance(ask(NAME, fires(client=125.0)), CannotTell)  # it may have waited before the first token


def delayed(seconds: float):
    runs = [
        Completion(
            prompt_tokens=30, generated_tokens=64, prefill_s=0.02, decode_s=0.5, client_first_token_s=seconds + i
        )
        for i in (0.0, 0.01)
    ]
    return with_facts(fires(client=125.0), {"run.completions": r(tuple(runs))})


def test_two_second_delay_before_every_request_is_found():
    answer = ask(NAME, delayed(2.05))
    assert isinstance(answer, Found)
    assert "2.0 s" in answer.because
    assert isinstance(ask(NAME, delayed(0.05)), Absent)


def test_constant_delay_with_localhost_is_found():
    pause = saying(Topic.CONSTANT_DELAY, "constant 2 s before each request", slow="first_token")
    case = saying(Topic.LOCALHOST_URL, "http://localhost:1234", slow="first_token", case=pause)
    assert judge(CaseView(case)).findings[0].cause == NAME
    assert not isinstance(ask(NAME, pause), Found)
    assert not isinstance(ask(NAME, saying(Topic.LOCALHOST_URL, "http://localhost:1234")), Found)
    both = "2 s more with http://localhost:1234 than with 127.0.0.1"
    assert isinstance(ask(NAME, saying(Topic.LOCALHOST_URL, both)), Found)
    assert isinstance(ask(NAME, with_facts(pause, {"runtime.process.url": "http://localhost:1234"})), Found)


def test_fast_curl_or_faster_client_is_found():
    assert isinstance(ask(NAME, saying(Topic.SERVER_FAST, "curl is fast")), Found)
    assert isinstance(ask(NAME, tried(2.0, 40.0, Topic.CLIENT)), Found)


def test_client_update_alone_is_suspected():
    answer = ask(NAME, saying(Topic.CLIENT, "slow since the web UI was updated", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "eval" in answer.how_to_get
    both = tried(1.5, 30.0, Topic.CLIENT, Topic.VERSION)
    assert isinstance(ask(NAME, both), CannotTell)
    assert isinstance(ask(NAME, Case()), CannotTell)


def routes(name_s: float | None, number_s: float | None = 0.002):
    ways = (Route(host="localhost", seconds=name_s), Route(host="127.0.0.1", seconds=number_s), Route(host="::1"))
    return with_facts(delayed(0.03), {"run.routes": measured_fact(ways, "the fastest of three")})


def test_localhost_slower_than_its_address_is_found_and_priced():
    answer = ask(NAME, routes(2.03))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == pytest.approx(2.028)
    assert "localhost" in answer.because


def test_localhost_that_resolves_at_once_is_ruled_out():
    assert isinstance(ask(NAME, routes(0.004)), Absent)
    assert isinstance(ask(NAME, routes(None)), Absent)
    assert isinstance(ask(NAME, routes(2.0, None)), Absent)


def test_price_is_the_time_lost_over_the_measured_answer():
    run = Completion(prompt_tokens=30, generated_tokens=130, prefill_s=0.02, decode_s=1.0, client_first_token_s=0.03)
    answer = ask(NAME, with_facts(fires(client=26.0), {"run.completions": r((run,))}))
    assert answer.lost.seconds == pytest.approx(4.0)


def test_slow_shortest_request_is_found_without_a_decode_measurement(wording):
    late = routes(2.01, 2.0)
    answer = ask(NAME, late)
    assert isinstance(answer, Found)
    wording(answer.because)
    assert answer.lost.seconds == 2.0
    unmeasured = without(without(late, "run.decode_tokens_per_s"), "run.client_decode_tokens_per_s")
    report = judge(CaseView(unmeasured))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert isinstance(ask(NAME, routes(0.4, 0.4)), Absent)


def long_answer(client: float) -> Case:
    """500 tokens at 130 tok/s, as the client saw them."""
    run = Completion(prompt_tokens=30, generated_tokens=500, prefill_s=0.02, decode_s=500 / 130)
    return with_facts(fires(client=client), {"run.completions": r((run,))})


def test_noticeable_loss_is_found_at_most_of_the_server_speed():
    answer = ask(NAME, long_answer(client=100.0))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == pytest.approx(500 / 100 - 500 / 130)
    assert isinstance(ask(NAME, long_answer(client=120.0)), Absent)


def collected(total_s: float):
    """Answers of eight seconds whose first piece arrives after decode has ended."""
    done = Completion(
        prompt_tokens=30, generated_tokens=64, prefill_s=0.5, decode_s=8.0, client_first_token_s=8.52,
        client_total_s=total_s,
    )  # fmt: skip
    return with_facts(gpu_case(), {"run.completions": r((done, done)), "run.client_decode_tokens_per_s": 9000.0})


def test_buffered_stream_is_found_and_priced(wording):
    report = judge(CaseView(collected(8.53)))
    wording(report.summary, tells="8 s")
    finding = report.findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="8.0 s")
    assert "proxy_buffering off" in finding.fixes[0].why
    assert finding.cost.seconds == pytest.approx(8.02)


def test_stream_that_starts_late_is_a_delay_not_buffering(wording):
    wording(ask(NAME, collected(16.5)).because)


def in_bursts(held_back_s: float, **more):
    done = Completion(
        prompt_tokens=30, generated_tokens=512, prefill_s=0.2, decode_s=3.7, client_first_token_s=0.25,
        client_total_s=4.1, held_back_s=held_back_s, **more,
    )  # fmt: skip
    return with_facts(gpu_case(), {"run.completions": r((done, done)), "run.client_decode_tokens_per_s": 128.0})


def test_stream_in_bursts_is_found(wording):
    answer = ask(NAME, in_bursts(2.4))
    assert isinstance(answer, Found)
    wording(answer.because, tells="2.4 of 4.1")


def test_short_pauses_and_drafted_tokens_are_ruled_out():
    assert isinstance(ask(NAME, in_bursts(0.6)), Absent)
    assert isinstance(ask(NAME, in_bursts(2.4, drafted_tokens=400, accepted_tokens=300)), Absent)


def test_price_of_buffering_excludes_the_part_of_a_slow_server():
    slow = with_facts(collected(8.53), {"run.decode_tokens_per_s": 8.0})
    fast = with_facts(collected(8.53), {"run.decode_tokens_per_s": 130.0})
    assert ask(NAME, slow).lost.seconds < ask(NAME, fast).lost.seconds / 5


def timed_by_client(busy: float | None = None, **facts):
    done = Completion(prompt_tokens=40, generated_tokens=84, prefill_s=0.04, decode_s=1.7, client_first_token_s=0.04,
                      client_total_s=1.74, timed_by_client=True)  # fmt: skip
    seen = {} if busy is None else {"run.gpus": (GpuUnderLoad(index=0, samples=20, busy=measured_fact(busy, "nvml")),)}
    told = {"run.completions": (done,), "run.client_decode_tokens_per_s": 49.7, "run.decode_tokens_per_s": 50.9}
    return with_facts(gpu_case(), {**told, **seen, **facts})


def test_a_client_is_not_ruled_out_by_its_own_clock(wording):
    answer = ask(NAME, timed_by_client(busy=0.27))
    assert isinstance(answer, CannotTell)
    wording(answer.missing, tells="its times")


def test_a_client_is_ruled_out_by_a_busy_gpu_or_by_full_speed():
    assert isinstance(ask(NAME, timed_by_client(busy=0.95)), Absent)
    fast = {"run.client_decode_tokens_per_s": 130.0, "run.decode_tokens_per_s": 130.0}
    assert isinstance(ask(NAME, timed_by_client(busy=0.5, **fast)), Absent)
