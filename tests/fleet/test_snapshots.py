"""Readings of a Prometheus as facts."""

import msgspec
import pytest
from fleet_members import CACHE_OF_TWO, H100, gpu, llama_cpp, member

from unslow.facts.snapshot import dump_snapshot, parse_snapshot
from unslow.facts.values import Known, Origin, Unknown
from unslow.fleet.member import Member
from unslow.fleet.snapshots import snapshot_of
from unslow.think.judge.judge import diagnose


def subject(one: Member):
    return snapshot_of(one).subjects[0]


def test_every_reading_is_a_fact_with_its_source():
    seen = snapshot_of(member())
    runtime, run, machine = seen.subjects[0].runtime, seen.subjects[0].run, seen.machine
    assert runtime.name.value == "vLLM"
    assert runtime.cache.usage == Known(0.2, Origin.REPORTED, "Prometheus: cache_used, mean over 15 min")
    assert run.traffic.value.seconds == 900
    assert run.traffic.value.looks == 60
    assert run.depth_tokens.value == 560, "behind the prompt and half of the answer"
    assert machine.gpus.value[0].name.value == H100
    assert machine.memory.total_bytes.value == 512_000_000_000
    assert machine.cpu.logical_cpus.value == 64


def test_host_and_gpu_readings_become_facts():
    hot = gpu(memory_clock_hz=2.6e9, memory_temperature_max_c=101.0)
    told = {"swapped_in_bytes_per_s": 2e6, "swapped_out_bytes_per_s": 0.0, "package_throttles": 7.0}
    machine = snapshot_of(member(hot, host=told)).machine
    assert machine.memory.swapped_in_bytes.value == 1_800_000_000, "in the window"
    assert machine.memory.swapped_out_bytes.value == 0
    assert machine.cpu.package_throttles.value == 7
    card = machine.gpus.value[0]
    assert (card.memory_clock_hz.value, card.memory_temperature_c.value) == (2.6e9, 101.0)
    rested = snapshot_of(member(gpu(memory_clock_hz=4e8, busy=0.2))).machine.gpus.value[0]
    assert isinstance(rested.memory_clock_hz, Unknown), "a mean with pauses in it"


def test_vllm_cache_config_is_read_as_from_the_server():
    runtime = subject(member()).runtime
    assert runtime.cache.capacity_tokens.value == 448_000
    assert runtime.memory.gpu_memory_fraction.value == 0.9
    assert runtime.cache.prompt_cache.value is True


def test_missing_facts_state_the_reason(wording):
    gone = member(about={"gpus": (), "missing": {"gpus": "labels say gpu-1, and no exporter does"}})
    seen = snapshot_of(gone)
    assert isinstance(seen.machine.gpus, Unknown)
    wording(seen.machine.gpus.why, tells="gpu-1")
    assert "unslow exporter" in seen.machine.gpus.how_to_get
    assert isinstance(seen.subjects[0].run.gpus, Unknown)
    assert "no draft acceptance" in seen.subjects[0].runtime.sampling.draft_acceptance.why


def test_failed_engine_query_gives_cannot_tell():
    bare = Member(key="a", runtime="Ollama", window_s=900.0, missing={"engine": "not answered: engine_load"})
    seen = snapshot_of(bare)
    assert seen.subjects[0].run.traffic.why == "not answered: engine_load"
    report = diagnose(seen).subjects[0]
    assert report.verdict == "cannot_tell"
    assert not report.findings


def test_fleet_snapshot_round_trips():
    seen = snapshot_of(member(), "2026-11-16T12:00:00Z")
    again = parse_snapshot(dump_snapshot(seen))
    assert again == seen
    assert diagnose(again) == diagnose(seen)


def test_impossible_numbers_are_not_facts():
    broken = member(cache_used=float("nan"), queue_s=-3.0, preemptions=-1.0)
    one = subject(broken)
    assert isinstance(one.run.queue_s, Unknown)
    assert isinstance(one.runtime.scheduling.preemptions, Unknown)
    assert diagnose(snapshot_of(broken)).subjects[0].verdict in ("normal", "cannot_tell")


def test_sleeping_engine_has_state_asleep():
    assert subject(member(asleep=1.0)).runtime.state.value == "asleep"
    assert subject(member()).runtime.state.value == "loaded"


def test_places_become_slots_or_max_sequences():
    assert subject(llama_cpp()).runtime.scheduling.slots.value == 4
    assert subject(member(places=256.0)).runtime.scheduling.max_sequences.value == 256


@pytest.mark.parametrize(("busy", "known"), [(0.97, True), (0.6, False)])
def test_mean_clock_of_an_idle_gpu_is_unknown(busy, known):
    load = subject(member(gpu(busy=busy))).run.gpus.value[0]
    assert isinstance(load.clock_hz, Known) is known
    if not known:
        assert "idle for 40%" in load.clock_hz.why


