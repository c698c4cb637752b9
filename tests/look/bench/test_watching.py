import time
from pathlib import Path

import msgspec
import pytest
from doubles import FakeSystem

from unslow.facts.run import Completion, GpuTelemetry, GpuUnderLoad, PhaseTelemetry, Run, SamplerCost, Stat, Telemetry
from unslow.facts.values import Absence, Known, Unknown, not_supported
from unslow.look.bench.timing import note_completion, watching, with_telemetry
from unslow.look.requests import Target
from unslow.look.sampler import Sampler
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

COST = SamplerCost(seconds_per_sample=0.0003, slowest_sample_s=0.001, cpus=0.003)
CLOCK = Stat(mean=1.9e9, low=1.9e9, high=1.9e9, last=1.9e9, samples=20)
DECODE = PhaseTelemetry(
    phase="decode", seconds=2, samples=20,
    gpus=(GpuTelemetry(index=0, name="NVIDIA H200", figures={"clock_hz": CLOCK}, reasons={"sw_power_cap": 0.05}),),
)  # fmt: skip
SEEN = Telemetry(seconds=3, samples=30, asked_hz=10, got_hz=10, cost=COST, phases=(DECODE,))
NOT_WATCHED = not_supported("the GPU is not watched")


def completion(**changes: float | None) -> Completion:
    facts = {"prefill_s": 0.1, "decode_s": 0.2, "client_first_token_s": 0.12, "client_total_s": 0.35} | changes
    return Completion(prompt_tokens=10, generated_tokens=20, **facts)


def test_gpus_under_load_come_from_samples_of_the_decode_phase():
    system = FakeSystem(asks={"telemetry": msgspec.to_builtins(SEEN)})
    run = with_telemetry(system, Run(gpus=NOT_WATCHED), Sampler(system))
    (gpu,) = run.gpus.value
    assert isinstance(gpu, GpuUnderLoad)
    assert (gpu.clock_hz.value, gpu.event_reasons.value) == (1.9e9, [])
    assert run.telemetry.value == SEEN


def test_a_recording_without_a_sampler_keeps_its_gpus():
    system = FakeSystem()
    run = with_telemetry(system, Run(gpus=NOT_WATCHED), Sampler(system))
    assert run.gpus == NOT_WATCHED
    assert isinstance(run.telemetry, Unknown)


def test_invalid_recorded_telemetry_is_a_failed_look():
    system = FakeSystem(asks={"telemetry": {"seconds": -1}})
    run = with_telemetry(system, Run(), Sampler(system))
    assert isinstance(run.telemetry, Unknown)
    assert run.telemetry.absence is Absence.FAILED


def test_replayed_telemetry_equals_the_recorded_one(tmp_path: Path):
    recorder = Recorder(LiveSystem(), tmp_path)
    with Sampler(recorder, hz=50) as sampler:
        start = sampler.clock()
        time.sleep(0.4)
        note_completion(sampler, completion(), start)
    live = with_telemetry(recorder, Run(), sampler)
    recorder.close()
    replayed = RecordedSystem(tmp_path)
    with Sampler(replayed) as nobody:
        note_completion(nobody, completion(), nobody.clock())
    again = with_telemetry(replayed, Run(), nobody)
    assert isinstance(live.telemetry, Known)
    assert again.telemetry.value == live.telemetry.value
    seconds = {phase.phase: phase.seconds for phase in again.telemetry.value.phases}
    assert seconds["queue"] == pytest.approx(0.02)
    assert seconds["prefill"] == pytest.approx(0.1)
    assert seconds["decode"] == pytest.approx(0.23)


def test_a_completion_without_client_times_adds_no_phases():
    with Sampler(LiveSystem(), hz=50) as sampler:
        note_completion(sampler, completion(client_first_token_s=None), sampler.clock())
    assert {phase.phase for phase in sampler.telemetry().phases} <= {"idle"}


def test_a_remote_server_is_not_sampled_locally():
    system = LiveSystem()
    with watching(system, Target("http://192.0.2.1:8080")) as sampler:
        note_completion(sampler, completion(), sampler.clock())
    assert isinstance(with_telemetry(system, Run(), sampler).telemetry, Unknown)


def test_a_local_server_is_sampled_without_a_known_pid():
    system = LiveSystem()
    with watching(system, Target("http://127.0.0.1:8080")) as sampler:
        end = time.monotonic() + 20  # a thread of a busy machine may come late
        while not sampler.telemetry().samples and time.monotonic() < end:
            time.sleep(0.05)
    assert with_telemetry(system, Run(), sampler).telemetry.value.samples >= 1
