from unslow.facts.values import GIB
from unslow.page.what_if.memory_view import LayerCount, overfull, verdict_with, what_if_summary
from unslow.think.fit.answers import Parts, shown_memory
from unslow.think.fit.report import MemoryShown
from unslow.think.hardware import Room
from unslow.think.report import Range
from unslow.think.setup import SAME_MEMORY

SPEED = Range(low=38.1, mid=45.0, high=52.2)
WHOLE, SOME = LayerCount(33, 33), LayerCount(20, 33)


def memory(name: str, asked: float, capacity: float | None) -> MemoryShown:
    room = Room(name, int(capacity * GIB)) if capacity is not None else None
    return shown_memory(name, Parts(int(asked * GIB), 0, 0), room)


CARD, HOST = memory("RTX 4090", 21.3, 23.1), memory("host", 0.5, None)


def test_what_fits_says_how_much_and_how_fast() -> None:
    said = what_if_summary("fits", [CARD], HOST, WHOLE, SPEED)
    assert said == "Fits: 21.3 GiB of 23.1 GiB on the RTX 4090; 38.1 to 52.2 tok/s expected"
    assert what_if_summary("tight", [CARD], HOST, WHOLE, None).endswith("on the RTX 4090, with little to spare")
    two = what_if_summary("fits", [CARD, CARD], HOST, WHOLE, None)
    assert two == "Fits: 42.6 GiB of 46.2 GiB on 2 RTX 4090"
    assert (
        what_if_summary("fits", [], memory("host", 5, 60), LayerCount(0, 33), None)
        == "Fits: 5.0 GiB of 60.0 GiB on the host"
    )


def test_what_lies_with_the_host_in_part_says_where() -> None:
    host = memory("host", 9, 60)
    assert what_if_summary("partly", [CARD], host, SOME, None) == (
        "Fits in part: 20 of 33 layers on the RTX 4090, 9.0 GiB in the host's memory"
    )
    experts = what_if_summary("partly", [CARD], host, LayerCount(33, 33, 8), None)
    assert experts == "Fits in part: all layers but for matrices of 8 on the RTX 4090, 9.0 GiB in the host's memory"
    assert what_if_summary("partly", [CARD], host, LayerCount(0, 33), None).startswith(
        "Nothing on the RTX 4090: 9.0 GiB"
    )


def test_what_lacks_is_told_once_for_a_shared_memory() -> None:
    card = memory("RTX 4090", 30, 23)
    assert what_if_summary("does_not_fit", [card], memory("host", 9, 8), WHOLE, None) == (
        "Does not fit: the RTX 4090 lacks 7.0 GiB and the host lacks 1.0 GiB"
    )
    assert what_if_summary("does_not_fit", [card, card], HOST, WHOLE, None) == "Does not fit: 2 RTX 4090 lack 14.0 GiB"
    mac = what_if_summary("does_not_fit", [memory("M2 Max", 30, 23)], memory(SAME_MEMORY, 9, 8), WHOLE, None)
    assert mac == "Does not fit: the M2 Max lacks 7.0 GiB"
    assert overfull([card], HOST).startswith("It runs, and the RTX 4090 lacks 7.0 GiB")


def test_a_host_that_nobody_knows_is_told() -> None:
    said = what_if_summary("cannot_tell", [CARD], memory("host", 9, None), SOME, None)
    assert said == "the RTX 4090 would have room, but how much memory the host has for 9.0 GiB is not known"


def test_a_part_with_the_host_is_no_whole_fit() -> None:
    assert verdict_with("fits", SOME, [CARD]) == "partly"
    assert verdict_with("tight", WHOLE, [CARD]) == "tight"
    assert verdict_with("fits", LayerCount(0, 33), []) == "fits"
    assert verdict_with("does_not_fit", SOME, [CARD]) == "does_not_fit"
