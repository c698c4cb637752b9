"""Builds of llama.cpp differ in expert buffers: where the build is unknown, the larger counts."""

from itertools import pairwise

from planning import hardware, search, settings

from unslow.catalog.models import model_at
from unslow.think.blueprints import made_up
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.question import Abilities

MODEL = "olmoe-1b-7b"


def test_larger_buffer_counts_where_the_build_is_unknown() -> None:
    plan, machine, work = made_up(model_at(MODEL), "Q4_K_M"), hardware(8), Work(1024, 0, 64)
    asked = settings()._replace(micro_batch=1024)
    older, newer, unknown = (
        search(plan, machine, work, Abilities(fuses=fuses)).laid_out(asked)[0].needs for fuses in (False, True, None)
    )
    assert older != newer
    for mine, *others in zip(unknown, older, newer, strict=True):
        assert mine.total == max(need.total for need in others)


def test_dense_models_need_the_same_in_all_builds() -> None:
    plan, machine, work = made_up(model_at("smollm2-135m"), "Q4_K_M"), hardware(8), Work(1024, 0, 64)
    every = [
        search(plan, machine, work, Abilities(fuses=fuses)).laid_out(settings())[0].needs
        for fuses in (False, True, None)
    ]
    assert all(one == other for one, other in pairwise(every))


def test_micro_batch_above_2048_reserves_extra_memory() -> None:
    plan, machine = made_up(model_at("smollm2-135m"), "Q4_K_M"), hardware(8)
    trial = search(plan, machine, Work())
    asked = settings(8192)._replace(batch=4096)
    for micro_batch, more in ((2048, 0), (4096, int(2048 * 1536 * 1.125))):  # its widest matrix is that of ffn_down
        memory, (lacks, _) = trial.laid_out(asked._replace(micro_batch=micro_batch))
        assert lacks == memory.needs[0].total - machine.free_bytes[0] + trial.margin_bytes + more
