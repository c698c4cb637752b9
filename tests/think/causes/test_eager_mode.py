import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without
from engines import vllm
from told import compares, pasted

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.values import GB, GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "eager_mode"


def fires():
    return with_facts(gpu_case(), {"runtime.compute.eager": True, "run.decode_tokens_per_s": 30.0})


def test_graphs_off_and_decode_far_below_expected_is_found():
    report = judge(CaseView(fires()))
    assert NAME in [f.cause for f in report.findings]


def test_eager_setting_in_a_report_is_found():
    report = judge(CaseView(pasted(gpus=["RTX A6000"], runtime={"name": "vLLM", "eager": True})))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].knob == "graphs"


def test_trial_gives_the_speedup():
    trial = compares(Topic.GRAPHS, 11.0, 33.0, "--enforce-eager: 11 tok/s, without it 33 tok/s")
    finding = judge(CaseView(pasted(trial, gpus=["RTX A6000"], runtime={"eager": True}))).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 3


def test_trial_with_graphs_slower_is_not_found_and_unclear_trial_is_suspected():
    slower = compares(Topic.GRAPHS, 50.0, 70.0, "GGML_CUDA_DISABLE_GRAPHS=1 gives 70 t/s, default 50 t/s")
    assert not isinstance(ask(NAME, pasted(slower, gpus=["RTX A6000"])), Found)
    untold = ask(NAME, pasted(compares(Topic.GRAPHS, 50.0, 70.0, "graphs: 50 or 70"), gpus=["RTX A6000"]))
    assert isinstance(untold, CannotTell)
    assert untold.suspected


def test_full_speed_many_requests_or_eager_false_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 130.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.scheduling.running_requests": 64})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.compute.eager": False})), Absent)


def test_graphs_told_to_leave_attention_out_are_found_and_priced(wording):
    facts = {"runtime.compute.graphs_without_attention": True, "runtime.compute.eager": False}
    found = ask(NAME, vllm(**facts, **{"run.decode_tokens_per_s": 60.0}))
    assert isinstance(found, Found)
    wording(found.because, tells="attention")
    whole, pieces, none = (
        CaseView(vllm(**more)).speed.need_prediction().tokens_per_s.mid
        for more in ({}, facts, {"runtime.compute.eager": True})
    )
    assert whole > 1.1 * pieces > 1.2 * none
    assert isinstance(ask(NAME, vllm(**facts, **{"run.decode_tokens_per_s": 1.1 * whole})), Absent)
    old = vllm(**facts, **{"run.decode_tokens_per_s": 60.0, "runtime.version": "0.10.2"})
    assert isinstance(ask(NAME, old), Absent), "its default leaves attention out as well"
    by_default = CaseView(vllm(**{"runtime.version": "0.10.2"})).speed.need_prediction().tokens_per_s.mid
    assert by_default == pytest.approx(pieces)


def test_report_of_slow_load_is_ruled_out():
    assert isinstance(ask(NAME, pasted(runtime={"eager": True}, slow_metric="load")), Absent)


def test_missing_decode_speed_gives_cannot_tell():
    answer = ask(NAME, without(fires(), "run.decode_tokens_per_s"))
    assert isinstance(answer, CannotTell)
    assert isinstance(ask(NAME, fires()), Found)


def test_llama_cpp_variable_that_disables_graphs_is_found():
    off = with_facts(gpu_case(), {"runtime.process.environment": {"GGML_CUDA_DISABLE_GRAPHS": "1"}})
    slow = with_facts(off, {"run.decode_tokens_per_s": 30.0})
    assert judge(CaseView(slow)).findings[0].cause == NAME
    assert judge(CaseView(slow)).findings[0].cost is not None
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.process.environment": {}})), Absent)


def test_decode_that_waits_for_weights_from_host_memory_is_ruled_out(wording):
    case = vllm(
        **{
            "runtime.compute.eager": True,
            "runtime.placement.cpu_offload_bytes": 10 * GIB,
            "run.decode_tokens_per_s": 1.0,
        }
    )
    answer = ask(NAME, case)
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_small_model_in_vllm_loses_more_than_half_its_speed():
    case = vllm(
        tensor_parallel=1,
        **{"runtime.compute.eager": True, "model.weights_bytes": 3 * GB, "run.decode_tokens_per_s": 42.0},
    )
    finding = judge(CaseView(case)).findings[0]
    assert finding.cause == NAME
    assert finding.speedup > 2


def log_of_unnamed_gpu(gib):
    """What vLLM's log tells: the size of the GPU and of the weights, and no name."""
    case = without(gpu_case(), "machine.gpus")
    facts = {
        "runtime.name": "vLLM",
        "runtime.compute.eager": True,
        "runtime.placement.devices": [SeenDevice(name="GPU0", total_bytes=r(int(gib * GIB)))],
        "runtime.memory.buffers": [Buffer(device="GPU0", kind="model", bytes=15 * GIB, on_gpu=True)],
        "run.decode_tokens_per_s": 59.4,
    }
    return with_facts(case, facts)


@pytest.mark.parametrize(("gib", "found"), [(139.8, True), (23.5, False)])
def test_gpu_of_unknown_name_idles_only_where_every_gpu_of_its_size_would(gib, found, wording):
    case = log_of_unnamed_gpu(gib)
    answer = ask(NAME, case)
    assert isinstance(answer, Found if found else CannotTell)
    if found:
        wording(answer.because)


def test_unnamed_gpu_that_waits_for_its_weights_is_only_suspected():
    assert isinstance(ask(NAME, with_facts(log_of_unnamed_gpu(139.8), {"run.decode_tokens_per_s": 180.0})), CannotTell)
