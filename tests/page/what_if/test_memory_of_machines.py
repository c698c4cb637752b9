"""The memory of recorded machines: nothing crashes, and every bar adds up."""

import pytest
from memory_checks import check_sums
from recorded_machines import FOLDERS, MACHINES, first_case
from scrambled import variants

from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.page.what_if import memory_of
from unslow.think.case.view import CaseView

EVERY = 24
PARTICULAR = (
    "built_m2_max_healthy", "built_two_rtx_3090_layer_split", "built_strix_halo_all_in_gtt", "lab_gpu_device_none",
    "built_windows_lm_studio_shared_memory", "h200_transformers_8b_eager", "lab_gpu_some_experts_on_cpu",
    "h200_llama_server_kv_cache_allocation_fails", "built_vllm_eight_h100",
)  # fmt: skip
SAMPLE = sorted({*PARTICULAR, *(folder.name for folder in FOLDERS[::EVERY])} & {folder.name for folder in FOLDERS})


def check(case: Case) -> None:
    memory = memory_of(None, CaseView(case))
    if isinstance(memory, Unknown):
        assert memory.why
        assert memory.how_to_get
        return
    view = memory.view
    check_sums(view.now)
    assert view.now.settings == {slider.knob: slider.value for slider in view.sliders}
    assert all(slider.value in [choice.value for choice in slider.choices] for slider in view.sliders)
    assert view.now.summary
    assert view.source
    for slider in view.sliders:
        answer = memory.what_if({slider.knob: slider.choices[len(slider.choices) // 2].value})
        check_sums(answer)


@pytest.mark.parametrize("name", SAMPLE)
def test_bars_add_up_on_a_sample_of_machines(name: str) -> None:
    check(first_case(name))


@pytest.mark.real
@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_bars_add_up_on_every_machine(name: str) -> None:
    assert (MACHINES / name).is_dir()
    check(first_case(name))


@pytest.mark.parametrize("name", PARTICULAR[:3])
def test_memory_view_survives_missing_and_contradicting_facts(name: str) -> None:
    others = [first_case(other) for other in PARTICULAR]
    for _, case in variants(first_case(name), others, name, each=3):
        check(case)
