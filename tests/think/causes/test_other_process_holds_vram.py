import msgspec
from answers import ask
from cases import gpu_case, r, with_facts
from firing import out_of_memory, stranger
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import PastLoad, SeenDevice
from unslow.facts.values import GIB, not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "other_process_holds_vram"
fires = stranger


def test_the_stranger_is_named_and_explains_the_spill(wording):
    report = judge(stranger())
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("77", "18.0 GiB"))
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_near_miss_it_holds_less_than_is_lacking():
    assert isinstance(ask(NAME, stranger(held_gib=0.1)), Absent)


def test_not_where_the_model_has_all_it_needs():
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(10 * GIB))
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"machine.gpus.0.processes": [other]})), Absent)


def test_without_the_list_of_processes_it_cannot_tell():
    unseen = {"machine.gpus.0.processes": not_found("no list"), "machine.gpus.0.vram_total_bytes": not_found("no")}
    answer = ask(NAME, with_facts(stranger(), unseen))
    assert isinstance(answer, CannotTell)
    assert answer.missing == "machine.gpus.0.processes"


def test_it_explains_a_failed_load_too():
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(18 * GIB))
    case = with_facts(out_of_memory(), {"machine.gpus.0.processes": [other]})
    assert isinstance(ask(NAME, case), Found)
    assert judge(case).findings[0].explains == ("memory_allocation_failed",)


def test_the_runtime_itself_is_no_stranger_where_its_number_is_unknown():
    own = GpuProcess(pid=10, name=r("/usr/bin/llama-server"), vram_bytes=r(18 * GIB))
    case = with_facts(stranger(), {"machine.gpus.0.processes": [own], "runtime.pid": not_found("no")})
    assert isinstance(ask(NAME, case), Absent)
    nameless = GpuProcess(pid=10, vram_bytes=r(18 * GIB))
    case = with_facts(stranger(), {"machine.gpus.0.processes": [nameless], "runtime.pid": not_found("no")})
    assert isinstance(ask(NAME, case), CannotTell)


def test_host_memory_that_ran_out_is_no_strangers_doing():
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(18 * GIB))
    facts = {"machine.gpus.0.processes": [other]}
    case = with_facts(out_of_memory(), facts)
    failure = msgspec.structs.replace(case.runtime.allocation_failure.value, device="CPU")
    assert isinstance(ask(NAME, with_facts(case, {"runtime.allocation_failure": failure})), Absent)


def load(at: str, free_gib: float, layers: int, model: str = "m") -> PastLoad:
    return PastLoad(
        at=at, model=r(model), free_bytes=r(int(free_gib * GIB)), gpu_layers=r(layers), layers=r(63), source=f"log:{at}"
    )


def test_one_of_two_loads_found_four_gib_less():
    loads = [load("17:59", 17.8, 49), load("18:16", 21.7, 62)]
    report = judge(pasted(gpus=["RTX 3090"], runtime={"loads": loads, "gpu_layers": 62, "layers": 63}))
    assert report.findings[0].cause == NAME
    assert "3.9 GiB" in report.findings[0].because
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_loads_that_differ_in_the_model_or_hardly_in_memory_prove_nothing():
    for second in (load("18:16", 21.7, 62, "other"), load("18:16", 18.1, 50)):
        case = pasted(gpus=["RTX 3090"], runtime={"loads": [load("17:59", 17.8, 49), second]})
        assert isinstance(ask(NAME, case), CannotTell)


def test_a_program_with_its_gigabytes_was_seen_and_one_without_is_blamed():
    split = {"gpu_layers": 20, "layers": 33}
    seen = says(Topic.OTHER_VRAM_USER, "ComfyUI holds 9 GB of VRAM")
    blamed = says(Topic.OTHER_VRAM_USER, "maybe another process uses the GPU")
    assert isinstance(ask(NAME, pasted(seen, gpus=["RTX 3090"], runtime=split)), Found)
    assert isinstance(ask(NAME, pasted(blamed, gpus=["RTX 3090"], runtime=split)), CannotTell)


