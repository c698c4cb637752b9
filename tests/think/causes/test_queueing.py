import pytest
from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from made_up_telemetry import traffic
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.run import AtOnce, Completion
from unslow.facts.snapshot import Case
from unslow.facts.values import estimated, measured
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "queueing"


def fires():
    return with_facts(gpu_case(), {"run.queue_s": 8.0, "run.time_to_first_token_s": 8.4})


def test_eight_of_eight_seconds_in_the_queue():
    report = judge(fires())
    assert [f.cause for f in report.findings] == [NAME]
    assert report.verdict == "slow"


def test_near_miss_a_wait_beside_a_long_prompt_is_not_most_of_it():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.time_to_first_token_s": 40.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"run.queue_s": 0.01})), Absent)


def test_those_who_wait_are_counted():
    busy = with_facts(Case(), {"runtime.deferred_requests": 9, "runtime.slots": 4})
    assert isinstance(ask(NAME, busy), Found)
    one = with_facts(busy, {"runtime.deferred_requests": 1})
    assert isinstance(ask(NAME, one), CannotTell)
    assert isinstance(ask(NAME, saying(slow="first_token", case=one)), Found)
    assert isinstance(ask(NAME, with_facts(busy, {"runtime.deferred_requests": 0})), Absent)


def test_what_somebody_saw():
    assert isinstance(ask(NAME, saying(Topic.QUEUED, "requests pile up", slow="first_token")), Found)
    assert not isinstance(ask(NAME, saying(Topic.QUEUED, "requests pile up", slow="load")), Found)


def watched(running: float, waiting: float, **facts):
    return with_facts(gpu_case(), {"run.traffic": traffic(running, waiting, **facts)})


def test_those_who_waited_while_it_was_watched():
    answer = ask(NAME, with_facts(watched(2.0, 6.0), {"run.request_s": (38.0, 40.0, 44.0)}))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == 30.0
    assert judge(watched(2.0, 6.0)).findings[0].cause == NAME


def test_near_miss_a_batch_that_is_answered_all_at_once():
    assert isinstance(ask(NAME, watched(8.0, 0.1)), Absent)
    unknown = ask(NAME, watched(8.0, 0.0, counts_waiting=False))
    assert isinstance(unknown, CannotTell)


def several(last_s: float):
    levels = (
        AtOnce(requests=1, tokens_per_s=50.0, first_token_s=0.2),
        AtOnce(requests=4, tokens_per_s=80.0, first_token_s=last_s),
    )
    return with_facts(gpu_case(), {"run.at_once": measured(levels, "at once"), "runtime.slots": 4})


def test_requests_that_do_not_start_together_though_there_is_a_place_for_each():
    answer = ask(NAME, several(6.0))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == pytest.approx(5.2)


def test_near_miss_prompts_that_are_read_one_after_the_other():
    assert not isinstance(ask(NAME, several(0.9)), Found)
    assert not isinstance(ask(NAME, with_facts(several(6.0), {"runtime.slots": 1})), Found)


def test_one_slot_for_several_is_the_root_of_a_queue():
    report = judge(with_facts(watched(1.0, 5.0), {"runtime.slots": 1}))
    assert report.findings[0].cause == "gpu_underused_by_one_stream"
    assert report.findings[0].explains == (NAME,)


def test_near_miss_an_idle_server_that_was_measured_has_no_queue():
    done = (Completion(prompt_tokens=40, generated_tokens=100, prefill_s=0.1, decode_s=1.0),)
    idle = {"runtime.url": "http://127.0.0.1:8080", "runtime.busy_slots": 0, "run.completions": done}
    for name in (NAME, "gpu_underused_by_one_stream"):
        answer = ask(name, with_facts(gpu_case(), idle | {"runtime.slots": 1}))
        assert isinstance(answer, Absent), answer
        assert "nobody else" in answer.because
        assert isinstance(
            ask(name, with_facts(gpu_case(), idle | {"runtime.slots": 1, "runtime.busy_slots": 1})), CannotTell
        )


def test_a_wait_of_the_past_is_a_suspicion_for_busier_hours(wording):
    past = vllm(**{"run.queue_s": estimated(4.2, "/metrics: sum / count"), "runtime.deferred_requests": 0})
    answer = ask(NAME, past)
    assert isinstance(answer, CannotTell)
    wording(answer.suspected, tells="4.2 s")
    assert isinstance(ask(NAME, with_facts(past, {"run.queue_s": estimated(0.1, "/metrics")})), Absent)


def test_a_hundred_requests_are_counted_as_people_count(wording):
    answer = ask(NAME, with_facts(Case(), {"run.traffic": traffic(128.0, 210.0)}))
    wording(answer.because, tells=("128", "210"))


def test_a_long_time_with_pauses_hides_nobody_who_waits():
    """Over a quarter of an hour hardly one waits on average, though each of them does for three seconds."""
    window = {"run.traffic": traffic(2.0, 0.3), "run.time_to_first_token_s": 3.2}
    found = ask(NAME, with_facts(Case(), {**window, "run.queue_s": 3.0}))
    assert isinstance(found, Found)
    assert found.lost.seconds == 3.0
    assert isinstance(ask(NAME, with_facts(Case(), {**window, "run.queue_s": 0.3})), Absent)
    history = with_facts(Case(), {**window, "run.queue_s": estimated(3.0, "/metrics")})
    assert isinstance(ask(NAME, history), Absent), "a mean of weeks says nothing of the time that was watched"


def test_places_and_not_memory_where_the_cache_had_room():
    waiting = with_facts(vllm(), {"run.traffic": traffic(8.0, 24.0, cache_used=measured(0.2, "made up"))})
    assert first_knob(waiting) == ("parallel", None), "how many places it has is not told"
    full = with_facts(vllm(), {"run.traffic": traffic(8.0, 24.0, cache_used=measured(0.85, "made up"))})
    assert first_knob(full) == ("capacity", None)
    bursts = with_facts(vllm(), {"run.traffic": traffic(2.0, 6.0, cache_used=measured(0.2, "made up"), each_among=8.0)})
    assert first_knob(bursts) == ("capacity", None), "a mean with pauses in it: the cache was four times as full"


def first_knob(case):
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    change = answer.remedies[0].change
    return str(change.knob), change.value
