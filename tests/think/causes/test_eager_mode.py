from answers import ask
from cases import gpu_case, with_facts, without
from engines import vllm
from told import compares, pasted

from unslow.facts.account import Topic
from unslow.facts.values import GB, GIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "eager_mode"


def fires():
    return with_facts(gpu_case(), {"runtime.eager": True, "run.decode_tokens_per_s": 30.0})


def test_graphs_off_and_far_below_what_the_gpu_gives():
    report = judge(fires())
    assert NAME in [f.cause for f in report.findings]


def test_a_setting_and_a_complaint_about_one_stream():
    report = judge(pasted(gpus=["RTX A6000"], runtime={"name": "vLLM", "eager": True}))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].knob == "graphs"


def test_an_experiment_gives_the_price():
    trial = compares(Topic.GRAPHS, 11.0, 33.0, "--enforce-eager: 11 tok/s, without it 33 tok/s")
    finding = judge(pasted(trial, gpus=["RTX A6000"], runtime={"eager": True})).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 3


def test_a_trial_in_which_graphs_are_the_slow_side_or_nobody_tells():
    slower = compares(Topic.GRAPHS, 50.0, 70.0, "GGML_CUDA_DISABLE_GRAPHS=1 gives 70 t/s, default 50 t/s")
    assert not isinstance(ask(NAME, pasted(slower, gpus=["RTX A6000"])), Found)
    untold = ask(NAME, pasted(compares(Topic.GRAPHS, 50.0, 70.0, "graphs: 50 or 70"), gpus=["RTX A6000"]))
    assert isinstance(untold, CannotTell)
    assert untold.suspected


def test_near_miss_at_full_speed_or_with_many_requests():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 130.0})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.running_requests": 64})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.eager": False})), Absent)


def test_a_complaint_about_another_phase():
    assert isinstance(ask(NAME, pasted(runtime={"eager": True}, slow_metric="load")), Absent)


def test_without_a_speed_it_is_a_suspicion():
    answer = ask(NAME, without(fires(), "run.decode_tokens_per_s"))
    assert isinstance(answer, CannotTell)
    assert isinstance(ask(NAME, fires()), Found)


def test_llama_cpp_is_told_by_a_variable():
    off = with_facts(gpu_case(), {"runtime.environment": {"GGML_CUDA_DISABLE_GRAPHS": "1"}})
    slow = with_facts(off, {"run.decode_tokens_per_s": 30.0})
    assert judge(slow).findings[0].cause == NAME
    assert judge(slow).findings[0].cost is not None
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.environment": {}})), Absent)


def test_near_miss_a_token_that_waits_for_weights_from_the_host(wording):
    case = vllm(**{"runtime.eager": True, "runtime.cpu_offload_bytes": 10 * GIB, "run.decode_tokens_per_s": 1.0})
    answer = ask(NAME, case)
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_an_engine_in_python_loses_much_of_a_small_model():
    case = vllm(
        tensor_parallel=1, **{"runtime.eager": True, "model.weights_bytes": 3 * GB, "run.decode_tokens_per_s": 42.0}
    )
    finding = judge(case).findings[0]
    assert finding.cause == NAME
    assert finding.speedup > 2