def test_memory_that_the_runtime_says_is_not_its_own():
    gpu = SeenDevice(name="CUDA0", unaccounted_bytes=r(9 * GIB))
    case = pasted(gpus=["RTX 3090"], runtime={"devices": [gpu], "gpu_layers": 20, "layers": 33})
    assert isinstance(ask(NAME, case), Found)
    driver = SeenDevice(name="CUDA0", unaccounted_bytes=r(GIB // 2))
    case = pasted(gpus=["RTX 3090"], runtime={"devices": [driver], "gpu_layers": 20, "layers": 33})
    assert isinstance(ask(NAME, case), CannotTell)


def test_memory_that_was_gone_before_the_load():
    gpu = SeenDevice(name="CUDA0", total_bytes=r(48 * GIB), free_bytes=r(29 * GIB))
    split = {"gpu_layers": 24, "layers": 49}
    found = ask(NAME, pasted(gpus=["RTX 3090"], runtime={"devices": [gpu], **split}))
    assert isinstance(found, Found)
    assert "19.0 of 48.0 GiB" in found.because
    desktop = SeenDevice(name="CUDA0", total_bytes=r(24 * GIB), free_bytes=r(22 * GIB))
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime={"devices": [desktop], **split})), CannotTell)
    whole = {"devices": [gpu], "gpu_layers": 49, "layers": 49}
    assert not isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=whole)), Found)


def unsized(**facts):
    """A driver that tells who is on the GPU and not how much each holds, as on Windows."""
    listed = [GpuProcess(pid=10, name=r("llama-server.exe")), GpuProcess(pid=77, name=r("game.exe"))]
    return with_facts(stranger(), {"machine.gpus.0.processes": listed, **facts})


def test_strangers_of_unknown_size_hold_what_is_in_use_and_not_the_runtimes():
    assert isinstance(ask(NAME, unsized()), CannotTell), "who holds what is not known, nor how much is in use"
    full = ask(NAME, unsized(**{"machine.gpus.0.vram_used_bytes": 23 * GIB}))
    assert isinstance(full, Found)
    assert "game.exe (pid 77)" in full.because
    assert full.evidence[0].fact == "machine.gpus.0.vram_used_bytes"


def test_near_miss_memory_that_only_the_runtime_uses():
    own = sum(b.bytes for b in stranger().runtime.buffers.need() if b.on_gpu)
    assert isinstance(ask(NAME, unsized(**{"machine.gpus.0.vram_used_bytes": own + GIB // 2})), Absent)


def test_memory_that_went_before_the_load_and_was_not_missed():
    """Two readings tell of a stranger only where both are known, and where something found no room."""
    sums = {"runtime.asked_bytes": 10 * GIB, "runtime.available_bytes": 4 * GIB}
    devices = {"runtime.devices": [SeenDevice(name="CUDA0", free_bytes=r(20 * GIB))]}
    assert isinstance(ask(NAME, with_facts(gpu_case(20), {**sums, **devices})), Found)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {**sums, **devices})), Absent)
    unknown = with_facts(gpu_case(), {**sums, **devices, "runtime.available_bytes": not_found("no log")})
    assert isinstance(ask(NAME, unknown), Absent)


def test_memory_that_was_gone_before_the_load_where_no_process_is_listed():
    """As in a container: the card has 24 GiB by the driver, and the runtime saw 4 of them free."""
    unlisted = {"machine.gpus.0.processes": not_found("no list")}
    answer = ask(NAME, with_facts(gpu_case(20, 4.0), unlisted))
    assert isinstance(answer, Found)
    assert "20.0 of 24.0 GiB" in answer.because
    assert answer.cure.vram_bytes == 24 * GIB
    assert not isinstance(ask(NAME, with_facts(gpu_case(20, 22.0), unlisted)), Found)
    large = unlisted | {"runtime.asked_bytes": 40 * GIB}
    assert not isinstance(ask(NAME, with_facts(gpu_case(20, 4.0), large)), Found), "it would not fit without them"
