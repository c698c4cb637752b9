import pytest
from written import one_change

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.runtime import Runtime
from unslow.facts.values import GIB, reported_fact
from unslow.look.runtimes import ollama

LINUX = Runtime(version=reported_fact("0.33.0", "x"))
OLD = Runtime(version=reported_fact("0.4.2", "x"))
WINDOWS = Runtime().with_facts(environment=reported_fact({"OLLAMA_MODELS": "C:\\Users\\me\\.ollama\\models"}, "x"))
MAC = Runtime().with_facts(command=reported_fact(["/Applications/Ollama.app/Contents/Resources/ollama", "serve"], "x"))
BOXED = Runtime().with_facts(container=reported_fact("docker", "x"))


def words(knob: Knob, value: Setting, runtime: Runtime = LINUX) -> str:
    return "\n".join(one_change(ollama, Change(knob, value), runtime))


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        (Knob.CONTEXT_LENGTH, 8192, "/set parameter num_ctx 8192"),
        (Knob.CONTEXT_LENGTH, 8192, "OLLAMA_CONTEXT_LENGTH=8192"),
        (Knob.GPU_LAYERS, 20, "PARAMETER num_gpu 20"),
        (Knob.GPU_LAYERS, None, "/set parameter num_gpu -1"),
        (Knob.FIT, True, "/set parameter num_gpu -1"),
        (Knob.FIT_MARGIN, GIB // 2, "LLAMA_ARG_FIT_TARGET=512"),
        (Knob.KV_CACHE_TYPE, "q8_0", "OLLAMA_KV_CACHE_TYPE=q8_0"),
        (Knob.FLASH_ATTENTION, True, "OLLAMA_FLASH_ATTENTION=1"),
        (Knob.PARALLEL, 1, "OLLAMA_NUM_PARALLEL=1"),
        (Knob.BATCH, 1024, '"options": {"num_batch": 1024}'),
        (Knob.THREADS, 8, "num_thread 8"),
        (Knob.SPLIT_MODE, "none", "main_gpu 0"),
        (Knob.SPLIT_MODE, "layer", "OLLAMA_SCHED_SPREAD=1"),
        (Knob.EXPERTS_ON_CPU, 12, "LLAMA_ARG_N_CPU_MOE=12"),
        (Knob.LOAD_MODE, "none", "use_mmap false"),
        (Knob.KEEP_ALIVE, -1, "OLLAMA_KEEP_ALIVE=-1"),
        (Knob.SPECULATIVE, 0, "draft_num_predict 0"),
        (Knob.SAMPLER, 40, "top_k 40"),
        (Knob.QUANT, "Q4_K_M", "Q4_K_M"),
        (Knob.VERSION, "0.32.1", "OLLAMA_VERSION=0.32.1"),
        (Knob.OTHER_PROCESS, 7, "ollama stop MODEL"),
        (Knob.DEVICE, "CUDA1", "CUDA_VISIBLE_DEVICES=1"),
    ],
)
def test_each_knob_has_its_ollama_setting(knob: Knob, value: Setting, expected: str):
    assert expected in words(knob, value)


def test_a_total_context_is_divided_by_ollama_slots():
    runtime = Runtime().with_facts(version=LINUX.version, slots=reported_fact(4, "x"))
    assert "num_ctx 4096" in words(Knob.CONTEXT_LENGTH, 16384, runtime)


def test_a_variable_is_set_where_the_ollama_server_runs(wording):
    linux = one_change(ollama, Change(Knob.PARALLEL, 2), LINUX)
    folder = "/etc/systemd/system/ollama.service.d"
    unit = "printf '%s\\n' '[Service]' 'Environment=\"OLLAMA_NUM_PARALLEL=2\"'"
    assert linux[:2] == [
        f"sudo mkdir -p {folder} && {unit} | sudo tee {folder}/zz-OLLAMA_NUM_PARALLEL.conf",
        "sudo systemctl daemon-reload && sudo systemctl restart ollama",
    ]
    assert 'setx OLLAMA_NUM_PARALLEL "2"' in words(Knob.PARALLEL, 2, WINDOWS)
    assert 'launchctl setenv OLLAMA_NUM_PARALLEL "2"' in words(Knob.PARALLEL, 2, MAC)
    (boxed,) = one_change(ollama, Change(Knob.PARALLEL, 2), BOXED)
    wording(boxed, tells="`-e OLLAMA_NUM_PARALLEL=2`")


