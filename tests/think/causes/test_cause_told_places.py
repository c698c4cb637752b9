"""Where a model lies, by what reports tell: settings, sizes, and words of programs."""

import pytest
from answers import ask
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu, Machine
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import GB, GIB, told_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

CARD = ["RTX 3090"]
DENSE = {"name": "Llama-3.1-70B", "weights_bytes": 42 * GB, "parameters": 70_000_000_000, "experts": 0}


def first(case) -> str:
    return next((finding.cause for finding in judge(CaseView(case)).findings), "")


@pytest.mark.parametrize(
    ("runtime", "found"),
    [
        ({"name": "llama.cpp", "gpu_layers_set": 1}, True),
        ({"name": "llama.cpp", "gpu_layers_set": 0}, True),
        ({"name": "llama-cpp-python", "gpu_layers": 0, "layers": 33}, True),
        ({"name": "vLLM", "cpu_offload_bytes": 10 * GB}, True),
        ({"name": "llama.cpp", "version": "b2000", "command": ["main", "-m", "x.gguf"]}, True),
        ({"name": "llama.cpp", "command": ["./build/bin/main", "-m", "x.gguf"]}, True),
        ({"name": "llama.cpp", "version": "b8000", "command": ["llama-server", "-m", "x.gguf"]}, False),
        ({"name": "llama.cpp", "version": "b2000", "command": ["main", "--list-devices"]}, False),
        ({"name": "Ollama", "gpu_layers": 0, "layers": 33}, False),
        ({"name": "llama.cpp", "gpu_layers_set": 99}, False),
    ],
)
def test_layers_that_a_setting_keeps_away(runtime, found):
    assert isinstance(ask("gpu_layers_set_too_low", pasted(gpus=CARD, runtime=runtime)), Found) is found


def test_a_number_that_nobody_gave():
    said = says(Topic.LAYERS_UNSET, "started without --n-gpu-layers")
    assert isinstance(ask("gpu_layers_set_too_low", pasted(said, gpus=CARD, runtime={"name": "llamafile"})), Found)
    newer = {"name": "llama.cpp", "version": "b9000"}
    assert not isinstance(ask("gpu_layers_set_too_low", pasted(said, gpus=CARD, runtime=newer)), Found)


def test_none_on_the_gpu_is_a_choice_where_only_the_cpu_is_meant():
    busy = says(Topic.CPU_BUSY, "CPU at 100%")
    case = pasted(busy, gpus=CARD, runtime={"name": "llama.cpp", "gpu_layers_set": 0})
    assert not isinstance(ask("gpu_layers_set_too_low", case), Found)


def test_a_dense_model_that_no_card_here_can_hold():
    case = pasted(gpus=CARD, runtime={"name": "KoboldCpp"}, model=DENSE)
    assert isinstance(ask("weights_spill_to_ram", case), Found)
    assert not isinstance(ask("weights_spill_to_ram", pasted(gpus=CARD, runtime={"name": "vLLM"}, model=DENSE)), Found)
    mixture = DENSE | {"name": "Qwen3-235B-A22B", "experts": 128}
    assert not isinstance(
        ask("weights_spill_to_ram", pasted(gpus=CARD, runtime={"name": "KoboldCpp"}, model=mixture)), Found
    )


def test_sizes_are_silent_where_a_version_was_faster():
    case = pasted(compares(Topic.VERSION, 2, 8), gpus=CARD, runtime={"name": "KoboldCpp"}, model=DENSE)
    assert not isinstance(ask("weights_spill_to_ram", case), Found)


def test_a_split_beside_free_memory_is_no_lack_of_room():
    free = says(Topic.VRAM_FREE, "12 GB of VRAM stay free")
    split = {"name": "Ollama", "gpu_layers": 20, "layers": 33}
    assert isinstance(ask("weights_spill_to_ram", pasted(free, gpus=CARD, runtime=split)), CannotTell)
    assert isinstance(ask("weights_spill_to_ram", pasted(gpus=CARD, runtime=split)), Found)


def test_weights_that_the_runtime_says_it_kept_back():
    said = says(Topic.WEIGHTS_ON_HOST, "Some parameters were offloaded to the cpu")
    assert isinstance(ask("weights_spill_to_ram", pasted(said, gpus=CARD)), Found)


GROWN = {"name": "Ollama", "size_bytes": 156 * GB, "vram_share": 0.59}


def test_a_context_that_drives_the_weights_out():
    large = ["H100 80GB", "H100 80GB"]
    case = pasted(gpus=large, runtime=GROWN | {"context_set": 121_234}, model=DENSE)
    assert first(case) == "context_larger_than_needed"
    short = pasted(gpus=large, runtime=GROWN | {"context_set": 4096}, model=DENSE)
    assert first(short) != "context_larger_than_needed"


def test_slots_that_drive_the_weights_out():
    runtime = {"name": "Ollama", "size_bytes": 32 * GB, "vram_share": 0.64, "slots": 64}
    case = pasted(gpus=CARD, runtime=runtime, model={"name": "Llama-3-8B", "weights_bytes": 5 * GB})
    assert first(case) == "parallel_slots_inflate_kv"


