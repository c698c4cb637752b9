"""Record real, deliberately faulty llama-server machines as folders of raw evidence.

Each scenario starts one ``llama-server`` on loopback under a known fault (or none), sends it a
short warm-up and two completions, and writes what an observer could have read meanwhile in the
folder form of ``tests/machines``:

``server.log``, ``props.json``, ``models.json``, ``slots.json``, ``metrics.txt``, ``run.json``,
``nvidia_smi_query.csv``, ``nvidia_smi_compute_apps.csv``, ``nvidia_smi_q.txt``, ``machine.txt``,
``proc_status.txt``; and, beyond that form, ``expected.toml`` (what a diagnosis should say),
``proc_schedstat.txt``, ``loadavg.txt``, ``nvidia_smi_pmon.txt`` and a few extra keys in
``run.json`` (``run_delay_s``, ``server_cpu_s``, ``machine_busy_s``, ``psi_cpu_some_s`` per run,
``loadavg``, ``env``, ``verbosity``, ``busy_loops``).

Usage::

    python record_faults.py --server build/bin/llama-server --models models --out recordings
    python record_faults.py --list
    python record_faults.py --server ... --models ... --out ... --only ngl_0 healthy_moe

The models folder holds ``llama8b.gguf``, ``smol135m.gguf``, ``moe30b.gguf`` and ``llama70b.gguf``
(random weights of the right shape are enough); a scenario whose model is missing is skipped.
Only processes started here are ever signalled.  Serial numbers, UUIDs and PDIs are masked.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GIB = 1024**3
PORT = 8089
PREFIX = "h200_llama_server_"
LOAD_LIMIT_S = 120.0
REQUEST_LIMIT_S = 90.0
NO_CUDA: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": ""}
PROMPT = (
    "The following is a careful explanation of how a modern computer moves data between its main "
    "memory and its processor, and why that movement, rather than arithmetic, sets the speed."
)
GPU_FIELDS = (
    "timestamp,utilization.gpu,utilization.memory,memory.used,temperature.gpu,power.draw,clocks.sm,"
    "clocks.mem,clocks_event_reasons.active,pcie.link.gen.current,pcie.link.width.current"
)


@dataclass(frozen=True)
class Scenario:
    """One machine to record: what is done to it, and what a diagnosis should then say."""

    name: str
    what: str
    verdict: str
    first_cause: str = ""
    also: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    model: str = "llama8b"
    leave_gib: float | None = None
    """A stranger holds all VRAM but this much."""
    hold_gib: float | None = None
    """A stranger holds this much VRAM and does nothing."""
    gpu_work: bool = False
    """A stranger multiplies matrices on the GPU all the while (needs torch)."""
    busy: bool = False
    """One busy loop per core runs all the while."""
    env: Mapping[str, str] = field(default_factory=dict)
    verbosity: int | None = 4
    """``-lv`` given to the server; None leaves its default."""


SPILL = "other_process_holds_vram"
LOW = "gpu_layers_set_too_low"
HIDDEN = "gpu_backend_not_loaded"
OOM = "memory_allocation_failed"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("healthy_8b", "nothing: all defaults, -lv 4", "normal"),
    Scenario("healthy_default_verbosity", "nothing; default verbosity hides the load lines", "normal", verbosity=None),
    Scenario("healthy_idle_stranger", "an idle stranger holds 50 GiB of VRAM, plenty is left", "normal", hold_gib=50),
    Scenario("healthy_context_131072", "-c 131072 given, and it fits with margin", "normal", args=("-c", "131072")),
    Scenario("healthy_135m", "nothing; a 135M model at Q4_0", "normal", model="smol135m"),
    Scenario("healthy_moe", "nothing; a 30B-A3B mixture of experts", "normal", model="moe30b"),
    Scenario(
        "context_pinned_spill",
        "-c 131072 pinned with 10 GiB of VRAM left: its 16 GiB KV cache pushes layers to the "
        "host; 4096 tokens would fit fully",
        "slow",
        "context_larger_than_needed",
        (SPILL,),
        ("-c", "131072"),
        leave_gib=10,
    ),
    Scenario(
        "spill_stranger_4gib",
        "a stranger holds all but 4 GiB of VRAM; defaults, so the fit drops layers",
        "slow",
        SPILL,
        ("weights_spill_to_ram",),
        leave_gib=4,
    ),
    Scenario("ngl_28", "-ngl 28 with the GPU free", "slow", LOW, (), ("-ngl", "28")),
    Scenario(
        "weights_allocation_fails",
        "3 GiB left, -ngl 99 -fit off -c 4096: the weights cannot be allocated",
        "failed",
        OOM,
        (SPILL,),
        ("-ngl", "99", "-fit", "off", "-c", "4096"),
        leave_gib=3,
    ),
    Scenario(
        "compute_buffer_allocation_fails",
        "6.6 GiB left, enough for weights and KV; -b 4096 -ub 4096 -fa off asks for a compute buffer that is not there",
        "failed",
        OOM,
        (SPILL,),
        ("-ngl", "99", "-fit", "off", "-c", "8192", "-b", "4096", "-ub", "4096", "-fa", "off"),
        leave_gib=6.6,
    ),
    Scenario(
        "moe_spill_stranger",
        "a stranger holds all but 12 GiB; the fit moves experts of a 30B-A3B to the host",
        "slow",
        SPILL,
        ("experts_on_cpu", "weights_spill_to_ram"),
        model="moe30b",
        leave_gib=12,
    ),
    Scenario(
        "full_gpu_cpu_busy",
        "all layers on the GPU, a busy loop on every core: one of two runs lost 30 %, the other nothing",
        "normal",
        "",
        ("cpu_contended",),
        busy=True,
    ),
    Scenario("ngl_0", "-ngl 0 with the GPU free", "slow", LOW, (), ("-ngl", "0")),
    Scenario(
        "ngl_20_cpu_busy",
        "-ngl 20 with the GPU free, and a busy loop on every core",
        "slow",
        LOW,
        ("cpu_contended",),
        ("-ngl", "20"),
        busy=True,
    ),
    Scenario(
        "ngl_12_threads_64",
        "-ngl 12 -t 64 on 16 cores with the GPU free",
        "slow",
        LOW,
        ("threads_exceed_cores",),
        ("-ngl", "12", "-t", "64"),
    ),
    Scenario(
        "cuda_hidden",
        "CUDA_VISIBLE_DEVICES empty: a GPU in the machine, none in the runtime",
        "slow",
        HIDDEN,
        env=NO_CUDA,
    ),
    Scenario(
        "cuda_hidden_ngl_99", "CUDA_VISIBLE_DEVICES empty, -ngl 99", "slow", HIDDEN, (), ("-ngl", "99"), env=NO_CUDA
    ),
    Scenario(
        "cuda_hidden_default_verbosity",
        "CUDA_VISIBLE_DEVICES empty, default verbosity",
        "slow",
        HIDDEN,
        env=NO_CUDA,
        verbosity=None,
    ),
    Scenario(
        "cuda_hidden_threads_64",
        "CUDA_VISIBLE_DEVICES empty, -t 64 on 16 cores",
        "slow",
        HIDDEN,
        ("threads_exceed_cores",),
        ("-t", "64"),
        env=NO_CUDA,
    ),
    Scenario(
        "cuda_hidden_cpu_busy",
        "CUDA_VISIBLE_DEVICES empty, and a busy loop on every core",
        "slow",
        HIDDEN,
        ("cpu_contended",),
        env=NO_CUDA,
        busy=True,
    ),
    Scenario(
        "gpu_shared_with_matmul",
        "a stranger multiplies matrices on the same GPU",
        "slow",
        "gpu_shared_with_other_work",
        gpu_work=True,
    ),
    Scenario(
        "moe_experts_on_cpu",
        "-cmoe with the GPU free: all experts on the host",
        "slow",
        "experts_on_cpu",
        (),
        ("-cmoe",),
        model="moe30b",
    ),
    Scenario("kv_on_host", "-nkvo with the GPU free: KV cache on the host", "slow", "kv_cache_on_host", (), ("-nkvo",)),
    Scenario(
        "context_pinned_alone",
        "-c 1179648 pinned on an empty GPU: a 144 GiB KV cache pushes layers to the host",
        "slow",
        "context_larger_than_needed",
        (),
        ("-c", "1179648"),
    ),
    Scenario(
        "parallel_slots",
        "-np 10 -c 1310720 on an empty GPU: ten slots of the trained context push layers to the host",
        "slow",
        "parallel_slots_inflate_kv",
        ("context_larger_than_needed",),
        ("-np", "10", "-c", "1310720"),
    ),
    Scenario(
        "output_layer_on_cpu",
        "-ot output.weight=CPU with the GPU free",
        "slow",
        "output_layer_on_cpu",
        (),
        ("-ot", "^output\\.weight=CPU"),
    ),
    Scenario(
        "kv_type_q4_1",
        "-ctk q4_1 -ctv q4_1 with flash attention: no GPU kernel for that KV type",
        "slow",
        "type_without_gpu_kernel",
        (),
        ("-ctk", "q4_1", "-ctv", "q4_1", "-fa", "on"),
    ),
    Scenario(
        "cuda_hidden_threads_1",
        "CUDA_VISIBLE_DEVICES empty, -t 1",
        "slow",
        HIDDEN,
        ("threads_too_few",),
        ("-t", "1"),
        env=NO_CUDA,
    ),
    Scenario(
        "cuda_hidden_threads_8",
        "CUDA_VISIBLE_DEVICES empty, -t 8",
        "slow",
        HIDDEN,
        ("threads_too_few",),
        ("-t", "8"),
        env=NO_CUDA,
    ),
    Scenario(
        "cuda_hidden_threads_32",
        "CUDA_VISIBLE_DEVICES empty, -t 32 on 16 cores",
        "slow",
        HIDDEN,
        ("threads_exceed_cores",),
        ("-t", "32"),
        env=NO_CUDA,
    ),
    Scenario("healthy_70b", "nothing; a 70B model at Q4_K_M", "normal", model="llama70b"),
)


# --- small readers ---------------------------------------------------------------------------


def mask(text: str) -> str:
    """Zero what identifies one machine: serial numbers, UUIDs, PDIs and fabric GUIDs."""
    text = re.sub(
        r"GPU-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "GPU-00000000-0000-0000-0000-000000000000", text
    )
    text = re.sub(r"(Serial Number\s*: )(?!N/A)\S+", r"\g<1>0000000000000", text)
    return re.sub(r"((?:GPU PDI|GUID|ClusterUUID)\s*: )(?!N/A)\S+", r"\g<1>0x0000000000000000", text)


def output_of(*command: str) -> str:
    """Standard output of a command, or a line saying why there is none."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}\n"