def test_old_ollama_versions_use_other_settings_or_none():
    assert "OLLAMA_CONTEXT_LENGTH" not in words(Knob.CONTEXT_LENGTH, 8192, OLD)
    assert words(Knob.KV_CACHE_TYPE, "q8_0", OLD) == ""
    later = Runtime(version=reported_fact("0.12.0", "x"))
    assert "OLLAMA_FLASH_ATTENTION=1" in words(Knob.KV_CACHE_TYPE, "q8_0", later)
    assert words(Knob.EXPERTS_ON_CPU, 12, OLD) == ""
    assert f"OLLAMA_GPU_OVERHEAD={GIB}" in words(Knob.FIT_MARGIN, GIB, OLD)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("amdgpu devices detected but permission problems block access", "usermod -a -G render,video ollama"),
        ("amdgpu is not supported: gfx1035", "HSA_OVERRIDE_GFX_VERSION=10.3.0"),
        ("gfx803 is not supported", "OLLAMA_VULKAN=1"),
        ("dropping integrated GPU; to enable, set OLLAMA_IGPU_ENABLE=1", "OLLAMA_IGPU_ENABLE=1"),
        ("NVIDIA driver too old: 570 or newer", "newer GPU driver"),
        ("no compatible GPUs were discovered", "install.sh"),
    ],
)
def test_each_gpu_refusal_has_its_own_fix(reason: str, expected: str):
    assert expected in words(Knob.GPU_BACKEND, None, Runtime().with_facts(gpu_refused=reported_fact(reason, "log:1")))


def test_a_hidden_gpu_is_made_visible_and_a_container_gets_gpus():
    hidden = Runtime().with_facts(environment=reported_fact({"CUDA_VISIBLE_DEVICES": "-1"}, "x"))
    assert "CUDA_VISIBLE_DEVICES" in words(Knob.GPU_BACKEND, None, hidden)
    assert "--gpus all" in words(Knob.GPU_BACKEND, None, BOXED)


def test_switching_from_vulkan_to_cuda_disables_vulkan():
    used = Runtime().with_facts(device_used=reported_fact("Vulkan0", "x"))
    assert "OLLAMA_VULKAN=0" in words(Knob.DEVICE, "CUDA0", used)


def test_a_knob_without_an_ollama_setting_gives_no_lines():
    assert one_change(ollama, Change(Knob.PROMPT_CACHE, value=True), LINUX) == []
    assert one_change(ollama, Change(Knob.BATCH, None), LINUX) == []


COMPOSED = Runtime().with_facts(container=reported_fact("docker compose", "x"))


def test_changes_for_a_compose_service_edit_the_compose_file():
    assert one_change(ollama, Change(Knob.PARALLEL, 2), COMPOSED) == [
        'in the compose file: environment:\n  OLLAMA_NUM_PARALLEL: "2"',
        "docker compose up -d",
    ]
    assert "driver: nvidia" in words(Knob.GPU_BACKEND, "CUDA", COMPOSED)
    assert "rocm" not in words(Knob.GPU_BACKEND, "CUDA", COMPOSED)
    assert "/dev/kfd" in words(Knob.GPU_BACKEND, "ROCm", COMPOSED)
    assert (
        one_change(ollama, Change(Knob.VERSION, "0.6.2"), COMPOSED)[0]
        == "in the compose file: image: ollama/ollama:0.6.2"
    )


def test_no_gpu_vendor_gets_the_instructions_of_another():
    assert "kfd" not in words(Knob.GPU_BACKEND, "CUDA", BOXED)
    assert "--gpus" not in words(Knob.GPU_BACKEND, "ROCm", BOXED)
    assert "rocminfo" not in words(Knob.GPU_BACKEND, "CUDA")


def test_a_quantized_cache_sets_flash_attention_if_the_version_is_unknown():
    assert "OLLAMA_FLASH_ATTENTION=1" in words(Knob.KV_CACHE_TYPE, "q8_0", Runtime())
    assert "OLLAMA_FLASH_ATTENTION" not in words(Knob.KV_CACHE_TYPE, "q8_0", LINUX)


def test_thinking_is_disabled_for_a_run_a_chat_or_a_request():
    assert words(Knob.THINKING, None).splitlines() == [
        "ollama run MODEL --think=false",
        "in a chat: /set nothink",
        'in a request: "think": false',
    ]
