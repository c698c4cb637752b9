"""The times of a request by vLLM's counters, which its answers do not carry."""

import json

import pytest
from doubles import FakeSystem

from unslow.look.bench.timing import ask, completion_of
from unslow.look.openai_api import Server
from unslow.look.requests import Question, Target
from unslow.look.runtimes import vllm
from unslow.look.runtimes.vllm.bench import read_counters, with_counted_times
from unslow.look.server_answers import parse_metrics
from unslow.look.system import Answer, ExchangeError, Line

URL = "http://h"
TARGET = Target(URL, runtime="vLLM", model="m")
PREFILL, DECODE, QUEUE = (f"vllm:request_{name}_time_seconds" for name in ("prefill", "decode", "queue"))
COUNTERS = (
    f"GET {URL}/metrics?name%5B%5D=vllm%3Arequest_prefill_time_seconds_sum"
    "&name%5B%5D=vllm%3Arequest_decode_time_seconds_sum&name%5B%5D=vllm%3Arequest_queue_time_seconds_sum"
    "&name%5B%5D=vllm%3Arequest_decode_time_seconds_count"
)


def counted(requests: int, prefill_s: float, decode_s: float, queue_s: float = 0.0) -> str:
    values = {f"{PREFILL}_sum": prefill_s, f"{DECODE}_sum": decode_s, f"{QUEUE}_sum": queue_s,
              f"{DECODE}_count": requests}  # fmt: skip
    return "".join(f'{name}{{engine="0"}} {value}\n' for name, value in values.items())


class CountingSystem(FakeSystem):
    """A server whose counters move on each time they are read; its tokens come every 20 ms."""

    def request(self, method, url, *args, **more):
        if f"{method} {url}" == COUNTERS:
            self.sent.append((COUNTERS, None))
            return Answer(200, counted(*self.asks["counts"].pop(0)).encode())
        return super().request(method, url, *args, **more)


def slow_way(*counts: tuple[float, ...]) -> CountingSystem:
    words = [Line(0.04 + 0.02 * n, f"data: {json.dumps({'choices': [{'text': 'a'}]})}") for n in range(11)]
    usage = {"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 11}}
    lines = [*words, Line(0.25, f"data: {json.dumps(usage)}"), Line(0.25, "data: [DONE]")]
    return CountingSystem(streams={f"{URL}/v1/completions": lines}, asks={"counts": list(counts)})


def test_a_request_alone_gets_the_times_of_the_engine():
    system = slow_way((7, 1.0, 9.0, 0.5), (8, 1.008, 9.05, 0.501))
    reply = ask(system, TARGET, Question("hi", 11, alone=True))
    assert (reply.server_prefill_s, reply.server_decode_s) == (pytest.approx(0.008), pytest.approx(0.05))
    assert reply.server_queue_s == pytest.approx(0.001)
    done = completion_of(reply)
    assert not done.timed_by_client
    assert (done.decode_s, done.client_first_token_s) == (pytest.approx(0.05), 0.04)


@pytest.mark.parametrize(
    "after",
    [
        (9, 1.016, 9.1, 0.5),  # another one ended meanwhile
        (7, 1.0, 9.0, 0.5),  # it is not counted yet
        (8, 1.008, 12.0, 0.5),  # longer than the client waited
        (8, 0.5, 8.0, 0.1),  # the server was started anew
    ],
)
def test_counters_that_can_not_be_of_this_request_time_nothing(after):
    reply = ask(slow_way((7, 1.0, 9.0, 0.5), after), TARGET, Question("hi", 11, alone=True))
    assert (reply.server_prefill_s, reply.server_decode_s) == (None, None)
    assert completion_of(reply).timed_by_client


def test_among_other_questions_no_counter_is_read():
    system = slow_way()
    assert ask(system, TARGET, Question("hi", 11)).server_decode_s is None
    assert not any(where == COUNTERS for where, _ in system.sent)


def test_a_server_without_counters_is_timed_by_the_client():
    lines = slow_way().streams
    assert ask(FakeSystem(streams=lines), TARGET, Question("hi", 11, alone=True)).server_decode_s is None


def test_a_prompt_with_one_token_is_timed_as_a_prompt():
    before, after = (parse_metrics(counted(*counts), "x", "vllm:") for counts in ((0, 0.0, 0.0), (1, 0.19, 0.0)))
    reply = ask(slow_way(), TARGET, Question("hi", 1))
    timed = with_counted_times(reply, before, after)
    assert (timed.server_prefill_s, timed.server_decode_s, timed.clock) == (0.19, None, "client clock")


def test_metrics_too_large_to_arrive_in_time_are_asked_for_in_part():
    late = ExchangeError("silent", "did not answer in time")
    system = FakeSystem(http={f"GET {URL}/metrics": late, f"GET {URL}/version": Answer(200, b'{"version": "0.26.0"}')})
    names = [where for where, _ in (vllm.read_answers(Server(system, URL)), system.sent)[1]]
    assert any(where.startswith(f"GET {URL}/metrics?name") for where in names)
    part = next(where for where in names if "metrics?" in where)
    system.http[part] = Answer(200, b'vllm:num_requests_running{engine="0"} 3.0\n')
    answers = vllm.read_answers(Server(system, URL))
    assert vllm.subject_of(answers).runtime.scheduling.running_requests.need() == 3


def test_counters_of_none_of_these_names_are_none():
    assert read_counters(Server(FakeSystem(), URL), ("vllm:a",)) is None
