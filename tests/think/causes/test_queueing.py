import pytest
from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from made_up_telemetry import traffic
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.run import AtOnce, Completion
from unslow.facts.snapshot import Case
from unslow.facts.values import estimated_fact, measured_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "queueing"


def fires():
    return with_facts(gpu_case(), {"run.queue_s": 8.0, "run.time_to_first_token_s": 8.4})


def test_queue_wait_of_most_of_the_time_to_first_token_is_found():
    report = judge(CaseView(fires()))
    assert [f.cause for f in report.findings] == [NAME]
    assert report.verdict == "slow"


def test_short_wait_or_wait_beside_long_prefill_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.time_to_first_token_s": 40.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"run.queue_s": 0.01})), Absent)


def test_deferred_requests_decide_by_number_of_slots():
    busy = with_facts(Case(), {"runtime.scheduling.deferred_requests": 9, "runtime.scheduling.slots": 4})
    assert isinstance(ask(NAME, busy), Found)
    one = with_facts(busy, {"runtime.scheduling.deferred_requests": 1})
    assert isinstance(ask(NAME, one), CannotTell)
    assert isinstance(ask(NAME, saying(slow="first_token", case=one)), Found)
    assert isinstance(ask(NAME, with_facts(busy, {"runtime.scheduling.deferred_requests": 0})), Absent)


def test_remark_about_queued_requests_is_found_unless_load_is_slow():
    assert isinstance(ask(NAME, saying(Topic.QUEUED, "requests pile up", slow="first_token")), Found)
    assert not isinstance(ask(NAME, saying(Topic.QUEUED, "requests pile up", slow="load")), Found)


def watched(running: float, waiting: float, **facts):
    return with_facts(gpu_case(), {"run.traffic": traffic(running, waiting, **facts)})


def test_watched_queue_is_found_and_priced_by_request_times():
    answer = ask(NAME, with_facts(watched(2.0, 6.0), {"run.request_s": (38.0, 40.0, 44.0)}))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == 30.0
    assert judge(CaseView(watched(2.0, 6.0))).findings[0].cause == NAME


def test_a_queue_that_costs_a_request_next_to_nothing_is_ruled_out(wording):
    timed = {"run.queue_s": measured_fact(0.05, "16 looks"), "run.decode_tokens_per_s": 145.0}
    many = ask(NAME, with_facts(watched(51.0, 3.8), timed))
    assert isinstance(many, Absent)
    wording(many.because, tells="7%")
    few = ask(NAME, with_facts(watched(3.1, 0.5), {**timed, "run.queue_s": measured_fact(0.16, "16 looks")}))
    assert isinstance(few, Absent)
    # half of its time is a queue, however short; and a mean of quieter times does not outweigh what was seen
    assert isinstance(ask(NAME, with_facts(watched(4.0, 6.0), timed)), Found)
    past = {"run.queue_s": estimated_fact(0.05, "since the start"), "run.decode_tokens_per_s": 20.0}
    assert isinstance(ask(NAME, with_facts(watched(8.0, 2.0), past)), Found)


def test_an_engine_with_pages_gets_places_for_all_who_wait():
    settings = {"runtime.scheduling.max_sequences": 4, "run.traffic": traffic(3.9, 28.0), "run.queue_s": 4.9}
    answer = ask(NAME, vllm(**settings))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 32


def test_full_batch_without_waiting_requests_is_ruled_out():
    assert isinstance(ask(NAME, watched(8.0, 0.1)), Absent)
    unknown = ask(NAME, watched(8.0, 0.0, counts_waiting=False))
    assert isinstance(unknown, CannotTell)


def several(last_s: float):
    levels = (
        AtOnce(requests=1, tokens_per_s=50.0, first_token_s=0.2),
        AtOnce(requests=4, tokens_per_s=80.0, first_token_s=last_s),
    )
    return with_facts(gpu_case(), {"run.at_once": measured_fact(levels, "at once"), "runtime.scheduling.slots": 4})


