from unslow.facts.machine import Gpu, Machine
from unslow.facts.merge import computing_gpus, overlaid, with_cards_first
from unslow.facts.values import NOT_LOOKED, reported_fact


def gpu(index: int, **facts) -> Gpu:
    return Gpu(index=index, **{name: reported_fact(value, "test") for name, value in facts.items()})


def together(*lists: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    machine = Machine()
    for gpus in lists:
        machine = overlaid(machine, Machine(gpus=reported_fact(gpus, "test")))
    return machine.gpus.need()


CARD = gpu(0, vendor="NVIDIA", name="RTX 4090", bus_id="0000:01:00.0", vram_total_bytes=24)
CHIP = gpu(0, vendor="Intel", name="UHD 770", bus_id="0000:00:02.0", kind="integrated")


def test_integrated_gpus_come_last_in_any_order():
    assert together((CHIP,), (CARD,)) == (CARD, CHIP)
    assert together((CARD,), (CHIP,)) == (CARD, CHIP)


def test_gpus_with_the_same_bus_id_are_merged():
    (both,) = together((CARD,), (gpu(3, name="NVIDIA GeForce RTX 4090", bus_id="0000:01:00.0", shared_used_bytes=7),))
    assert (both.index, both.name.need(), both.shared_used_bytes.need()) == (0, "RTX 4090", 7)


def test_a_unique_name_is_enough_to_merge_gpus():
    (both,) = together((CARD,), (gpu(0, name="RTX 4090", shared_used_bytes=7),))
    assert (both.vram_total_bytes.need(), both.shared_used_bytes.need()) == (24, 7)


def test_identical_gpus_are_not_merged_by_name():
    twins = (CARD, gpu(1, name="RTX 4090", bus_id="0000:02:00.0"))
    other = gpu(0, name="RTX 4090", shared_used_bytes=7)
    assert together(twins, (other,)) == (*twins, other)


def test_another_bus_id_is_another_gpu():
    other = gpu(1, name="RTX 4090", bus_id="0000:05:00.0")
    assert together((CARD,), (other,)) == (CARD, other)


def test_merging_empty_gpu_lists_gives_nothing():
    assert together((), ()) == ()
    assert together((CARD,), ()) == (CARD,)
    assert overlaid(Machine(), Machine()).gpus == NOT_LOOKED


def test_integrated_gpus_compute_only_without_a_card():
    assert computing_gpus((CARD, CHIP)) == (CARD,)
    assert computing_gpus((CHIP,)) == (CHIP,)
    assert computing_gpus(()) == ()


def test_stored_gpu_lists_are_reordered_cards_first():
    machine = Machine(gpus=reported_fact((CHIP, CARD), "a file"))
    assert with_cards_first(machine).gpus == reported_fact((CARD, CHIP), "a file")
    assert with_cards_first(with_cards_first(machine)) == with_cards_first(machine)
    assert with_cards_first(Machine()) == Machine()
