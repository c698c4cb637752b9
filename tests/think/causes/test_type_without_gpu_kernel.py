from answers import ask
from cases import gpu_case, with_facts
from seen_live import at_depths
from told import compares, pasted

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt
from unslow.facts.runtime import FACT_PATHS, Buffer
from unslow.facts.values import GIB, MIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "type_without_gpu_kernel"
Q5_1 = {"name": "llama.cpp", "kv_type_k": "q5_1", "kv_type_v": "q5_1", "flash_attention": True}


def fires():
    return with_facts(gpu_case(), {"runtime.placement.graph_splits": 66, "run.decode_tokens_per_s": 20.0})


def test_graph_splits_in_every_layer_are_found():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert "66 times" in report.findings[0].because


def test_two_graph_splits_are_ruled_out():
    facts = {"runtime.placement.graph_splits": 2, "runtime.cache.type_k": "q8_0", "runtime.cache.type_v": "q8_0"}
    assert isinstance(ask(NAME, with_facts(gpu_case(), facts)), Absent)


def test_graph_splits_due_to_cache_or_experts_on_host_are_not_found():
    on_host = [Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False)]
    assert not isinstance(ask(NAME, with_facts(fires(), {"runtime.memory.buffers": on_host})), Found)
    experts = {"runtime.placement.tensor_overrides": ["exps=CPU"], "model.experts": 64}
    assert not isinstance(ask(NAME, with_facts(fires(), experts)), Found)


def test_all_layers_on_a_gpu_that_holds_one_mib_is_found():
    buffers = [
        Buffer(device="CUDA0", kind="model", bytes=MIB, on_gpu=True),
        Buffer(device="CPU", kind="model", bytes=3 * GIB, on_gpu=False),
    ]
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.memory.buffers": buffers})), Found)


def test_kv_type_that_usual_builds_lack_is_found_in_a_report():
    report = judge(CaseView(pasted(gpus=["RTX 4080"], runtime=Q5_1, slow_metric="prefill")))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value == "q8_0"


def test_build_with_all_kernels_or_q8_0_cache_is_not_found():
    full = Q5_1 | {"build_features": ["ARCHS", "FA_ALL_QUANTS"]}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4080"], runtime=full)), Absent)
    usual = Q5_1 | {"kv_type_k": "q8_0", "kv_type_v": "q8_0"}
    assert not isinstance(ask(NAME, pasted(gpus=["RTX 4080"], runtime=usual)), Found)


def test_bf16_is_found_on_an_old_build_and_ruled_out_on_a_new_one():
    old = {"name": "llama.cpp", "version": "b3556"}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=old, model={"quant": "BF16"})), Found)
    new = {"name": "llama.cpp", "version": "b6000"}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=new, model={"quant": "BF16"})), Absent)


def test_trial_of_types_gives_the_speedup():
    trial = compares(Topic.QUANT_TYPE, 5.62, 191.95, "bf16 eval 5.62 tps, fp16 191.95")
    finding = judge(CaseView(pasted(trial, gpus=["RTX 3090"]))).findings[0]
    assert finding.cause == NAME
    assert finding.speedup > 30
    cache = compares(Topic.KV_TYPE, 200.0, 1600.0, "q5_1 against f16", metric="prefill")
    assert isinstance(ask(NAME, pasted(cache, gpus=["RTX 4080"])), Found)


def test_slightly_slower_larger_type_gives_cannot_tell():
    trial = compares(Topic.QUANT_TYPE, 60.0, 100.0, "q8_0 60 tok/s, q4_0 100 tok/s")
    assert isinstance(ask(NAME, pasted(trial, gpus=["RTX 3090"])), CannotTell)


def rare(*speeds):
    live = with_facts(gpu_case(), {f"runtime.{FACT_PATHS[k]}": v for k, v in Q5_1.items()})
    return at_depths(live, *speeds) if speeds else live


def test_rare_kv_type_that_slows_down_with_depth_is_found():
    answer = ask(NAME, rare((100, 120.0), (7000, 15.0)))
    assert isinstance(answer, Found)
    assert answer.speedup > 4


def test_rare_kv_type_at_expected_speed_with_depth_is_ruled_out():
    assert isinstance(ask(NAME, rare((100, 130.0), (7000, 115.0))), Absent)


def test_rare_kv_type_without_speeds_at_depth_asks_for_them():
    answer = ask(NAME, rare())
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.depths"


def test_slow_decode_that_does_not_fall_with_depth_is_ruled_out(wording):
    slow = with_facts(rare((100, 40.0), (7000, 36.0)), {"run.decode_tokens_per_s": 40.0, "runtime.version": "b9999"})
    answer = ask(NAME, slow)
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_rare_kv_type_with_far_too_slow_prefill_is_found(wording):
    answer = ask(NAME, with_facts(rare(), {"run.long_prompt": LongPrompt(tokens=2048, seconds=10.0)}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="205")
    assert not isinstance(
        ask(NAME, with_facts(rare(), {"run.long_prompt": LongPrompt(tokens=2048, seconds=0.4)})), Found
    )


def test_newer_builds_convert_every_kv_type_except_iq4_nl():
    new = with_facts(rare(), {"runtime.version": "b11200", "run.decode_tokens_per_s": 30.0})
    assert isinstance(ask(NAME, new), CannotTell)
    assert isinstance(ask(NAME, with_facts(new, {"runtime.build.features": ["ARCHS", "FA_QUANTS"]})), Absent)
    warned = ["no FlashAttention vector kernel compiled for K/V types q5_1-q5_1, converting K and V to f16 instead"]
    assert isinstance(ask(NAME, with_facts(new, {"runtime.history.warnings": warned})), Absent)
    without = {
        "runtime.cache.type_k": "iq4_nl",
        "runtime.cache.type_v": "iq4_nl",
        "runtime.build.features": ["FA_QUANTS"],
    }
    assert isinstance(ask(NAME, with_facts(new, without)), Found)


def test_rare_kv_type_in_a_slow_old_build_is_found():
    assert isinstance(
        ask(NAME, with_facts(rare(), {"runtime.version": "b8000", "run.decode_tokens_per_s": 30.0})), Found
    )
