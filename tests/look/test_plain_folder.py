import json
import shutil
from pathlib import Path

import pytest

from unslow.facts.errors import UserError
from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import dump_snapshot, parse_snapshot
from unslow.facts.values import MIB, Absence, Known, Origin, Unknown, reported_fact
from unslow.look.plain_folder import is_plain_folder, numbered_rows, processes_by_gpu, read_plain_folder

MACHINES = Path(__file__).parents[1] / "machines"
PREFIX = "h200_llama_server_"
FOLDERS = sorted(path.parent for path in MACHINES.glob(f"{PREFIX}*/server.log"))


def machine(name: str) -> Path:
    return MACHINES / f"{PREFIX}{name}"


@pytest.fixture
def copy(tmp_path):
    def make(name: str) -> Path:
        return Path(shutil.copytree(machine(name), tmp_path / "copy"))

    return make


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name.removeprefix(PREFIX))
def test_every_recorded_machine_becomes_a_snapshot(folder):
    assert is_plain_folder(folder)
    snapshot = read_plain_folder(folder)
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot
    [subject] = snapshot.subjects
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert subject.runtime.state.need() == ("loaded" if record["ok"] else "failed")
    if record["ok"]:
        rates = sorted(run["predicted_per_second"] for run in record["runs"])
        assert subject.run.decode_tokens_per_s.need() == pytest.approx(sum(rates) / len(rates))
    [gpu] = snapshot.machine.gpus.need()
    assert gpu.name.need() == "NVIDIA H200"


