"""Every budget part has a stable name."""

import pytest
from recorded_machines import MACHINES, recorded

from unslow.think.judge.judge import diagnose
from unslow.think.judge.pricing import NAMES, OTHER, part_name

PHASES = {"client", "queue", "load", "prefill", "decode"}
SLOW = "h200_llama_server_gpu_layers_set_too_low"


@pytest.mark.parametrize("name", [SLOW, "lab_cpu_threads_too_many", "h200_llama_server_healthy_full_gpu"])
def test_every_part_of_a_recorded_machine_has_a_name(name):
    for one in diagnose(recorded(MACHINES / name)).subjects:
        assert one.budget
        assert {part.phase for part in one.budget} <= PHASES
        assert OTHER not in {part_name(part.part) for part in one.budget}


def test_cause_without_a_predicted_part_uses_its_id():
    assert part_name("sampling takes long") == "sampling_on_cpu"
    assert len(NAMES) < 50
