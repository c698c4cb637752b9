from hypothesis import given
from hypothesis import strategies as st

from unslow.page.view import MemoryBar
from unslow.page.what_if.gguf import host_bar
from unslow.page.what_if.memory_view import UNNAMED, AskedBytes, OtherProgram, bar_of, other_parts
from unslow.think.hardware import Room
from unslow.think.memory.llama_cpp.need import Need

SIZES = st.integers(0, 2**40)
THREE = st.tuples(SIZES, SIZES, SIZES)


def held(bar: MemoryBar, kind: str) -> int:
    return sum(part.bytes for part in bar.parts if part.kind == kind)


@given(THREE, SIZES, st.tuples(SIZES, SIZES), THREE, st.lists(SIZES, max_size=12))
def test_bar_parts_add_up_to_capacity_plus_lacking(
    sizes: tuple[int, int, int], capacity: int, gone: tuple[int, int], more: tuple[int, int, int], others: list[int]
) -> None:
    parts = Need(*sizes)
    room = Room("card", capacity, *gone)
    asked = AskedBytes(parts, *more[:2], min(more[2], sum(parts)))
    bar = bar_of(room, asked, [OtherProgram(f"program {n}", size) for n, size in enumerate(others)])
    lacking = held(bar, "lacking")
    assert sum(part.bytes for part in bar.parts) == capacity + lacking
    assert all(part.bytes >= 0 for part in bar.parts)
    assert bar.fits == (not lacking)
    wanted = sum(part.wanted_bytes or part.bytes for part in bar.parts if part.kind in ("weights", "kv", "compute"))
    assert wanted == sum(parts)
    assert not (lacking and held(bar, "free"))


def test_partly_fitting_part_has_its_wanted_bytes() -> None:
    bar = bar_of(Room("card", 100, 10, 5), AskedBytes(Need(80, 20, 4), 5, 1))
    assert [(part.kind, part.bytes, part.wanted_bytes) for part in bar.parts] == [
        ("weights", 79, 80), ("kv", 0, 20), ("compute", 0, 4), ("stranger", 10, None), ("reserve", 10, None),
        ("reserve", 1, None), ("lacking", 25, None),
    ]  # fmt: skip
    assert bar.fits is False


def test_unified_memory_lends_the_gpu_reserve_to_the_host() -> None:
    bar = bar_of(Room("mac", 100, 10, 30, unified=True), AskedBytes(Need(50, 10, 5), 0, 0, beside_bytes=20))
    assert held(bar, "reserve") == 10
    assert held(bar, "free") == 100 - 10 - 10 - 65


def test_bar_of_unknown_capacity_has_only_the_model_parts() -> None:
    bar = host_bar(None, Need(5, 0, 1))
    assert (bar.capacity_bytes, bar.fits, [part.kind for part in bar.parts]) == (None, None, ["weights", "compute"])


def test_other_programs_are_named_largest_first() -> None:
    parts = other_parts(100, [OtherProgram("game", 40), OtherProgram("python3", 20), OtherProgram("python3", 15)])
    assert [(part.name, part.bytes) for part in parts] == [("game", 40), ("python3 (2 processes)", 35), (UNNAMED, 25)]


def test_other_programs_never_exceed_the_used_memory() -> None:
    assert [(part.name, part.bytes) for part in other_parts(30, [OtherProgram("game", 40)])] == [("game", 30)]


def test_programs_of_unknown_size_share_the_rest(wording) -> None:
    others = [OtherProgram("a", None), OtherProgram("b", None), OtherProgram("c", None), OtherProgram("d", None)]
    wording([part.name for part in other_parts(30, others)])
    wording([part.name for part in other_parts(30, others[:1])])


def test_smallest_of_many_programs_share_one_part(wording) -> None:
    parts = other_parts(100, [OtherProgram(f"p{n}", 20 - n) for n in range(10)])
    assert len(parts) <= 9
    crowd = other_parts(1000, [OtherProgram(f"p{n}", 20 - n) for n in range(10)])
    wording(crowd[-1].name)


def test_programs_on_the_host_are_not_named(wording) -> None:
    wording(other_parts(9, (), is_host=True)[0].name)
