from unslow.facts.values import GIB
from unslow.page.what_if.memory_view import LayerCount, overfull_words, verdict_with, what_if_summary
from unslow.think.fit.answers import shown_memory
from unslow.think.fit.report import MemoryShown
from unslow.think.hardware import Room
from unslow.think.memory.llama_cpp.need import Need
from unslow.think.report import Range
from unslow.think.setup import SAME_MEMORY

SPEED = Range(low=38.1, mid=45.0, high=52.2)
WHOLE, SOME = LayerCount(33, 33), LayerCount(20, 33)


def memory(name: str, asked: float, capacity: float | None) -> MemoryShown:
    room = Room(name, int(capacity * GIB)) if capacity is not None else None
    return shown_memory(Need(int(asked * GIB), 0, 0), room)


CARD, HOST = memory("RTX 4090", 21.3, 23.1), memory("host", 0.5, None)


def test_summary_of_a_fit_has_bytes_and_speed(wording) -> None:
    said = what_if_summary("fits", [CARD], HOST, WHOLE, SPEED)
    wording(said, tells=("21.3 GiB", "23.1 GiB", "RTX 4090"))
    wording(what_if_summary("tight", [CARD], HOST, WHOLE, None), tells="RTX 4090")
    two = what_if_summary("fits", [CARD, CARD], HOST, WHOLE, None)
    wording(two, tells=("42.6 GiB", "46.2 GiB", "RTX 4090"))
    wording(what_if_summary("fits", [], memory("host", 5, 60), LayerCount(0, 33), None), tells=("5.0 GiB", "60.0 GiB"))


def test_summary_of_a_partial_fit_has_gpu_layers_and_host_bytes(wording) -> None:
    host = memory("host", 9, 60)
    wording(what_if_summary("partly", [CARD], host, SOME, None), tells=("20 of 33", "RTX 4090", "9.0 GiB"))
    experts = what_if_summary("partly", [CARD], host, LayerCount(33, 33, 8), None)
    wording(experts, tells=("RTX 4090", "9.0 GiB"))
    wording(what_if_summary("partly", [CARD], host, LayerCount(0, 33), None), tells=("RTX 4090", "9.0 GiB"))


def test_shortage_of_unified_memory_is_stated_once(wording) -> None:
    card = memory("RTX 4090", 30, 23)
    wording(
        what_if_summary("does_not_fit", [card], memory("host", 9, 8), WHOLE, None),
        tells=("RTX 4090", "7.0 GiB", "1.0 GiB"),
    )
    wording(what_if_summary("does_not_fit", [card, card], HOST, WHOLE, None), tells=("RTX 4090", "14.0 GiB"))
    mac = what_if_summary("does_not_fit", [memory("M2 Max", 30, 23)], memory(SAME_MEMORY, 9, 8), WHOLE, None)
    wording(mac, tells=("M2", "7.0 GiB"))
    wording(overfull_words([card], HOST), tells=("RTX 4090", "7.0 GiB"))


def test_summary_states_an_unknown_host_memory_size(wording) -> None:
    said = what_if_summary("cannot_tell", [CARD], memory("host", 9, None), SOME, None)
    wording(said, tells=("RTX 4090", "9.0 GiB"))


def test_layers_on_the_host_make_a_fit_partial() -> None:
    assert verdict_with("fits", SOME, [CARD]) == "partly"
    assert verdict_with("tight", WHOLE, [CARD]) == "tight"
    assert verdict_with("fits", LayerCount(0, 33), []) == "fits"
    assert verdict_with("does_not_fit", SOME, [CARD]) == "does_not_fit"
