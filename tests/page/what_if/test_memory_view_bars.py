from hypothesis import given
from hypothesis import strategies as st

from unslow.page.view import MemoryBar
from unslow.page.what_if.gguf import host_bar
from unslow.page.what_if.memory_view import UNNAMED, AskedBytes, Stranger, bar_of, named_strangers
from unslow.think.hardware import Room
from unslow.think.memory.llama_cpp.need import Need

SIZES = st.integers(0, 2**40)
THREE = st.tuples(SIZES, SIZES, SIZES)


def held(bar: MemoryBar, kind: str) -> int:
    return sum(part.bytes for part in bar.parts if part.kind == kind)


@given(THREE, SIZES, st.tuples(SIZES, SIZES), THREE, st.lists(SIZES, max_size=12))
def test_parts_are_the_capacity_and_what_lacks_lies_beyond(
    sizes: tuple[int, int, int], capacity: int, gone: tuple[int, int], more: tuple[int, int, int], others: list[int]
) -> None:
    parts = Need(*sizes)
    room = Room("card", capacity, *gone)
    asked = AskedBytes(parts, *more[:2], min(more[2], sum(parts)))
    bar = bar_of(room, asked, [Stranger(f"program {n}", size) for n, size in enumerate(others)])
    lacking = held(bar, "lacking")
    assert sum(part.bytes for part in bar.parts) == capacity + lacking
    assert all(part.bytes >= 0 for part in bar.parts)
    assert bar.fits == (not lacking)
    wanted = sum(part.wanted_bytes or part.bytes for part in bar.parts if part.kind in ("weights", "kv", "compute"))
    assert wanted == sum(parts)
    assert not (lacking and held(bar, "free"))


def test_a_part_that_has_no_room_whole_says_what_it_wants() -> None:
    bar = bar_of(Room("card", 100, 10, 5), AskedBytes(Need(80, 20, 4), 5, 1))
    assert [(part.kind, part.bytes, part.wanted_bytes) for part in bar.parts] == [
        ("weights", 79, 80), ("kv", 0, 20), ("compute", 0, 4), ("stranger", 10, None), ("reserve", 10, None),
        ("reserve", 1, None), ("lacking", 25, None),
    ]  # fmt: skip
    assert bar.fits is False


def test_a_memory_that_both_share_gives_the_host_what_the_gpu_may_not_have() -> None:
    bar = bar_of(Room("mac", 100, 10, 30, unified=True), AskedBytes(Need(50, 10, 5), 0, 0, beside_bytes=20))
    assert held(bar, "reserve") == 10
    assert held(bar, "free") == 100 - 10 - 10 - 65


def test_a_memory_of_unknown_size_shows_what_is_asked_of_it() -> None:
    bar = host_bar(None, Need(5, 0, 1))
    assert (bar.capacity_bytes, bar.fits, [part.kind for part in bar.parts]) == (None, None, ["weights", "compute"])


def test_strangers_have_their_names() -> None:
    parts = named_strangers(100, [Stranger("game", 40), Stranger("python3", 20), Stranger("python3", 15)])
    assert [(part.name, part.bytes) for part in parts] == [("game", 40), ("python3 (2 processes)", 35), (UNNAMED, 25)]


def test_strangers_never_hold_more_than_is_gone() -> None:
    assert [(part.name, part.bytes) for part in named_strangers(30, [Stranger("game", 40)])] == [("game", 30)]


def test_strangers_whose_size_nobody_tells_share_the_rest(wording) -> None:
    others = [Stranger("a", None), Stranger("b", None), Stranger("c", None), Stranger("d", None)]
    wording([part.name for part in named_strangers(30, others)])
    wording([part.name for part in named_strangers(30, others[:1])])


def test_of_many_strangers_the_small_ones_are_one(wording) -> None:
    parts = named_strangers(100, [Stranger(f"p{n}", 20 - n) for n in range(10)])
    assert len(parts) <= 9
    crowd = named_strangers(1000, [Stranger(f"p{n}", 20 - n) for n in range(10)])
    wording(crowd[-1].name)


def test_of_the_host_nobody_is_named(wording) -> None:
    wording(named_strangers(9, (), is_host=True)[0].name)
