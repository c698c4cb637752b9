import pytest

from unslow.show.labels import label, worded_value


@pytest.mark.parametrize(
    ("fact", "value", "tells"),
    [
        ("runtime.vram_share", 0.45, "45%"),
        ("runtime.gpu_layers", 38, "38"),
        ("model.parameters", 8_030_261_248, "8.03B"),
        ("runtime.flash_attention", True, "on"),
        ("runtime.eager", False, "no"),
        ("runtime.tensor_overrides", "['-ncmoe 36', 'exps=CPU']", "-ncmoe 36; exps=CPU"),
        ("runtime.environment", "{'CUDA_VISIBLE_DEVICES': '', 'X': '1'}", "CUDA_VISIBLE_DEVICES=; X=1"),
        ("runtime.devices.0.free_bytes", 2**30, "1.0 GiB"),
        ("machine.gpus.1.clock_hz", 1.5e9, "1,500 MHz"),
        ("run.others_cpus", 2.5, "2.5"),
    ],
)  # fmt: skip
def test_facts_in_plain_words(fact, value, tells, wording):
    wording(f"{label(fact)}: {worded_value(fact, value)}", tells=f": {tells}")