def test_facts_of_a_healthy_recorded_machine():
    snapshot = read_plain_folder(machine("healthy_full_gpu"))
    cpu, memory = snapshot.machine.cpu, snapshot.machine.memory
    assert (cpu.physical_cores.need(), cpu.allowed_cpus.need(), memory.total_bytes.need()) == (16, 16, 125 * 1024 * MIB)
    [gpu] = snapshot.machine.gpus.need()
    assert gpu.vram_total_bytes.need() == 143771 * MIB
    assert gpu.vram_used_bytes == Known(21625 * MIB, Origin.REPORTED, "nvidia_smi_query.csv")
    assert gpu.vram_free_bytes.need() == (143771 - 616 - 21625) * MIB
    assert (gpu.power_limit_w.need(), gpu.clock_max_hz.need(), gpu.temperature_c.need()) == (700.0, 1.98e9, 45.0)
    assert [(p.pid, p.vram_bytes.need() // MIB) for p in gpu.processes.need()] == [(5359, 21616)]
    [subject] = snapshot.subjects
    assert subject.runtime.process.pid.need() == 5359
    assert subject.runtime.process.command.need() == ["llama-server", "-m", "models/llama8b.gguf"]
    assert subject.runtime.placement.gpu_layers_set.absence is Absence.NOT_FOUND
    assert subject.runtime.placement.gpu_layers.need() == 33
    assert subject.model.weights_bytes == Known(4912898048, Origin.REPORTED, "models.json")
    assert subject.run.depth_tokens.need() == 36 + 128 // 2
    assert subject.run.load_s.need() == 2.5
    assert subject.run.prefill_tokens_per_s.need() == pytest.approx((2669.039 + 2737.226) / 2, rel=1e-4)
    [under_load] = subject.run.gpus.need()
    assert under_load.vram_used_max_bytes.need() == 21625 * MIB


def test_other_processes_are_distinguished_from_the_server():
    snapshot = read_plain_folder(machine("spill_other_process_holds_vram"))
    [gpu] = snapshot.machine.gpus.need()
    own = snapshot.subjects[0].runtime.process.pid.need()
    strangers = [p for p in gpu.processes.need() if p.pid != own]
    assert [(p.pid, p.vram_bytes.need() // MIB) for p in strangers] == [(5581, 138120)]


def test_a_failed_load_has_no_run_and_no_process_list():
    snapshot = read_plain_folder(machine("kv_cache_allocation_fails"))
    [subject] = snapshot.subjects
    assert subject.runtime.memory.allocation_failure.need().what == "kv_cache"
    assert subject.run.decode_tokens_per_s.absence is Absence.NOT_FOUND
    assert isinstance(subject.run.load_s, Unknown)  # the time until it failed is no load time
    assert subject.runtime.process.pid.absence is Absence.NOT_FOUND
    [gpu] = snapshot.machine.gpus.need()
    assert isinstance(gpu.processes, Unknown)


def test_cpu_use_while_generating_is_read():
    run = read_plain_folder(machine("full_gpu_cpu_busy")).subjects[0].run
    assert run.own_cpus.need() == pytest.approx(0.867, abs=0.01)
    assert run.others_cpus.need() == pytest.approx(15.6, abs=0.1)
    assert run.waiting_for_cpu_s_per_token.need() == pytest.approx(0.00098, abs=0.0001)


def test_the_recorded_environment_is_read():
    runtime = read_plain_folder(machine("cuda_hidden")).subjects[0].runtime
    assert runtime.process.environment.need() == {"CUDA_VISIBLE_DEVICES": ""}
    assert runtime.placement.devices.need() == []


@pytest.mark.parametrize("name", sorted(path.name for path in machine("healthy_full_gpu").iterdir()))
def test_any_file_of_a_plain_folder_can_be_missing(copy, name):
    folder = copy("healthy_full_gpu")
    (folder / name).unlink()
    snapshot = read_plain_folder(folder)
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot


@pytest.mark.parametrize(
    "garbage", [b"", b"\x00\xff" * 1000, b"{]", b"a,b,c\n" * 100], ids=["empty", "binary", "json", "csv"]
)
@pytest.mark.parametrize("name", sorted(path.name for path in machine("healthy_full_gpu").iterdir()))
def test_any_file_of_a_plain_folder_can_be_garbage(copy, name, garbage):
    folder = copy("healthy_full_gpu")
    (folder / name).write_bytes(garbage)
    snapshot = read_plain_folder(folder)
    assert parse_snapshot(dump_snapshot(snapshot)) == snapshot


def test_a_log_alone_makes_a_snapshot(tmp_path):
    shutil.copy(machine("healthy_full_gpu") / "server.log", tmp_path)
    snapshot = read_plain_folder(tmp_path)
    [gpu] = snapshot.machine.gpus.need()
    assert (gpu.name.need(), gpu.vram_total_bytes.need()) == ("NVIDIA H200", 143155 * MIB)
    assert isinstance(gpu.vram_free_bytes, Unknown)
    [subject] = snapshot.subjects
    assert subject.runtime.placement.gpu_layers.need() == 33
    assert subject.runtime.state.need() == "loaded"
    assert subject.run.load_s.need() == pytest.approx(1.709, abs=0.001)
    assert [c.generated_tokens for c in subject.run.completions.need()] == [8, 128, 128]


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"args": "-m x"}, "$.args"),
        ({"args": [], "runs": [{"predicted_n": "64", "predicted_ms": 1}]}, "$.runs[0].predicted_n"),
        ({"runs": [{"predicted_n": -1, "predicted_ms": 1}]}, "$.runs[0].predicted_n"),
        ({"load_s": []}, "$.load_s"),
        ([], "array"),
    ],
)
def test_a_wrong_type_in_run_json_is_named(tmp_path, record, field):
    (tmp_path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_plain_folder(tmp_path)
    assert "run.json" in error.value.message
    assert field in error.value.message


def test_two_gpus_keep_their_own_series(copy):
    folder = copy("healthy_full_gpu")
    text = (folder / "nvidia_smi_q.txt").read_text(encoding="utf-8")
    block = text[text.index("GPU 00000000:00:06.0") :]
    (folder / "nvidia_smi_q.txt").write_text(text + "\n" + block.replace("00:06.0", "00:07.0"), encoding="utf-8")
    rows = "index,timestamp,utilization.gpu,memory.used\n" + "".join(
        f"{n % 2},2026/11/15 01:08:{10 + n // 2}.000,{50 * (n % 2)},{1000 + 1000 * (n % 2)}\n" for n in range(20)
    )
    (folder / "nvidia_smi_query.csv").write_text(rows, encoding="utf-8")
    gpus = read_plain_folder(folder).machine.gpus.need()
    assert [gpu.vram_used_bytes.need() // MIB for gpu in gpus] == [1000, 2000]
    assert all(gpu.processes.absence is Absence.NOT_SUPPORTED for gpu in gpus)


def test_a_folder_without_recordings_is_not_a_plain_folder(tmp_path):
    assert not is_plain_folder(tmp_path)
    assert not is_plain_folder(tmp_path / "nowhere")


def process(pid: int, mib: int) -> GpuProcess:
    return GpuProcess(pid=pid, vram_bytes=reported_fact(mib * MIB, "apps"))


@pytest.mark.parametrize(
    ("held", "used", "pids"),
    [
        ([(7, 14800), (9, 12400), (7, 2100)], [14812, 14520], [[7], [9, 7]]),
        ([(7, 14800), (9, 12400), (7, 2100)], [14812 + 12400, 2112], [[7, 9], [7]]),
        ([(7, 5000)], [12, 5100, 12], [[], [7], []]),
        ([], [0, 0], [[], []]),
    ],
)
def test_processes_are_assigned_to_the_gpus_whose_memory_they_fill(held, used, pids):
    found = processes_by_gpu([process(*each) for each in held], [size * MIB for size in used])
    assert [[p.pid for p in each] for each in found] == pids


def test_processes_that_fit_no_gpu_are_not_assigned():
    assert processes_by_gpu([process(7, 5000)], [12 * MIB, 9000 * MIB]) is None
    assert processes_by_gpu([GpuProcess(pid=7)], [12 * MIB, 9000 * MIB]) is None
    assert processes_by_gpu([process(n, 1) for n in range(500)], [500 * MIB, 12 * MIB]) is None


def test_rows_of_alternating_gpus_are_numbered():
    rows = [{"timestamp": "2026/11/15 01:09:07.353", "memory.used": str(n)} for n in range(7)]
    assert [row["index"] for row in numbered_rows(rows, 3)] == ["0", "1", "2", "0", "1", "2"]
    assert numbered_rows(rows, 1) == rows
    named = [{**row, "index": "1"} for row in rows]
    assert numbered_rows(named, 3) == named
