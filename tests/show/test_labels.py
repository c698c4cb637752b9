import pytest

from unslow.show.labels import label, worded_value


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("runtime.vram_share", 0.45, "share of the model in GPU memory: 45%"),
        ("runtime.gpu_layers", 38, "layers on the GPU: 38"),
        ("model.parameters", 8_030_261_248, "parameters: 8.03B"),
        ("runtime.flash_attention", True, "flash attention: on"),
        ("runtime.eager", False, "graphs switched off: no"),
        ("runtime.tensor_overrides", "['-ncmoe 36', 'exps=CPU']", "tensors placed by a setting: -ncmoe 36; exps=CPU"),
        ("runtime.environment", "{'CUDA_VISIBLE_DEVICES': '', 'X': '1'}", "environment: CUDA_VISIBLE_DEVICES=; X=1"),
        ("runtime.devices.0.free_bytes", 2**30, "free memory of GPU 0: 1.0 GiB"),
        ("machine.gpus.1.clock_hz", 1.5e9, "clock of GPU 1: 1,500 MHz"),
        ("run.others_cpus", 2.5, "CPUs that other programs used: 2.5"),
    ],
)  # fmt: skip
def test_facts_in_plain_words(fact, value, words):
    assert f"{label(fact)}: {worded_value(fact, value)}" == words
