"""Real llama-servers on a real H200 under a real Prometheus, as `lab/fleet/on_gpu.py` recorded them, judged again."""

import gzip
import time
from pathlib import Path

import pytest
from lab.fleet.prometheus import started
from lab.fleet.raw_samples import replayed
from tests.real_prometheus import prometheus_program, promtool

from unslow.commands._output import Silent
from unslow.commands.fleet import FleetRequest as FleetAsked
from unslow.fleet.actions import fleet_report
from unslow.fleet.settings import FleetSettings

RECORDINGS = Path(__file__).parent / "recordings"
EXPECTED = {
    "healthy": ("normal", ""),
    "one_user": ("normal", ""),
    "layers_on_cpu": ("slow", "gpu_layers_set_too_low"),
    "memory_taken": ("slow", "other_process_holds_vram"),
    "gpu_shared": ("slow", "gpu_shared_with_other_work"),
    "queue": ("slow", "queueing"),
}
"""What was done to the server, and what must be said first."""


def judged(name, folder):
    """The one instance of a recording, as `unslow fleet` judges it."""
    with gzip.open(RECORDINGS / f"h200_{name}.om.gz", "rt", encoding="utf-8") as lines:
        replayed(lines, promtool(), folder / "data", time.time() - 1)
    with started(prometheus_program(), folder / "server", (), folder / "data") as prometheus:
        request = FleetSettings.of(
            FleetAsked.from_flags({"prometheus": prometheus.url, "window": "1m", "compare": "none"})
        )
        report = fleet_report(request, Silent())
    (instance,) = report.instances
    assert instance.devices[0] == "NVIDIA H200"
    assert instance.gpus == 1
    return instance


def causes(instance):
    return [*(finding.cause for finding in instance.findings), *instance.by_itself]


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_fault_is_the_finding(name, tmp_path):
    instance = judged(name, tmp_path)
    verdict, first = EXPECTED[name]
    assert instance.verdict == verdict
    assert causes(instance)[:1] == ([first] if first else [])
    if verdict == "normal":
        assert instance.lost.tokens_per_s == 0
    else:
        assert instance.lost.tokens_per_s > 0
        assert 0 < instance.lost.gpu_hours <= 1 / 60


def test_waiting_loss_is_bounded_by_the_achievable_total(tmp_path):
    """Seven requests wait for one slot; with a slot each they would share every step."""
    queue = judged("queue", tmp_path)
    alone = queue.expected.achievable["decode_tokens_per_s"].mid
    assert queue.lost.tokens_per_s < 0.5 * 7 * alone