def read(path: str) -> str:
    """A file's text, or nothing where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def scheduler_ns(pid: int) -> tuple[int, int]:
    """(time on a CPU, time waiting for one) in ns, summed over the threads of a process."""
    ran = waited = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        numbers = read(f"{task}/schedstat").split()
        if len(numbers) >= 2:
            ran, waited = ran + int(numbers[0]), waited + int(numbers[1])
    return ran, waited


def machine_busy_s() -> float:
    """CPU seconds the whole machine has spent outside idle and iowait."""
    ticks = [int(word) for word in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def psi_cpu_some_s() -> float | None:
    """Total seconds of CPU pressure ("some"), where the kernel counts it."""
    found = re.search(r"some .*total=(\d+)", read("/proc/pressure/cpu"))
    return int(found[1]) / 1e6 if found else None


def describe_machine() -> str:
    """CPU, memory, disk and GPU of this machine in the words of its own tools."""
    smi = "".join(line + "\n" for line in output_of("nvidia-smi").splitlines() if not line.startswith("+"))
    parts = [output_of("lscpu"), output_of("free", "-g"), output_of("df", "-h", "/"), output_of("nproc"), smi]
    return "".join(parts) + output_of("nvidia-smi", "topo", "-m")


# --- processes around the server ---------------------------------------------------------------


def end(process: subprocess.Popen[Any], first: signal.Signals = signal.SIGTERM, patience_s: float = 15.0) -> int | None:
    """End one process we started: ask, wait, then kill."""
    if process.poll() is None:
        process.send_signal(first)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


@contextmanager
def running(command: Sequence[str], out: Path | None = None, header: str = "") -> Iterator[subprocess.Popen[Any]]:
    """A background process whose output goes to a file, ended on the way out; its file is masked."""
    with ExitStack() as stack:
        sink: Any = subprocess.DEVNULL
        if out is not None:
            sink = stack.enter_context(out.open("w", encoding="utf-8"))
            sink.write(header)
            sink.flush()
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            end(process)
    if out is not None:
        out.write_text(mask(read(str(out))), encoding="utf-8")


@contextmanager
def stranger(arguments: Sequence[str]) -> Iterator[None]:
    """Another process on the GPU, up and holding before the body runs."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), "--be-stranger", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready"):
            raise RuntimeError(f"the stranger did not start: {line!r}")
        yield
    finally:
        end(process)


