from answers import ask
from cases import cpu_case, gpu_case, with_facts, with_tensors
from made_up_telemetry import traffic
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_underused_by_one_stream"


def fires(slots: int = 1, waiting: int = 5):
    return with_facts(gpu_case(), {"runtime.slots": slots, "runtime.deferred_requests": waiting})


def test_five_wait_for_one_slot():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("queueing",)
    assert report.findings[0].fixes[0].value == 6


def test_near_miss_a_single_user():
    assert isinstance(ask(NAME, fires(waiting=0)), Absent)


def test_near_miss_several_slots():
    assert isinstance(ask(NAME, fires(slots=4)), Absent)


def test_no_gpu_no_gain():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"runtime.slots": 1, "runtime.deferred_requests": 5})), Absent)


def test_somebody_whose_requests_queue_up():
    case = saying(Topic.QUEUED, "requests queue up", case=with_facts(Case(), {"runtime.max_sequences": 1}))
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, saying(Topic.QUEUED, "requests queue up")), CannotTell)


def test_those_who_were_seen_waiting_are_priced_by_the_batching_curve(wording):
    case = with_facts(with_tensors(gpu_case()), {"runtime.slots": 1, "run.traffic": traffic(1.0, 5.0)})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 6
    assert answer.speedup > 2
    wording(answer.because)


def test_near_miss_watched_and_nobody_waits():
    alone = with_facts(gpu_case(), {"runtime.slots": 1, "run.traffic": traffic(0.9, 0.0)})
    assert isinstance(ask(NAME, alone), Absent)


def test_a_server_that_does_not_count_who_waits_is_not_without_a_queue():
    case = with_facts(gpu_case(), {"runtime.slots": 1, "run.traffic": traffic(0.9, 0.0, counts_waiting=False)})
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert "--metrics" in answer.how_to_get


def test_one_who_waits_makes_two():
    answer = ask(NAME, with_facts(with_tensors(gpu_case()), {"runtime.slots": 1, "runtime.deferred_requests": 1}))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 2
    assert 1 < answer.speedup <= 2, "as much as two get, whatever four would"
    assert "2 at once" in answer.because


def test_a_gpu_that_the_runtime_does_not_use_is_not_underused(wording):
    on_cpu = {"runtime.devices": [SeenDevice(name="CPU")]}
    on_cpu |= dict.fromkeys(("runtime.gpu_layers", "runtime.buffers"), NOT_LOOKED)
    answer = ask(NAME, with_facts(fires(), on_cpu | {"machine.gpus.0.processes": [], "run.decode_tokens_per_s": 2.0}))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_nor_is_one_that_no_layer_was_put_on():
    waiting = {"runtime.slots": 1, "runtime.deferred_requests": 5}
    assert isinstance(ask(NAME, with_facts(with_tensors(gpu_case(layers_on_gpu=0)), waiting)), Absent)