def test_a_context_that_is_only_set_costs_nothing_by_itself():
    trial = compares(Topic.CONTEXT, 7, 60, "num_ctx 4096: 60 tok/s; num_ctx 65536: 7 tok/s")
    assert isinstance(ask("context_larger_than_needed", pasted(trial, gpus=CARD)), Found)
    deep = compares(Topic.CONTEXT, 7, 60, "60 tok/s, at a 64k context 7 tok/s")
    assert not isinstance(ask("context_larger_than_needed", pasted(deep, gpus=CARD)), Found)


def test_a_plan_that_the_gpu_does_not_show():
    used = {"vram_used_bytes": told_fact(6 * GIB, "p"), "vram_total_bytes": told_fact(24 * GIB, "p")}
    plan = {"name": "Ollama", "size_bytes": 52 * GB, "size_vram_bytes": 50 * GB, "vram_share": 0.96}
    assert first(pasted(gpus=CARD * 2, gpu_facts=used, runtime=plan)) == "memory_estimate_too_careful"
    full = used | {"vram_used_bytes": told_fact(23 * GIB, "p")}
    assert first(pasted(gpus=CARD * 2, gpu_facts=full, runtime=plan)) != "memory_estimate_too_careful"


def test_layers_that_fit_by_hand():
    said = says(Topic.LAYERS_FIT_BY_HAND, "num_gpu 256 loads everything into VRAM")
    split = {"name": "Ollama", "gpu_layers": 20, "layers": 33, "gpu_layers_set": 256}
    assert first(pasted(said, gpus=CARD, runtime=split)) == "memory_estimate_too_careful"
    assert first(pasted(gpus=CARD, runtime=split)) != "memory_estimate_too_careful"


def test_memory_that_went_between_the_start_and_the_load():
    device = SeenDevice(name="CUDA0", description="RTX 3090", free_bytes=told_fact(int(10.8 * GIB), "p:1"))
    sums = {"devices": [device], "available_bytes": int(3.5 * GIB), "asked_bytes": int(6.2 * GIB), "gpu_layers": 0}
    case = pasted(gpus=CARD, runtime=sums | {"name": "Ollama", "layers": 41})
    assert isinstance(ask("other_process_holds_vram", case), Found)
    enough = sums | {"available_bytes": 10 * GIB, "name": "Ollama", "layers": 41}
    assert not isinstance(ask("other_process_holds_vram", pasted(gpus=CARD, runtime=enough)), Found)


def test_two_services_on_one_gpu():
    shared = says(Topic.GPU_SHARED, "two services share the same GPUs")
    trial = compares(Topic.GPU_COUNT, 1, 2, "alone normal, both twice as slow")
    assert isinstance(ask("gpu_shared_with_other_work", pasted(shared, trial, gpus=CARD)), Found)
    assert isinstance(ask("gpu_shared_with_other_work", pasted(shared, gpus=CARD)), CannotTell)
    reverse = compares(Topic.CONCURRENCY, 10, 30, "alone 10 t/s, both together 30 t/s")
    assert isinstance(ask("gpu_shared_with_other_work", pasted(shared, reverse, gpus=CARD)), CannotTell)


def test_experts_on_the_cpu_beside_room_on_the_gpu():
    away = says(Topic.EXPERTS_ON_CPU, "expert weights onto CPU is on")
    room = says(Topic.VRAM_FREE, "much of the GPU memory stays free")
    model = {"name": "gpt-oss-120b", "experts": 128}
    assert isinstance(ask("experts_on_cpu", pasted(away, room, gpus=CARD, model=model)), Found)
    assert isinstance(ask("experts_on_cpu", pasted(away, gpus=CARD, model=model)), CannotTell)
    slow_prompt = pasted(away, room, gpus=CARD, model=model, slow_metric="prefill")
    assert not isinstance(ask("experts_on_cpu", slow_prompt), Found)


def test_a_gpu_that_counts_as_busy_and_reads_nothing():
    idle = says(Topic.MEMORY_BUS_IDLE, "GPU 100%, memory bandwidth 2%")
    full = says(Topic.VRAM_FULL, "VRAM is full")
    spill = "driver_spills_to_shared_memory"
    assert isinstance(ask(spill, pasted(idle, full, gpus=CARD, system="Windows")), Found)
    assert not isinstance(ask(spill, pasted(idle, full, gpus=CARD, system="Linux")), Found)


def test_a_processor_alone_needs_no_layers():
    case = pasted(runtime={"name": "llama.cpp", "gpu_layers_set": 1})
    nothing = case.__class__(machine=Machine(gpus=told_fact((), "p")), runtime=case.runtime, account=case.account)
    assert isinstance(ask("gpu_layers_set_too_low", nothing), Absent)
    assert Gpu(index=0) not in nothing.machine.gpus.need()
