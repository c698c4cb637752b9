import msgspec
from answers import ask
from cases import gpu_case, r, with_facts
from firing import out_of_memory, stranger
from several_gpus import two_gpus
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import PastLoad, SeenDevice
from unslow.facts.values import GIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "other_process_holds_vram"
fires = stranger


def test_largest_process_is_named_and_explains_the_spill(wording):
    report = judge(CaseView(stranger()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("77", "18.0 GiB"))
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_process_holding_less_than_the_model_lacks_is_ruled_out():
    assert isinstance(ask(NAME, stranger(held_gib=0.1)), Absent)


def test_other_process_is_ruled_out_where_all_layers_are_on_the_gpu():
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(10 * GIB))
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"machine.gpus.0.processes": [other]})), Absent)


def test_missing_process_list_gives_cannot_tell():
    unseen = {"machine.gpus.0.processes": not_found("no list"), "machine.gpus.0.vram_total_bytes": not_found("no")}
    answer = ask(NAME, with_facts(stranger(), unseen))
    assert isinstance(answer, CannotTell)
    assert answer.missing == "machine.gpus.0.processes"


def test_other_process_explains_a_failed_load():
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(18 * GIB))
    case = with_facts(out_of_memory(), {"machine.gpus.0.processes": [other]})
    assert isinstance(ask(NAME, case), Found)
    assert judge(CaseView(case)).findings[0].explains == ("memory_allocation_failed",)


def test_llama_server_of_unknown_pid_is_the_runtime_and_a_nameless_process_is_undetermined():
    own = GpuProcess(pid=10, name=r("/usr/bin/llama-server"), vram_bytes=r(18 * GIB))
    case = with_facts(stranger(), {"machine.gpus.0.processes": [own], "runtime.process.pid": not_found("no")})
    assert isinstance(ask(NAME, case), Absent)
    nameless = GpuProcess(pid=10, vram_bytes=r(18 * GIB))
    case = with_facts(stranger(), {"machine.gpus.0.processes": [nameless], "runtime.process.pid": not_found("no")})
    assert isinstance(ask(NAME, case), CannotTell)


def test_failed_host_allocation_is_not_blamed_on_gpu_processes():
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(18 * GIB))
    facts = {"machine.gpus.0.processes": [other]}
    case = with_facts(out_of_memory(), facts)
    failure = msgspec.structs.replace(case.runtime.memory.allocation_failure.value, device="CPU")
    assert isinstance(ask(NAME, with_facts(case, {"runtime.memory.allocation_failure": failure})), Absent)


def load(at: str, free_gib: float, layers: int, model: str = "m") -> PastLoad:
    return PastLoad(
        at=at, model=r(model), free_bytes=r(int(free_gib * GIB)), gpu_layers=r(layers), layers=r(63), source=f"log:{at}"
    )


def test_load_with_four_gib_less_free_and_fewer_layers_fires():
    loads = [load("17:59", 17.8, 49), load("18:16", 21.7, 62)]
    report = judge(CaseView(pasted(gpus=["RTX 3090"], runtime={"loads": loads, "gpu_layers": 62, "layers": 63})))
    assert report.findings[0].cause == NAME
    assert "3.9 GiB" in report.findings[0].because
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_loads_of_other_models_or_with_similar_free_memory_give_cannot_tell():
    for second in (load("18:16", 21.7, 62, "other"), load("18:16", 18.1, 50)):
        case = pasted(gpus=["RTX 3090"], runtime={"loads": [load("17:59", 17.8, 49), second]})
        assert isinstance(ask(NAME, case), CannotTell)


def test_told_program_fires_only_with_its_gigabytes():
    split = {"gpu_layers": 20, "layers": 33}
    seen = says(Topic.OTHER_VRAM_USER, "ComfyUI holds 9 GB of VRAM")
    blamed = says(Topic.OTHER_VRAM_USER, "maybe another process uses the GPU")
    assert isinstance(ask(NAME, pasted(seen, gpus=["RTX 3090"], runtime=split)), Found)
    assert isinstance(ask(NAME, pasted(blamed, gpus=["RTX 3090"], runtime=split)), CannotTell)