def be_stranger(kind: str, gib: float) -> None:
    """Body of the stranger: hold VRAM through the driver, or multiply matrices; until ended."""
    if kind == "work":
        import torch  # noqa: PLC0415  # heavy, and only this stranger needs it

        left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        torch.mm(left, left)
        torch.cuda.synchronize()
        print("ready", flush=True)
        while True:
            for _ in range(20):
                torch.mm(left, left)
            torch.cuda.synchronize()
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()

    def check(code: int) -> None:
        if code:
            raise RuntimeError(f"CUDA driver error {code}")

    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    size = int(gib * GIB) if kind == "hold" else free.value - int(gib * GIB)
    check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    print(f"ready {size}", flush=True)
    while True:
        time.sleep(60)


# --- the server ----------------------------------------------------------------------------------


def call(path: str, body: Mapping[str, Any] | None = None, limit_s: float = 10.0) -> bytes:
    """One HTTP exchange with the server on loopback."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=limit_s) as answer:
        return bytes(answer.read())


def complete(tokens: int) -> dict[str, Any]:
    """The ``timings`` of one completion of exactly that many tokens."""
    body = {"prompt": PROMPT, "n_predict": tokens, "cache_prompt": False, "ignore_eos": True}
    timings: dict[str, Any] = json.loads(call("/completion", body, REQUEST_LIMIT_S))["timings"]
    return timings


def wait_until_loaded(server: subprocess.Popen[Any]) -> bool:
    """True once the server answers healthy, False when it ended or took too long."""
    limit = time.monotonic() + LOAD_LIMIT_S
    while time.monotonic() < limit and server.poll() is None:
        try:
            call("/health", limit_s=2)
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
        else:
            return True
    return False


def tokens_for(speed: float) -> int:
    """How many tokens to ask for so that one completion stays within some seconds."""
    return 128 if speed >= 40 else 64 if speed >= 7 else 32 if speed >= 3 else 16 if speed >= 1 else 8


def measure(server: subprocess.Popen[Any], record: dict[str, Any]) -> str:
    """Warm up, run two completions, and note what the scheduler did meanwhile."""
    tokens = tokens_for(complete(8)["predicted_per_second"])
    lines = ["when,cpu_ns,wait_ns\n"]
    for index in range(2):
        before, busy, pressure = scheduler_ns(server.pid), machine_busy_s(), psi_cpu_some_s()
        record["runs"].append(complete(tokens))
        after, pressed = scheduler_ns(server.pid), psi_cpu_some_s()
        lines += [f"before run {index + 1},{before[0]},{before[1]}\n", f"after run {index + 1},{after[0]},{after[1]}\n"]
        record["server_cpu_s"].append(round((after[0] - before[0]) / 1e9, 3))
        record["run_delay_s"].append(round((after[1] - before[1]) / 1e9, 3))
        record["machine_busy_s"].append(round(machine_busy_s() - busy, 2))
        record["psi_cpu_some_s"].append(None if pressure is None or pressed is None else round(pressed - pressure, 3))
    return "".join(lines)


def save_answers(folder: Path, pid: int) -> None:
    """The HTTP answers and the process lists of a server that is still up."""
    for name, path in (("props", "/props"), ("models", "/v1/models"), ("slots", "/slots")):
        folder.joinpath(f"{name}.json").write_text(json.dumps(json.loads(call(path)), indent=1), encoding="utf-8")
    folder.joinpath("metrics.txt").write_bytes(call("/metrics"))
    folder.joinpath("proc_status.txt").write_text(read(f"/proc/{pid}/status"), encoding="utf-8")


def toml_string(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False)


def record_scenario(
    scenario: Scenario, server_path: Path, models: Path, folder: Path, machine: tuple[str, str]
) -> dict[str, Any]:
    """Play one scenario and write its folder; the content of its run.json is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    args = ["-m", f"{models.name}/{scenario.model}.gguf", *scenario.args]
    verbosity = [] if scenario.verbosity is None else ["-lv", str(scenario.verbosity)]
    record: dict[str, Any] = {
        "args": args,
        "leave_gib": scenario.leave_gib,
        "load_s": None,
        "ok": False,
        "rc": None,
        "runs": [],
        "run_delay_s": [],
        "server_cpu_s": [],
        "machine_busy_s": [],
        "psi_cpu_some_s": [],
        "loadavg": "",
        "env": dict(scenario.env),
        "verbosity": scenario.verbosity,
        "busy_loops": (os.cpu_count() or 1) if scenario.busy else 0,
    }
    sampler = ["nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader,nounits", "-lms", "200"]
    query = folder / "nvidia_smi_query.csv"
    with ExitStack() as stack:
        stack.enter_context(running(sampler, query, GPU_FIELDS + "\n"))
        stack.enter_context(running(["nvidia-smi", "pmon", "-s", "um", "-d", "1"], folder / "nvidia_smi_pmon.txt"))
        time.sleep(0.4)
        if scenario.leave_gib is not None:
            stack.enter_context(stranger(["leave", str(scenario.leave_gib)]))
        if scenario.hold_gib is not None:
            stack.enter_context(stranger(["hold", str(scenario.hold_gib)]))
        if scenario.gpu_work:
            stack.enter_context(stranger(["work", "0"]))
        for _ in range(record["busy_loops"]):
            stack.enter_context(running([sys.executable, "-c", "while True: pass"]))
        log = stack.enter_context((folder / "server.log").open("wb"))
        command = [str(server_path), *args, "--host", "127.0.0.1", "--port", str(PORT), "--metrics", *verbosity]
        started = time.monotonic()
        server = subprocess.Popen(
            command,
            cwd=models.parent,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **scenario.env},
        )
        try:
            record["ok"] = wait_until_loaded(server)
            record["load_s"] = round(time.monotonic() - started, 1)
            if record["ok"]:
                try:
                    folder.joinpath("proc_schedstat.txt").write_text(measure(server, record), encoding="utf-8")
                    save_answers(folder, server.pid)
                except (OSError, KeyError, ValueError) as error:
                    record["error"] = f"{type(error).__name__}: {error}"
            else:
                del record["runs"]
            record["rc"] = server.poll()
            record["loadavg"] = read("/proc/loadavg").strip()
            apps = output_of("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv")
        finally:
            end(server, signal.SIGINT)
    texts = {
        "nvidia_smi_query.csv": read(str(query)).replace(", ", ","),
        "nvidia_smi_compute_apps.csv": mask(apps),
        "machine.txt": machine[0],
        "nvidia_smi_q.txt": machine[1],
        "loadavg.txt": record["loadavg"] + "\n",
        "run.json": json.dumps(record, indent=1),
        "server.log": mask(read(str(folder / "server.log"))),
        "expected.toml": f"verdict = {toml_string(scenario.verdict)}\n"
        f"first_cause = {toml_string(scenario.first_cause)}\n"
        f"also = {json.dumps(list(scenario.also))}\nwhat = {toml_string(scenario.what)}\n",
    }
    for name, text in texts.items():
        folder.joinpath(name).write_text(text, encoding="utf-8")
    return record


