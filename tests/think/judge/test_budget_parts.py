"""Every part of every budget has a name that does not change with what a server is told."""

import pytest
from recorded_machines import MACHINES, recorded

from unslow.think.judge.budget import NAMES, OTHER, part_name
from unslow.think.judge.judge import diagnose

PHASES = {"client", "queue", "load", "prefill", "decode"}
SLOW = "h200_llama_server_gpu_layers_set_too_low"


@pytest.mark.parametrize("name", [SLOW, "lab_cpu_threads_too_many", "h200_llama_server_healthy_full_gpu"])
def test_every_part_of_a_recorded_machine_has_a_name(name):
    for one in diagnose(recorded(MACHINES / name)).subjects:
        assert one.budget
        assert {part.phase for part in one.budget} <= PHASES
        assert OTHER not in {part_name(part.part) for part in one.budget}


def test_a_cause_without_a_part_of_physics_goes_by_its_id():
    assert part_name("sampling on the CPU") == "sampling_on_cpu"
    assert len(NAMES) < 50
