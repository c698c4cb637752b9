import msgspec
from answers import ask
from cases import gpu_case, with_facts, without
from told import compares, pasted

from unslow.facts.account import Account, Topic
from unslow.facts.values import told_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "slow_kernel_for_architecture"
AWQ = {"name": "vLLM", "quantization": "awq"}


def fires():
    return pasted(gpus=["RTX 4090"], runtime=AWQ)


def test_plain_awq_where_marlin_is_available_is_found():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value == "awq_marlin"


def test_marlin_in_use_or_gpu_too_old_for_it_is_ruled_out():
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4090"], runtime=AWQ | {"kernel": "awq_marlin"})), Absent)
    turing = {"compute_capability": told_fact("7.0", "paste:2")}
    assert isinstance(ask(NAME, pasted(gpus=["Tesla V100"], runtime=AWQ, gpu_facts=turing)), Absent)


def test_report_of_slow_load_is_ruled_out():
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4090"], runtime=AWQ, slow_metric="load")), Absent)


def test_16_bit_engine_on_pascal_is_found():
    report = judge(CaseView(pasted(gpus=["Tesla P40"], runtime={"name": "exllamav2"})))
    assert report.findings[0].cause == NAME
    assert "64 times slower" in report.findings[0].because


def test_p100_and_llama_cpp_on_pascal_are_ruled_out():
    assert isinstance(ask(NAME, pasted(gpus=["Tesla P100 PCIe 16GB"], runtime={"name": "exllamav2"})), Absent)
    assert isinstance(ask(NAME, pasted(gpus=["Tesla P40"], runtime={"name": "llama.cpp"})), Absent)


def test_trial_gives_the_speedup():
    finding = judge(CaseView(pasted(compares(Topic.KERNEL, 23.0, 115.0), gpus=["RTX 4090"]))).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 5


def test_trial_with_flash_attention_slower_is_found():
    trial = compares(Topic.FLASH_ATTENTION, 10.0, 25.0, "-fa on is slower")
    case = pasted(trial, gpus=["RX 6800"], runtime={"name": "llama.cpp", "flash_attention": True})
    assert isinstance(ask(NAME, case), Found)


def test_trial_with_flash_attention_faster_is_ruled_out():
    trial = compares(Topic.FLASH_ATTENTION, 50.0, 100.0, "-fa off 50 t/s, -fa on 100 t/s")
    on = {"name": "llama.cpp", "flash_attention": True}
    assert isinstance(ask(NAME, pasted(trial, gpus=["RTX 3090"], runtime=on)), Absent)
    untold = compares(Topic.FLASH_ATTENTION, 50.0, 100.0, "flash attention: 50 or 100")
    assert not isinstance(ask(NAME, pasted(untold, gpus=["RTX 3090"], runtime=on)), Found)


def test_plain_kernel_at_expected_speed_is_ruled_out_and_without_speed_suspected():
    case = with_facts(gpu_case(), {"runtime.name": "vLLM", "runtime.compute.quantization": "awq"})
    fast = ask(NAME, case)
    assert isinstance(fast, Absent)
    assert isinstance(ask(NAME, without(case, "run.decode_tokens_per_s")), CannotTell)


def test_warning_of_the_runtime_is_found_without_a_report():
    line = "gptq quantization is not fully optimized yet. The speed can be slower than non-quantized models."
    runtime = {"name": "vLLM", "quantization": "gptq", "warnings": [line]}
    case = msgspec.structs.replace(pasted(gpus=["A100 80GB PCIe"], runtime=runtime), account=Account())
    assert isinstance(ask(NAME, case), Found)


def test_16_bit_engine_is_known_from_the_model_format():
    model = {"name": "Mistral-7B", "quant": "4.0bpw"}
    assert isinstance(ask(NAME, pasted(gpus=["GTX 1080 Ti"], model=model)), Found)


def test_gguf_and_bitsandbytes_in_other_engines_are_found_unless_fast():
    for name, runtime in (("gguf", "vLLM"), ("bitsandbytes", "vLLM"), ("bitsandbytes", "Transformers")):
        report = judge(CaseView(pasted(gpus=["RTX 4090"], runtime={"name": runtime, "quantization": name})))
        assert report.findings[0].cause == NAME
        assert report.findings[0].fixes[0].knob == "quant"
    fast = with_facts(gpu_case(), {"runtime.name": "vLLM", "runtime.compute.quantization": "gguf"})
    assert isinstance(ask(NAME, fast), Absent), "as fast as the memory allows"
    assert isinstance(ask(NAME, pasted(gpus=["RTX 4090"], runtime={"name": "vLLM", "quantization": "fp8"})), Absent)
