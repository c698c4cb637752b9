import pytest

from unslow.show.units import label, value_text


@pytest.mark.parametrize(
    ("fact", "value", "tells"),
    [
        ("runtime.memory.vram_share", 0.45, "45%"),
        ("runtime.placement.gpu_layers", 38, "38"),
        ("model.parameters", 8_030_261_248, "8.03B"),
        ("runtime.compute.flash_attention", True, "on"),
        ("runtime.compute.eager", False, "no"),
        ("runtime.placement.tensor_overrides", "['-ncmoe 36', 'exps=CPU']", "-ncmoe 36; exps=CPU"),
        ("runtime.process.environment", "{'CUDA_VISIBLE_DEVICES': '', 'X': '1'}", "CUDA_VISIBLE_DEVICES=; X=1"),
        ("runtime.placement.devices.0.free_bytes", 2**30, "1.0 GiB"),
        ("machine.gpus.1.clock_hz", 1.5e9, "1,500 MHz"),
        ("run.others_cpus", 2.5, "2.5"),
    ],
)  # fmt: skip
def test_fact_labels_and_values_are_in_plain_words(fact, value, tells, wording):
    wording(f"{label(fact)}: {value_text(fact, value)}", tells=f": {tells}")
