"""The quants that a plan chooses from."""

import math

from unslow.commands.models.find import find_gguf_model
from unslow.commands.plan.gguf import OTHER_QUANTS, machine_words, variants_of
from unslow.facts.model import Blueprint
from unslow.look.system.live import LiveSystem
from unslow.think.hardware import Room


def quants(most_bytes: float) -> dict[str, bool]:
    """Each, and whether it is there for being the first that fits so many bytes."""

    def fits(plan: Blueprint) -> bool:
        return sum(tensor.bytes for tensor in plan.tensors) <= most_bytes

    found = find_gguf_model(LiveSystem(), "llama-3.1-8b", "Q4_K_M")
    return {variant.quant: variant.whole for variant in variants_of(None, found, fits)}


def test_very_small_quant_is_offered_only_where_it_is_the_first_to_fit() -> None:
    usual = dict.fromkeys(OTHER_QUANTS, False)
    assert quants(math.inf) == quants(3.3e9) == usual
    assert quants(3.0e9) == {**usual, "IQ2_M": True}
    assert quants(2.7e9) == {**usual, "IQ2_XS": True}
    assert quants(1e9) == usual


def test_machine_words_count_devices_and_use_mib_for_small_hosts(wording) -> None:
    assert machine_words(["A", "B", "A"], None) == "2x A, B"
    wording(machine_words(["A"], Room("host", 700 * 2**20)), tells="700 MiB")
    assert machine_words(["A"], Room("host", 64 * 2**30)) == "A and 64 GiB of host memory"