def machine_texts(cache: Path) -> tuple[str, str]:
    """machine.txt and nvidia_smi_q.txt, taken once with nothing loaded and reused by every folder."""
    files = (cache / "machine.txt", cache / "nvidia_smi_q.txt")
    if not all(file.exists() for file in files):
        cache.mkdir(parents=True, exist_ok=True)
        files[0].write_text(mask(describe_machine()), encoding="utf-8")
        files[1].write_text(mask(output_of("nvidia-smi", "-q")), encoding="utf-8")
    return files[0].read_text(encoding="utf-8"), files[1].read_text(encoding="utf-8")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Record faulty llama-server machines.")
    parser.add_argument("--server", type=Path, help="path of llama-server")
    parser.add_argument("--models", type=Path, help="folder of the .gguf files")
    parser.add_argument("--out", type=Path, help="folder that receives one folder per scenario")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="scenarios to record (default: all)")
    parser.add_argument("--list", action="store_true", help="print the scenario names and end")
    parser.add_argument("--be-stranger", nargs=2, metavar=("KIND", "GIB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_stranger:
        be_stranger(options.be_stranger[0], float(options.be_stranger[1]))
    if options.list:
        print("\n".join(scenario.name for scenario in SCENARIOS))
        return 0
    if not (options.server and options.models and options.out):
        parser.error("--server, --models and --out are needed")
    unknown = set(options.only or ()) - {scenario.name for scenario in SCENARIOS}
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    machine = machine_texts(options.out / ".machine")
    for scenario in SCENARIOS:
        if options.only and scenario.name not in options.only:
            continue
        if not (options.models / f"{scenario.model}.gguf").exists():
            print(f"{scenario.name}: skipped, no model {scenario.model}", flush=True)
            continue
        started = time.monotonic()
        folder = options.out / (PREFIX + scenario.name)
        record = record_scenario(scenario, options.server.resolve(), options.models.absolute(), folder, machine)
        speeds = ", ".join(f"{run['predicted_per_second']:.1f}" for run in record.get("runs", ())) or "no run"
        print(
            f"{scenario.name}: {speeds} tok/s, ok {record['ok']}, rc {record['rc']}, load {record['load_s']} s, waits "
            f"{record['run_delay_s']} s, {record.get('error', '')} took {time.monotonic() - started:.0f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
