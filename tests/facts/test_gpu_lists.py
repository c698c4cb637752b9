from unslow.facts.machine import Gpu, Machine
from unslow.facts.merge import computing_gpus, overlaid, with_cards_first
from unslow.facts.values import NOT_LOOKED, reported


def gpu(index: int, **facts) -> Gpu:
    return Gpu(index=index, **{name: reported(value, "test") for name, value in facts.items()})


def together(*lists: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    machine = Machine()
    for gpus in lists:
        machine = overlaid(machine, Machine(gpus=reported(gpus, "test")))
    return machine.gpus.need()


CARD = gpu(0, vendor="NVIDIA", name="RTX 4090", bus_id="0000:01:00.0", vram_total_bytes=24)
CHIP = gpu(0, vendor="Intel", name="UHD 770", bus_id="0000:00:02.0", kind="integrated")


def test_the_part_of_the_processor_comes_last_whoever_looked_first():
    assert together((CHIP,), (CARD,)) == (CARD, CHIP)
    assert together((CARD,), (CHIP,)) == (CARD, CHIP)


def test_the_same_place_on_the_bus_is_the_same_gpu():
    (both,) = together((CARD,), (gpu(3, name="NVIDIA GeForce RTX 4090", bus_id="0000:01:00.0", shared_used_bytes=7),))
    assert (both.index, both.name.need(), both.shared_used_bytes.need()) == (0, "RTX 4090", 7)


def test_a_name_that_only_one_has_is_enough():
    (both,) = together((CARD,), (gpu(0, name="RTX 4090", shared_used_bytes=7),))
    assert (both.vram_total_bytes.need(), both.shared_used_bytes.need()) == (24, 7)


def test_two_of_a_kind_are_not_taken_for_each_other():
    twins = (CARD, gpu(1, name="RTX 4090", bus_id="0000:02:00.0"))
    other = gpu(0, name="RTX 4090", shared_used_bytes=7)
    assert together(twins, (other,)) == (*twins, other)


def test_another_place_is_another_gpu():
    other = gpu(1, name="RTX 4090", bus_id="0000:05:00.0")
    assert together((CARD,), (other,)) == (CARD, other)


def test_nothing_is_added_to_nothing():
    assert together((), ()) == ()
    assert together((CARD,), ()) == (CARD,)
    assert overlaid(Machine(), Machine()).gpus == NOT_LOOKED


def test_a_part_of_the_processor_computes_only_where_there_is_no_card():
    assert computing_gpus((CARD, CHIP)) == (CARD,)
    assert computing_gpus((CHIP,)) == (CHIP,)
    assert computing_gpus(()) == ()


def test_cards_come_first_whoever_wrote_the_list():
    machine = Machine(gpus=reported((CHIP, CARD), "a file"))
    assert with_cards_first(machine).gpus == reported((CARD, CHIP), "a file")
    assert with_cards_first(with_cards_first(machine)) == with_cards_first(machine)
    assert with_cards_first(Machine()) == Machine()