def test_unaccounted_memory_fires_above_what_the_driver_takes():
    gpu = SeenDevice(name="CUDA0", unaccounted_bytes=r(9 * GIB))
    case = pasted(gpus=["RTX 3090"], runtime={"devices": [gpu], "gpu_layers": 20, "layers": 33})
    assert isinstance(ask(NAME, case), Found)
    driver = SeenDevice(name="CUDA0", unaccounted_bytes=r(GIB // 2))
    case = pasted(gpus=["RTX 3090"], runtime={"devices": [driver], "gpu_layers": 20, "layers": 33})
    assert isinstance(ask(NAME, case), CannotTell)


def test_memory_in_use_before_the_load_fires_only_beside_a_split():
    gpu = SeenDevice(name="CUDA0", total_bytes=r(48 * GIB), free_bytes=r(29 * GIB))
    split = {"gpu_layers": 24, "layers": 49}
    found = ask(NAME, pasted(gpus=["RTX 3090"], runtime={"devices": [gpu], **split}))
    assert isinstance(found, Found)
    assert "19.0" in found.because
    assert "48.0 GiB" in found.because
    desktop = SeenDevice(name="CUDA0", total_bytes=r(24 * GIB), free_bytes=r(22 * GIB))
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime={"devices": [desktop], **split})), CannotTell)
    whole = {"devices": [gpu], "gpu_layers": 49, "layers": 49}
    assert not isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=whole)), Found)


def unsized(**facts):
    """A driver that lists the processes on the GPU without their sizes, as on Windows."""
    listed = [GpuProcess(pid=10, name=r("llama-server.exe")), GpuProcess(pid=77, name=r("game.exe"))]
    return with_facts(stranger(), {"machine.gpus.0.processes": listed, **facts})


def test_processes_without_sizes_hold_what_is_used_and_not_the_runtimes():
    assert isinstance(ask(NAME, unsized()), CannotTell), "neither sizes nor the memory in use are known"
    full = ask(NAME, unsized(**{"machine.gpus.0.vram_used_bytes": 23 * GIB}))
    assert isinstance(full, Found)
    assert "game.exe (pid 77)" in full.because
    assert full.evidence[0].fact == "machine.gpus.0.vram_used_bytes"


def test_memory_used_by_the_runtime_alone_is_ruled_out():
    own = sum(b.bytes for b in stranger().runtime.memory.buffers.need() if b.on_gpu)
    assert isinstance(ask(NAME, unsized(**{"machine.gpus.0.vram_used_bytes": own + GIB // 2})), Absent)


def test_memory_lost_between_start_and_load_fires_only_beside_a_split():
    sums = {"runtime.memory.asked_bytes": 10 * GIB, "runtime.memory.available_bytes": 4 * GIB}
    devices = {"runtime.placement.devices": [SeenDevice(name="CUDA0", free_bytes=r(20 * GIB))]}
    assert isinstance(ask(NAME, with_facts(gpu_case(20), {**sums, **devices})), Found)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {**sums, **devices})), Absent)
    unknown = with_facts(gpu_case(), {**sums, **devices, "runtime.memory.available_bytes": not_found("no log")})
    assert isinstance(ask(NAME, unknown), Absent)


def test_memory_in_use_before_the_load_fires_without_a_process_list():
    """As in a container: the card has 24 GiB, and the runtime saw 4 GiB free."""
    unlisted = {"machine.gpus.0.processes": not_found("no list")}
    answer = ask(NAME, with_facts(gpu_case(20, 4.0), unlisted))
    assert isinstance(answer, Found)
    assert "20.0" in answer.because
    assert "24.0 GiB" in answer.because
    assert answer.cure.vram_bytes == 24 * GIB
    assert not isinstance(ask(NAME, with_facts(gpu_case(20, 22.0), unlisted)), Found)
    large = unlisted | {"runtime.memory.asked_bytes": 40 * GIB}
    assert not isinstance(ask(NAME, with_facts(gpu_case(20, 4.0), large)), Found), "it would not fit without them"


def beside_faster_gpu(held_gib: float, faster: str = "NVIDIA GeForce RTX 4090"):
    """The model on an RTX 3060, and another process on the other GPU."""
    own = GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(5 * GIB))
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(int(held_gib * GIB)))
    listed = {"machine.gpus.0.processes": [other], "machine.gpus.1.processes": [own]}
    return with_facts(two_gpus((faster, "NVIDIA GeForce RTX 3060")), listed)


def test_process_that_fills_the_faster_gpu_fires_where_the_model_is_on_the_slower(wording):
    answer = ask(NAME, beside_faster_gpu(18))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("77", "18.0 GiB", "RTX 4090", "RTX 3060"))
    assert answer.remedies[0].change.value == 77


def test_faster_gpu_with_room_or_an_equal_gpu_does_not_fire():
    assert not isinstance(ask(NAME, beside_faster_gpu(8)), Found)
    assert not isinstance(ask(NAME, beside_faster_gpu(18, "NVIDIA GeForce RTX 3060")), Found)
