import pytest

from unslow.facts.knob import Knob
from unslow.look.machine_knobs import spell_machine


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Knob.OTHER_LOAD.to(77), ["renice -n 19 -p 77"]),
        (Knob.OTHER_LOAD.to(None), []),
        (Knob.POWER.to("performance"), ["sudo cpupower frequency-set -g performance"]),
        (Knob.POWER.to(350), ["sudo nvidia-smi -pl 350"]),
        (Knob.POWER.to(None), []),
        (Knob.WIRED_LIMIT.to(57344), ["sudo sysctl iogpu.wired_limit_mb=57344"]),
        (Knob.WIRED_LIMIT.to(56 * 1024**3), ["sudo sysctl iogpu.wired_limit_mb=57344"]),
        (Knob.THREADS.to(4), []),
    ],
)
def test_knobs_of_the_machine(change, words):
    assert spell_machine(change) == words


def test_a_quota_for_a_container_and_for_a_service():
    assert spell_machine(Knob.CPU_QUOTA.to(8)) == [
        "docker update --cpus 8 CONTAINER",
        "systemctl set-property UNIT CPUQuota=800%",
    ]
