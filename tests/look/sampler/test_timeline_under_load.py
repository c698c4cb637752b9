from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from recorded_nvml import RecordedNvml, Row, rows_of
from sampled_machine import LiveFake

from unslow.commands.diagnose.target import read_stored
from unslow.facts.run import GpuTelemetry, PhaseTelemetry, SamplerCost, Span, Stat, Telemetry
from unslow.facts.snapshot import Snapshot
from unslow.facts.values import Known, measured_fact
from unslow.look.sampler.readings import Reader
from unslow.look.sampler.rows import SampledRows
from unslow.look.sampler.sources.nvml import readings_of
from unslow.look.sampler.timeline import MEANT_SHARE, throttled_fraction, under_load
from unslow.think.judge.judge import diagnose

MACHINES = Path(__file__).parents[2] / "machines"
HEALTHY = sorted(folder.parent for folder in MACHINES.glob("h200_*healthy*/nvidia_smi_query.csv"))
FREE = SamplerCost(seconds_per_sample=0, slowest_sample_s=0, cpus=0)
REASONS = "clocks_event_reasons.active"


def telemetry_of(*phases: PhaseTelemetry, unread: dict[str, str] | None = None) -> Telemetry:
    return Telemetry(seconds=1, samples=10, asked_hz=10, got_hz=10, cost=FREE, phases=phases, unread=unread or {})


def sampled(rows: list[Row]) -> Telemetry:
    """What the sampler would have seen of the GPU in these rows, the busy ones being those of decoding."""
    nvml, live = RecordedNvml(rows[0]), LiveFake()
    reader = Reader("gpu0", list(readings_of(nvml, ExitStack())), live.clock, live.clock, 0.2, 0.01)
    book = SampledRows(reader.columns, [reader.paced[0].reading.device])
    for number, row in enumerate(rows):
        nvml.row = row
        reader.round(number)
        book.add(live.time_s, reader.take())
        if float(row["utilization.gpu"]) > 0:
            book.note(Span(phase="decode", start_s=live.time_s, end_s=live.time_s + 0.001))
        live.sleep(0.2)
    return telemetry_of(*book.phases())


def with_run(folder: Path, telemetry: Telemetry, **changes: object) -> Snapshot:
    """The recorded machine, watched by the sampler."""
    snapshot = read_stored(str(folder))
    (subject,) = snapshot.subjects
    run = msgspec.structs.replace(subject.run, gpus=measured_fact(under_load(telemetry), "test"), **changes)
    return msgspec.structs.replace(snapshot, subjects=(msgspec.structs.replace(subject, run=run),))


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda folder: folder.name)
def test_a_healthy_sampled_machine_has_no_findings(folder: Path):
    report = diagnose(with_run(folder, sampled(rows_of(folder)))).subjects[0]
    assert (report.verdict, report.findings) == ("normal", ())


def test_a_power_cap_in_few_samples_is_not_a_finding():
    folder = MACHINES / "h200_llama_server_healthy_70b"
    rows = rows_of(folder)
    for row in rows[::10]:
        row[REASONS] = "0x0000000000000004"
    telemetry = sampled(rows)
    (gpu,) = under_load(telemetry)
    assert gpu.event_reasons.value == []
    shares = next(phase for phase in telemetry.phases if phase.phase == "decode").gpus[0].reasons
    assert 0 < shares["sw_power_cap"] < MEANT_SHARE
    assert diagnose(with_run(folder, telemetry)).subjects[0].findings == ()


def test_sampled_thermal_throttling_is_found():
    folder = MACHINES / "h200_llama_server_healthy_70b"
    rows = rows_of(folder)
    for row in rows:
        row |= {REASONS: "0x0000000000000020", "clocks.sm": "600", "temperature.gpu": "88"}
    speed = read_stored(str(folder)).subjects[0].run.decode_tokens_per_s
    assert isinstance(speed, Known)
    slow = measured_fact(speed.value / 2.5, "test")
    report = diagnose(with_run(folder, sampled(rows), decode_tokens_per_s=slow)).subjects[0]
    assert [finding.cause for finding in report.findings][:1] == ["gpu_thermal_throttling"]


def test_means_and_maxima_are_those_of_the_decode_phase():
    stat = Stat(mean=0.5, low=0.1, high=0.9, last=0.2, samples=4)
    busy = Stat(mean=1.5e9, low=1e9, high=1.9e9, last=1e9, samples=4)
    gpu = GpuTelemetry(index=3, figures={"busy": stat, "clock_hz": busy, "pcie_width": stat, "vram_used_bytes": busy})
    phases = (
        PhaseTelemetry(phase="prefill", seconds=1, samples=9),
        PhaseTelemetry(phase="decode", seconds=1, samples=4, gpus=(gpu,)),
    )
    (found,) = under_load(telemetry_of(*phases))
    assert (found.index, found.samples) == (3, 4)
    assert (found.busy.value, found.clock_hz.value, found.vram_used_max_bytes.value) == (0.5, 1.5e9, 1_900_000_000)
    assert "power_w" in found.power_max_w.why


def test_without_decode_samples_there_are_no_gpus_under_load():
    assert under_load(telemetry_of()) == ()
    assert under_load(telemetry_of(PhaseTelemetry(phase="decode", seconds=1, samples=0))) == ()


def test_throttled_fraction_is_sampled_or_says_why_not():
    share = Stat(mean=0.25, low=0, high=1, last=0, samples=4)
    decode = PhaseTelemetry(phase="decode", seconds=1, samples=4, host={"cpu_throttled_share": share})
    assert throttled_fraction(telemetry_of(decode)).value == 0.25
    assert throttled_fraction(telemetry_of(unread={"quota": "no CPU quota is set"})).why == "no CPU quota is set"
