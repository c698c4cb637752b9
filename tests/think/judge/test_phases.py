"""Which phase is slow: the one that loses most against what it should take, else the one that takes most."""

import msgspec
import pytest
from cases import cpu_case, gpu_case, with_facts, with_tensors
from firing import spilled
from told import pasted

from unslow.facts.run import Completion, LongPrompt, Route, Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import told
from unslow.think.case.waits import answer_tokens, client_s, preparing_s, queue_s, reload_s
from unslow.think.judge.judge import judge
from unslow.think.judge.phases import UNNOTICED_S, outlook, prompt_token_s, slow_phase


def completion(**changes) -> Completion:
    usual = {"prompt_tokens": 34, "generated_tokens": 130, "prefill_s": 0.012, "decode_s": 1.0, "client_total_s": 1.02}
    return Completion(**(usual | changes))


def requested(case: Case | None = None, **changes) -> Case:
    return with_facts(case or gpu_case(), {"run.completions": (completion(**changes),) * 3})


def phase_of(case: Case) -> str:
    return slow_phase(case, outlook(case, None).times)


def test_where_nothing_is_lost_the_longest_phase_counts():
    assert phase_of(requested()) == "decode"


def test_a_client_that_waits_is_the_slow_phase():
    late = requested(client_total_s=4.0)
    assert client_s(late) == pytest.approx(4.0 - 1.012)
    assert phase_of(late) == "client"


def test_a_loss_that_is_small_beside_the_request_is_not_the_slow_phase():
    late = requested(client_total_s=1.012 + 0.14)
    assert outlook(late, None).time_of("client").lost_s > 0
    assert phase_of(late) == "decode", "a seventh of it at most, and not felt"
    assert not [b for b in judge(late).budget if b.phase == "client"]
    assert phase_of(requested(client_total_s=1.012 + 0.3)) == "client"


def test_what_an_idle_server_on_this_machine_takes_to_begin_is_its_own(wording):
    begins = {"client_first_token_s": 0.412, "client_total_s": 1.432}
    local = with_facts(requested(**begins), {"runtime.url": "http://127.0.0.1:8080"})
    assert preparing_s(local) == queue_s(local) == pytest.approx(0.4)
    assert client_s(local) == pytest.approx(0.02)
    assert phase_of(local) == "queue"
    parts = [b.part for b in judge(local).budget if b.phase == "queue" and b.seconds]
    wording(parts)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1.example.com:80", "http://10.0.0.7:8080", "http://localhost:8080", ""]
)
def test_what_others_may_take_is_not_the_servers(url):
    begins = {"client_first_token_s": 0.412, "client_total_s": 1.432}
    assert preparing_s(with_facts(requested(**begins), {"runtime.url": url})) is None


def test_a_proxy_on_this_machine_is_not_the_server():
    url = {"runtime.url": "http://127.0.0.1:8080"}
    assert preparing_s(with_facts(requested(client_first_token_s=3.0, client_total_s=4.0), url)) is None
    routes = (Route(host="localhost", seconds=0.6), Route(host="127.0.0.1", seconds=0.1))
    slow_name = url | {"run.routes": routes}
    assert preparing_s(with_facts(requested(client_first_token_s=0.4, client_total_s=1.4), slow_name)) is None


def test_a_pause_that_nobody_feels_is_nothing_lost():
    assert outlook(requested(client_total_s=1.012 + 0.9 * UNNOTICED_S), None).time_of("client").lost_s == 0


def test_what_a_request_waits_for_its_turn_is_not_the_clients():
    waits = with_facts(requested(client_total_s=4.0), {"run.queue_s": 2.9})
    assert client_s(waits) == pytest.approx(0.088)
    assert phase_of(waits) == "queue"


def test_the_queue_of_a_server_that_was_only_watched():
    watched = with_facts(requested(), {"run.traffic": Traffic(seconds=5.0, looks=10, running=4.0, waiting=8.0)})
    assert queue_s(watched) == pytest.approx(2 * 130 / 130.0), "as long as two answers"
    assert phase_of(watched) == "queue"
    assert queue_s(requested()) is None


