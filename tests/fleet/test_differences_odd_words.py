"""A difference as a person says it."""

import pytest

from unslow.fleet.differences import difference_words, fact_words, summary_of, value_words
from unslow.fleet.report import Difference


def differs(fact, value, peers, share=1.0):
    return Difference(fact=fact, value=value, peers=peers, share=share)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("machine.gpus.0.power_limit_w", 350.0, "350 W"),
        ("machine.gpus.0.clock_hz", 1.41e9, "1,410 MHz"),
        ("machine.gpus.0.temperature_c", 87.5, "87.5 °C"),
        ("machine.memory.swap_used_bytes", 9 * 1024**3, "9 GiB"),
        ("machine.memory.read_bytes_per_s", 51.2e9, "51.2 GB/s"),
        ("run.traffic.cache_used", 0.97, "97%"),
        ("run.gpus.2.event_reasons", "hw_thermal_slowdown, sw_thermal_slowdown", "heat"),
        ("run.gpus.0.event_reasons", "sw_power_cap, unheard_of", "a power limit and unheard_of"),
        ("run.gpus.0.event_reasons", "none", "none"),
        ("runtime.compute.eager", True, "yes"),
        ("runtime.cache.prompt_cache", False, "no"),
        ("runtime.compute.quantization", "", "none"),
        ("runtime.version", "0.9.1", "0.9.1"),
        ("runtime.scheduling.max_sequences", 1024, "1,024"),
        ("runtime.scheduling.keep_alive_s", 300.0, "300 s"),
    ],
)
def test_values_have_the_units_of_their_names(path, value, words):
    assert value_words(path, value) == words


def test_facts_have_readable_names():
    assert fact_words("machine.gpus.0.power_limit_w") == "power limit"
    assert fact_words("machine.gpus.5.power_limit_w") == "power limit of GPU 5"
    assert fact_words("machine.gpus.0.vram_free_bytes") == "GPU memory free"
    assert fact_words("machine.gpus.3.driver") == "GPU driver of GPU 3"
    assert fact_words("machine.memory.swap_used_bytes") == "swap in use"


def test_summary_names_the_first_difference_and_lists_the_others(wording):
    power, version = differs("machine.gpus.0.power_limit_w", 350.0, 700.0), differs("runtime.version", "1", "2")
    wording(summary_of(0.54, 11, [power]), tells=("54%", "350 W", "11"))
    assert summary_of(0.54, 11, [power, version]).endswith("; also version 1")
    three = summary_of(0.54, 11, [power, version, differs("runtime.compute.eager", True, peers=False)])
    wording(three)


def test_partial_agreement_of_peers_is_stated_as_a_share(wording):
    wording(difference_words(differs("runtime.version", "1", "2", 0.9), 20), tells=("90%", "20"))


def test_values_equal_after_rounding_are_written_in_full():
    said = difference_words(differs("machine.gpus.0.power_limit_w", 700.2, 700.4), 9)
    assert "700.2" in said
    assert "700.4" in said
