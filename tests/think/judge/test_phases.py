"""Which phase is slow: the one that loses most against its expectation, else the longest."""

import msgspec
import pytest
from cases import cpu_case, gpu_case, with_facts, with_tensors
from firing import spilled
from told import pasted

from unslow.facts.run import Completion, LongPrompt, Route, Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import told_fact
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.judge.phases import UNNOTICED_S, outlook, prompt_token_s, slow_phase


def completion(**changes) -> Completion:
    usual = {"prompt_tokens": 34, "generated_tokens": 130, "prefill_s": 0.012, "decode_s": 1.0, "client_total_s": 1.02}
    return Completion(**(usual | changes))


def requested(case: Case | None = None, **changes) -> Case:
    return with_facts(case or gpu_case(), {"run.completions": (completion(**changes),) * 3})


def phase_of(case: Case) -> str:
    return slow_phase(CaseView(case), outlook(CaseView(case), None).times)


def test_longest_phase_counts_where_nothing_is_lost():
    assert phase_of(requested()) == "decode"


def test_waiting_client_is_the_slow_phase():
    late = requested(client_total_s=4.0)
    assert CaseView(late).waits.client_s == pytest.approx(4.0 - 1.012)
    assert phase_of(late) == "client"


def test_small_client_loss_is_not_the_slow_phase():
    late = requested(client_total_s=1.012 + 0.14)
    assert outlook(CaseView(late), None).time_of("client").lost_s > 0
    assert phase_of(late) == "decode", "a seventh of it at most, and not felt"
    assert not [b for b in judge(CaseView(late)).budget if b.phase == "client"]
    assert phase_of(requested(client_total_s=1.012 + 0.3)) == "client"


def test_start_delay_of_an_idle_local_server_counts_as_queue(wording):
    begins = {"client_first_token_s": 0.412, "client_total_s": 1.432}
    local = with_facts(requested(**begins), {"runtime.process.url": "http://127.0.0.1:8080"})
    assert CaseView(local).waits.preparing_s == CaseView(local).waits.queue_s == pytest.approx(0.4)
    assert CaseView(local).waits.client_s == pytest.approx(0.02)
    assert phase_of(local) == "queue"
    parts = [b.part for b in judge(CaseView(local)).budget if b.phase == "queue" and b.seconds]
    wording(parts)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1.example.com:80", "http://10.0.0.7:8080", "http://localhost:8080", ""]
)
def test_start_delay_of_a_remote_server_is_not_its_own(url):
    begins = {"client_first_token_s": 0.412, "client_total_s": 1.432}
    assert CaseView(with_facts(requested(**begins), {"runtime.process.url": url})).waits.preparing_s is None


def test_local_proxy_or_slow_name_is_not_the_server():
    url = {"runtime.process.url": "http://127.0.0.1:8080"}
    assert CaseView(with_facts(requested(client_first_token_s=3.0, client_total_s=4.0), url)).waits.preparing_s is None
    routes = (Route(host="localhost", seconds=0.6), Route(host="127.0.0.1", seconds=0.1))
    slow_name = url | {"run.routes": routes}
    assert (
        CaseView(with_facts(requested(client_first_token_s=0.4, client_total_s=1.4), slow_name)).waits.preparing_s
        is None
    )


def test_unnoticeable_pause_is_no_loss():
    assert outlook(CaseView(requested(client_total_s=1.012 + 0.9 * UNNOTICED_S)), None).time_of("client").lost_s == 0


def test_queue_time_is_not_client_time():
    waits = with_facts(requested(client_total_s=4.0), {"run.queue_s": 2.9})
    assert CaseView(waits).waits.client_s == pytest.approx(0.088)
    assert phase_of(waits) == "queue"


def test_queue_of_an_observed_server_is_estimated_from_waiting_requests():
    watched = with_facts(requested(), {"run.traffic": Traffic(seconds=5.0, looks=10, running=4.0, waiting=8.0)})
    assert CaseView(watched).waits.queue_s == pytest.approx(2 * 130 / 130.0), "as long as two answers"
    assert phase_of(watched) == "queue"
    assert CaseView(requested()).waits.queue_s is None