def test_a_name_that_is_found_late():
    routes = (Route(host="localhost", seconds=2.1), Route(host="127.0.0.1", seconds=0.1), Route(host="::1"))
    slow = with_facts(requested(), {"run.routes": routes})
    assert client_s(slow) == pytest.approx(2.0)
    parts = [b for b in judge(slow).budget if b.phase == "client"]
    assert [(b.part, b.per) for b in parts if b.seconds] == [("finding the server", "request")]


def test_loads_count_only_where_they_are_repeated():
    once = with_facts(requested(), {"run.load_s": 12.0})
    assert reload_s(once) is None
    unloaded = with_facts(once, {"runtime.keep_alive_s": 0.0})
    assert reload_s(unloaded) == 12
    assert phase_of(unloaded) == "load"


def test_prompts_are_judged_by_long_ones_only():
    assert prompt_token_s(requested()) is None
    long = with_facts(requested(), {"run.long_prompt": LongPrompt(tokens=2000, seconds=1.0)})
    assert prompt_token_s(long) == pytest.approx(0.0005)
    assert prompt_token_s(requested(prompt_tokens=1000, prefill_s=0.5)) == pytest.approx(0.0005)


def test_prompts_that_are_read_far_too_slowly(wording):
    crawl = with_facts(with_tensors(gpu_case()), {"run.long_prompt": LongPrompt(tokens=2048, seconds=60.0)})
    report = judge(crawl)
    assert (report.verdict, report.phase) == ("slow", "prefill")
    wording(report.summary, tells="34.1")
    parts = [b for b in report.budget if b.phase == "prefill"]
    assert {b.per for b in parts} == {"prompt_token"}
    assert sum(b.seconds for b in parts) == pytest.approx(60 / 2048)
    assert "unexplained" in {b.part for b in parts}


def test_a_spill_is_slow_where_it_answers():
    long = LongPrompt(tokens=2048, seconds=8.0)
    assert judge(with_facts(spilled(), {"run.long_prompt": long})).phase == "decode"


def test_a_load_that_fails_is_the_load():
    assert phase_of(with_facts(cpu_case(), {"runtime.state": "failed"})) == "load"


def test_what_a_person_names_where_nothing_was_measured():
    assert phase_of(pasted(slow_metric="prefill")) == "prefill"
    assert phase_of(pasted(slow_metric="load")) == "load"
    assert phase_of(pasted()) == "decode"
    waiting = pasted(runtime={"name": "vLLM", "deferred_requests": 5})
    assert phase_of(waiting) == "queue"


def test_an_answer_is_as_long_as_those_that_were_measured():
    assert answer_tokens(requested(generated_tokens=90)) == 90
    assert answer_tokens(msgspec.structs.replace(cpu_case(), run=pasted().run)) == 256


def test_a_told_speed_is_a_speed():
    case = with_facts(cpu_case(), {"run.decode_tokens_per_s": told(0.1, "paste:5")})
    assert outlook(case, None).time_of("decode").lost_s > 100


def test_what_threads_waited_is_explained_even_in_a_crowd():
    facts = {"runtime.threads": 16, "run.decode_tokens_per_s": 0.2, "run.waiting_for_cpu_s_per_token": 60.0}
    parts = {b.part: b.seconds for b in judge(with_facts(cpu_case(), facts)).budget}
    assert parts["waiting for a CPU"] > parts["unexplained"]
    assert sum(parts.values()) == pytest.approx(5.0)


def test_a_phase_beyond_what_is_usual_comes_before_a_longer_one_that_is_not():
    late = requested(prompt_tokens=512, prefill_s=0.4)
    seen = outlook(late, None)
    prefill = seen.time_of("prefill")
    assert prefill.lost_s > 0
    assert prefill.seconds < seen.time_of("decode").seconds
    assert phase_of(late) == "prefill"
