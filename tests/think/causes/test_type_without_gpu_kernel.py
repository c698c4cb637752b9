from answers import ask
from cases import gpu_case, with_facts
from seen_live import at_depths
from told import compares, pasted

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, MIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "type_without_gpu_kernel"
Q5_1 = {"name": "llama.cpp", "kv_type_k": "q5_1", "kv_type_v": "q5_1", "flash_attention": True}


def fires():
    return with_facts(gpu_case(), {"runtime.graph_splits": 66, "run.decode_tokens_per_s": 20.0})


def test_work_that_leaves_the_gpu_in_every_layer():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert "66 times" in report.findings[0].because


def test_near_miss_two_splits():
    facts = {"runtime.graph_splits": 2, "runtime.kv_type_k": "q8_0", "runtime.kv_type_v": "q8_0"}
    assert isinstance(ask(NAME, with_facts(gpu_case(), facts)), Absent)


def test_a_cache_on_the_host_or_experts_there_split_it_too():
    on_host = [Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False)]
    assert not isinstance(ask(NAME, with_facts(fires(), {"runtime.buffers": on_host})), Found)
    experts = {"runtime.tensor_overrides": ["exps=CPU"], "model.experts": 64}
    assert not isinstance(ask(NAME, with_facts(fires(), experts)), Found)


def test_all_layers_on_a_gpu_that_holds_one_mib():
    buffers = [
        Buffer(device="CUDA0", kind="model", bytes=MIB, on_gpu=True),
        Buffer(device="CPU", kind="model", bytes=3 * GIB, on_gpu=False),
    ]
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.buffers": buffers})), Found)


def test_a_cache_type_that_usual_builds_lack():
    report = judge(pasted(gpus=["RTX 4080"], runtime=Q5_1, slow_metric="prefill"))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value == "q8_0"


def test_builds_with_all_kernels_and_types_that_all_have():
    full = Q5_1 | {"build_features": ["ARCHS", "FA_ALL_QUANTS"]}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4080"], runtime=full)), Absent)
    usual = Q5_1 | {"kv_type_k": "q8_0", "kv_type_v": "q8_0"}
    assert not isinstance(ask(NAME, pasted(gpus=["RTX 4080"], runtime=usual)), Found)


def test_bf16_on_an_old_build():
    old = {"name": "llama.cpp", "version": "b3556"}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=old, model={"quant": "BF16"})), Found)
    new = {"name": "llama.cpp", "version": "b6000"}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=new, model={"quant": "BF16"})), Absent)


def test_an_experiment_with_types_gives_the_price():
    trial = compares(Topic.QUANT_TYPE, 5.62, 191.95, "bf16 eval 5.62 tps, fp16 191.95")
    finding = judge(pasted(trial, gpus=["RTX 3090"])).findings[0]
    assert finding.cause == NAME
    assert finding.speedup > 30
    cache = compares(Topic.KV_TYPE, 200.0, 1600.0, "q5_1 against f16", metric="prefill")
    assert isinstance(ask(NAME, pasted(cache, gpus=["RTX 4080"])), Found)


def test_a_larger_type_that_is_a_little_slower_is_its_bytes():
    trial = compares(Topic.QUANT_TYPE, 60.0, 100.0, "q8_0 60 tok/s, q4_0 100 tok/s")
    assert isinstance(ask(NAME, pasted(trial, gpus=["RTX 3090"])), CannotTell)


def rare(*speeds):
    live = with_facts(gpu_case(), {f"runtime.{k}": v for k, v in Q5_1.items()})
    return at_depths(live, *speeds) if speeds else live


def test_a_rare_cache_that_falls_off_with_depth():
    answer = ask(NAME, rare((100, 120.0), (7000, 15.0)))
    assert isinstance(answer, Found)
    assert answer.speedup > 4


def test_near_miss_a_rare_cache_that_this_build_has_kernels_for():
    assert isinstance(ask(NAME, rare((100, 130.0), (7000, 115.0))), Absent)


def test_a_good_speed_at_the_start_of_a_chat_proves_nothing():
    answer = ask(NAME, rare())
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.depths"


def test_a_type_is_no_proof_where_it_was_tried_and_something_else_is_slow(wording):
    slow = with_facts(rare((100, 40.0), (7000, 36.0)), {"run.decode_tokens_per_s": 40.0, "runtime.version": "b9999"})
    answer = ask(NAME, slow)
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_a_prompt_that_is_read_many_times_too_slowly(wording):
    answer = ask(NAME, with_facts(rare(), {"run.long_prompt": LongPrompt(tokens=2048, seconds=10.0)}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="205")
    assert not isinstance(
        ask(NAME, with_facts(rare(), {"run.long_prompt": LongPrompt(tokens=2048, seconds=0.4)})), Found
    )


def test_newer_builds_convert_the_cache_on_the_gpu_but_for_one_type():
    new = with_facts(rare(), {"runtime.version": "b11200", "run.decode_tokens_per_s": 30.0})
    assert isinstance(ask(NAME, new), CannotTell)
    assert isinstance(ask(NAME, with_facts(new, {"runtime.build_features": ["ARCHS", "FA_QUANTS"]})), Absent)
    warned = ["no FlashAttention vector kernel compiled for K/V types q5_1-q5_1, converting K and V to f16 instead"]
    assert isinstance(ask(NAME, with_facts(new, {"runtime.warnings": warned})), Absent)
    without = {"runtime.kv_type_k": "iq4_nl", "runtime.kv_type_v": "iq4_nl", "runtime.build_features": ["FA_QUANTS"]}
    assert isinstance(ask(NAME, with_facts(new, without)), Found)


def test_an_old_build_that_is_slow():
    assert isinstance(
        ask(NAME, with_facts(rare(), {"runtime.version": "b8000", "run.decode_tokens_per_s": 30.0})), Found
    )