def test_slow_name_resolution_is_client_time():
    routes = (Route(host="localhost", seconds=2.1), Route(host="127.0.0.1", seconds=0.1), Route(host="::1"))
    slow = with_facts(requested(), {"run.routes": routes})
    assert CaseView(slow).waits.client_s == pytest.approx(2.0)
    parts = [b for b in judge(CaseView(slow)).budget if b.phase == "client"]
    assert [(b.part, b.per) for b in parts if b.seconds] == [("connecting to the server", "request")]


def test_load_time_counts_only_when_repeated():
    once = with_facts(requested(), {"run.load_s": 12.0})
    assert CaseView(once).waits.reload_s is None
    unloaded = with_facts(once, {"runtime.scheduling.keep_alive_s": 0.0})
    assert CaseView(unloaded).waits.reload_s == 12
    assert phase_of(unloaded) == "load"


def test_prefill_speed_needs_long_prompts():
    assert prompt_token_s(CaseView(requested())) is None
    long = with_facts(requested(), {"run.long_prompt": LongPrompt(tokens=2000, seconds=1.0)})
    assert prompt_token_s(long) == pytest.approx(0.0005)
    assert prompt_token_s(CaseView(requested(prompt_tokens=1000, prefill_s=0.5))) == pytest.approx(0.0005)


def test_slow_prefill_is_the_slow_phase(wording):
    crawl = with_facts(with_tensors(gpu_case()), {"run.long_prompt": LongPrompt(tokens=2048, seconds=60.0)})
    report = judge(CaseView(crawl))
    assert (report.verdict, report.phase) == ("slow", "prefill")
    wording(report.summary, tells="34.1")
    parts = [b for b in report.budget if b.phase == "prefill"]
    assert {b.per for b in parts} == {"prompt_token"}
    assert sum(b.seconds for b in parts) == pytest.approx(60 / 2048)
    assert "unexplained" in {b.part for b in parts}


def test_spill_is_slow_in_decode():
    long = LongPrompt(tokens=2048, seconds=8.0)
    assert judge(CaseView(with_facts(spilled(), {"run.long_prompt": long}))).phase == "decode"


def test_failed_load_is_the_load_phase():
    assert phase_of(with_facts(cpu_case(), {"runtime.state": "failed"})) == "load"


def test_complaint_names_the_phase_where_nothing_was_measured():
    assert phase_of(pasted(slow_metric="prefill")) == "prefill"
    assert phase_of(pasted(slow_metric="load")) == "load"
    assert phase_of(pasted()) == "decode"
    waiting = pasted(runtime={"name": "vLLM", "deferred_requests": 5})
    assert phase_of(waiting) == "queue"


def test_answer_length_is_the_measured_one():
    assert CaseView(requested(generated_tokens=90)).waits.answer_tokens == 90
    assert CaseView(msgspec.structs.replace(cpu_case(), run=pasted().run)).waits.answer_tokens == 256


def test_stated_speed_counts_as_a_speed():
    case = with_facts(cpu_case(), {"run.decode_tokens_per_s": told_fact(0.1, "paste:5")})
    assert outlook(CaseView(case), None).time_of("decode").lost_s > 100


def test_cpu_waiting_is_explained_even_when_oversubscribed():
    facts = {"runtime.compute.threads": 16, "run.decode_tokens_per_s": 0.2, "run.waiting_for_cpu_s_per_token": 60.0}
    parts = {b.part: b.seconds for b in judge(CaseView(with_facts(cpu_case(), facts))).budget}
    assert parts["waiting for a CPU"] > parts["unexplained"]
    assert sum(parts.values()) == pytest.approx(5.0)


def test_slower_than_expected_phase_wins_over_a_longer_one():
    late = requested(prompt_tokens=512, prefill_s=0.4)
    seen = outlook(CaseView(late), None)
    prefill = seen.time_of("prefill")
    assert prefill.lost_s > 0
    assert prefill.seconds < seen.time_of("decode").seconds
    assert phase_of(late) == "prefill"