def test_clock_while_busy_is_known():
    told = gpu(busy=0.5)
    clock = told.readings["clock_hz"]._replace(source="DCGM_FI_DEV_SM_CLOCK, mean over 15 min while busy")
    known = msgspec.structs.replace(told, readings={**told.readings, "clock_hz": clock})
    assert subject(member(known)).run.gpus.value[0].clock_hz.value == 1.93e9


def test_link_speed_of_an_idle_gpu_is_unknown():
    load = subject(member(gpu(busy=0.05, pcie_generation=1.0))).run.gpus.value[0]
    assert isinstance(load.pcie_generation_max_seen, Unknown)
    assert subject(member(gpu(busy=0.5))).run.gpus.value[0].pcie_generation_max_seen.value == 5


def test_no_throttling_needs_both_reasons_reported():
    def reasons(**changed: float | None):
        return subject(member(gpu(**changed))).run.gpus.value[0].event_reasons

    assert reasons().value == []
    assert reasons(thermal_throttled=0.04).value == []
    assert reasons(thermal_throttled=0.5).value == ["sw_thermal_slowdown"]
    assert isinstance(reasons(thermal_throttled=None), Unknown)
    assert reasons(thermal_throttled=None, power_throttled=0.9).value == ["sw_power_cap"]


def test_gpu_with_empty_memory_is_not_counted():
    seen = snapshot_of(member(gpu(0), gpu(1, vram_used_bytes=1e8, vram_used_max_bytes=2e8)))
    assert [one.index for one in seen.machine.gpus.value] == [0]
    assert seen.subjects[0].runtime.placement.tensor_parallel.value == 1


@pytest.mark.parametrize(
    ("info", "expected"),
    [(CACHE_OF_TWO, 2), ({**CACHE_OF_TWO, "num_gpu_blocks": "28000"}, 1)],
    ids=["tensor parallel", "copies"],
)
def test_tensor_parallel_is_inferred_from_memory(info, expected):
    cut = subject(member(gpu(0), gpu(1), about={"info": info})).runtime.placement.tensor_parallel
    assert cut.value == expected
    assert cut.origin is Origin.ESTIMATED


def test_without_cache_size_only_a_large_model_gives_tensor_parallel(wording):
    large = member(*map(gpu, range(4)), about={"info": {}, "model": "meta-llama/Llama-3.3-70B-Instruct"})
    assert subject(large).runtime.placement.tensor_parallel.value == 4
    open_question = member(gpu(0), gpu(1), about={"info": {}})
    wording(subject(open_question).runtime.placement.tensor_parallel.why, tells="2 GPUs")
    report = diagnose(snapshot_of(open_question)).subjects[0]
    assert report.verdict == "cannot_tell", "with or without a cut it may be slow or not"


def test_ambiguous_memory_gives_no_tensor_parallel(wording):
    odd = member(*map(gpu, range(4)), about={"info": CACHE_OF_TWO})
    wording(subject(odd).runtime.placement.tensor_parallel.why, tells="it has 4")


@pytest.mark.parametrize(("used", "share"), [(7.0e9, 1.0), (3.0e9, 0.61), (4.7e9, None)])
def test_llama_cpp_offload_is_inferred_from_vram(used, share):
    one = llama_cpp(gpu(vram_used_bytes=used, vram_used_max_bytes=used), model="Llama-3.1-8B-Instruct-Q4_K_M")
    found = subject(one).runtime.memory.vram_share
    assert found.value_or(None) == (pytest.approx(share, abs=0.02) if share else None)


def test_idle_gpu_vram_is_not_counted_as_llama_cpp_offload():
    def share(busy: float):
        card = gpu(busy=busy, vram_used_bytes=30e9, vram_used_max_bytes=30e9)
        return subject(llama_cpp(card, model="Llama-3.1-8B-Instruct-Q4_K_M")).runtime

    assert isinstance(share(0.02).memory.vram_share, Unknown)
    assert isinstance(share(0.02).placement.gpu_layers, Unknown)
    assert (share(0.5).placement.gpu_layers.value, share(0.5).placement.layers.value) == (33, 33)


def test_a_model_without_a_name_says_how_to_name_it(wording):
    report = diagnose(snapshot_of(member(about={"model": ""}))).subjects[0]
    assert report.verdict == "cannot_tell"
    wording(report.summary)


def test_summary_names_missing_gpu_data(wording):
    gone = member(about={"gpus": (), "missing": {"gpus": "no exporter is scraped on gpu-1"}})
    wording(diagnose(snapshot_of(gone)).subjects[0].summary, tells="gpu-1")


def test_mig_partition_is_not_the_full_device(wording):
    sizes = {"vram_total_bytes": 42e9, "vram_used_bytes": 38e9, "vram_used_max_bytes": 38e9, "vram_free_bytes": 4e9}
    of_a_slice = member(gpu(**sizes), token_gap_s=0.015)
    report = diagnose(snapshot_of(of_a_slice)).subjects[0]
    assert report.verdict == "cannot_tell"
    wording(report.summary, tells=("39 GiB", "80 GiB", "H100"))
    assert diagnose(snapshot_of(member(gpu(), token_gap_s=0.015))).subjects[0].verdict == "slow", "a whole one"
