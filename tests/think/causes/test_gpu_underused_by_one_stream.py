from answers import ask
from cases import cpu_case, gpu_case, with_facts, with_tensors
from made_up_telemetry import traffic
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "gpu_underused_by_one_stream"


def fires(slots: int = 1, waiting: int = 5):
    return with_facts(gpu_case(), {"runtime.scheduling.slots": slots, "runtime.scheduling.deferred_requests": waiting})


def test_five_requests_waiting_for_one_slot_are_found():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("queueing",)
    assert report.findings[0].fixes[0].value == 6


def test_single_user_is_ruled_out():
    assert isinstance(ask(NAME, fires(waiting=0)), Absent)


def test_several_slots_are_ruled_out():
    assert isinstance(ask(NAME, fires(slots=4)), Absent)


def test_machine_without_a_gpu_is_ruled_out():
    assert isinstance(
        ask(NAME, with_facts(cpu_case(), {"runtime.scheduling.slots": 1, "runtime.scheduling.deferred_requests": 5})),
        Absent,
    )


def test_remark_about_queued_requests_needs_the_number_of_slots():
    case = saying(Topic.QUEUED, "requests ran while", case=with_facts(Case(), {"runtime.scheduling.max_sequences": 1}))
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, saying(Topic.QUEUED, "requests ran while")), CannotTell)


def test_watched_queue_is_priced_by_the_batching_curve(wording):
    case = with_facts(with_tensors(gpu_case()), {"runtime.scheduling.slots": 1, "run.traffic": traffic(1.0, 5.0)})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 6
    assert answer.speedup > 2
    wording(answer.because)


def test_watched_server_without_waiting_requests_is_ruled_out():
    alone = with_facts(gpu_case(), {"runtime.scheduling.slots": 1, "run.traffic": traffic(0.9, 0.0)})
    assert isinstance(ask(NAME, alone), Absent)


def test_server_without_a_waiting_count_gives_cannot_tell():
    case = with_facts(
        gpu_case(), {"runtime.scheduling.slots": 1, "run.traffic": traffic(0.9, 0.0, counts_waiting=False)}
    )
    answer = ask(NAME, case)
    assert isinstance(answer, CannotTell)
    assert "--metrics" in answer.how_to_get


def test_one_waiting_request_makes_a_batch_of_two(wording):
    answer = ask(
        NAME,
        with_facts(
            with_tensors(gpu_case()), {"runtime.scheduling.slots": 1, "runtime.scheduling.deferred_requests": 1}
        ),
    )
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 2
    assert 1 < answer.speedup <= 2, "the gain of a batch of two, not of four"
    wording(answer.because, tells="2")


def test_runtime_on_the_cpu_is_ruled_out(wording):
    on_cpu = {"runtime.placement.devices": [SeenDevice(name="CPU")]}
    on_cpu |= dict.fromkeys(("runtime.placement.gpu_layers", "runtime.memory.buffers"), NOT_LOOKED)
    answer = ask(NAME, with_facts(fires(), on_cpu | {"machine.gpus.0.processes": [], "run.decode_tokens_per_s": 2.0}))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_zero_gpu_layers_are_ruled_out():
    waiting = {"runtime.scheduling.slots": 1, "runtime.scheduling.deferred_requests": 5}
    assert isinstance(ask(NAME, with_facts(with_tensors(gpu_case(layers_on_gpu=0)), waiting)), Absent)