def test_late_first_token_with_a_slot_for_each_request_is_found():
    answer = ask(NAME, several(6.0))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == pytest.approx(5.2)


def test_sequential_prefill_or_too_few_slots_is_not_found():
    assert not isinstance(ask(NAME, several(0.9)), Found)
    assert not isinstance(ask(NAME, with_facts(several(6.0), {"runtime.scheduling.slots": 1})), Found)


def test_single_slot_explains_the_queue():
    report = judge(CaseView(with_facts(watched(1.0, 5.0), {"runtime.scheduling.slots": 1})))
    assert report.findings[0].cause == "gpu_underused_by_one_stream"
    assert report.findings[0].explains == (NAME,)


def test_idle_server_has_no_queue_and_busy_slot_gives_cannot_tell(wording):
    done = (Completion(prompt_tokens=40, generated_tokens=100, prefill_s=0.1, decode_s=1.0),)
    idle = {"runtime.process.url": "http://127.0.0.1:8080", "runtime.scheduling.busy_slots": 0, "run.completions": done}
    for name in (NAME, "gpu_underused_by_one_stream"):
        answer = ask(name, with_facts(gpu_case(), idle | {"runtime.scheduling.slots": 1}))
        assert isinstance(answer, Absent), answer
        wording(answer.because)
        assert isinstance(
            ask(
                name, with_facts(gpu_case(), idle | {"runtime.scheduling.slots": 1, "runtime.scheduling.busy_slots": 1})
            ),
            CannotTell,
        )


def test_mean_wait_since_start_with_none_waiting_now_is_suspected(wording):
    past = vllm(
        **{"run.queue_s": estimated_fact(4.2, "/metrics: sum / count"), "runtime.scheduling.deferred_requests": 0}
    )
    answer = ask(NAME, past)
    assert isinstance(answer, CannotTell)
    wording(answer.suspected, tells="4.2 s")
    assert isinstance(ask(NAME, with_facts(past, {"run.queue_s": estimated_fact(0.1, "/metrics")})), Absent)


def test_large_request_counts_are_written_without_exponents(wording):
    answer = ask(NAME, with_facts(Case(), {"run.traffic": traffic(128.0, 210.0)}))
    wording(answer.because, tells=("128", "210"))


def test_long_queue_time_is_found_though_few_wait_on_average():
    """Over a quarter of an hour few requests wait on average, although each of them waits three seconds."""
    window = {"run.traffic": traffic(2.0, 0.3), "run.time_to_first_token_s": 3.2}
    found = ask(NAME, with_facts(Case(), {**window, "run.queue_s": 3.0}))
    assert isinstance(found, Found)
    assert found.lost.seconds == 3.0
    assert isinstance(ask(NAME, with_facts(Case(), {**window, "run.queue_s": 0.3})), Absent)
    history = with_facts(Case(), {**window, "run.queue_s": estimated_fact(3.0, "/metrics")})
    assert isinstance(ask(NAME, history), Absent), "a mean since the start says nothing about the time that was watched"


def test_fix_is_slots_where_the_kv_cache_had_room_else_capacity():
    waiting = with_facts(vllm(), {"run.traffic": traffic(8.0, 24.0, cache_used=measured_fact(0.2, "made up"))})
    assert first_knob(waiting) == ("parallel", None), "the number of slots is not known"
    full = with_facts(vllm(), {"run.traffic": traffic(8.0, 24.0, cache_used=measured_fact(0.85, "made up"))})
    assert first_knob(full) == ("capacity", None)
    bursts = with_facts(
        vllm(), {"run.traffic": traffic(2.0, 6.0, cache_used=measured_fact(0.2, "made up"), each_among=8.0)}
    )
    assert first_knob(bursts) == ("capacity", None), "the mean includes pauses: the cache was four times as full"


def first_knob(case):
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    change = answer.remedies[0].change
    return str(change.knob), change.value
