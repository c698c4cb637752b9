"""A llama-server in a plain folder: its log as a build of some year prints it, nvidia-smi's tables, timed requests."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from lab.built_machines.built import Write
from lab.built_machines.llama_server import PID, Answered, Server, lines_of
from lab.built_machines.nvidia import Card
from lab.built_machines.shapes import Shape

PROGRAM = "/usr/local/bin/llama-server"
STARTS, SAMPLES = 4, 16
"""Rows of the series before the model is loaded, and in all."""
_LEVEL = ("I ", "W ", "E ")
_IN_2025 = {
    "cmn  common_param: common_params_print_info: build 9999": "build: 7512",
    "cmn  common_param: system_info:": "system_info:",
    "llama_prepare_model_devices:": "llama_model_load_from_file_impl:",
    "common_params_fit_impl:": "llama_params_fit_impl:",
    "sched_reserve:": "llama_context:",
    "resolve_fused_ops: Flash Attention enabled": "llama_context: Flash Attention was auto, set to enabled",
}
_NOT_BEFORE_2026 = ("_print_info: verbosity", "common_param: device_info", "common_param:   - ")
_IN_2024 = _IN_2025 | {
    "load_tensors:": "llm_load_tensors:",
    "print_info:": "llm_load_print_meta:",
    "llama_context:": "llama_new_context_with_model:",
    "llama_kv_cache:": "llama_kv_cache_init:",
    "build: 7512": "build: 4150",
    "n_ctx_seq": "n_ctx_per_seq",
    "flash_attn            = auto": "flash_attn    = 1",
}
_CACHE = re.compile(r"llama_kv_cache_init: size = ([\d.]+ MiB) \([^)]*\), K")
_WORDS = {2026: {}, 2025: _IN_2025, 2024: _IN_2024}
_BUILDS = {2026: "b9999-0c1e570", 2025: "b7512-0c1e570", 2024: "b4150-0c1e570"}


class Plain(NamedTuple):
    """What the files tell beside the server's own settings."""

    server: Server
    cards: tuple[Card, ...]
    year: int = 2026
    """Of the build, whose log has other words than those of other years."""
    fit: tuple[str, ...] = ()
    """What the fit prints."""
    error: tuple[str, ...] = ()
    """The last lines of a load that fails."""
    cpu: str = "AMD Ryzen 7 5800X 8-Core Processor"
    hypervisor: str = ""
    lists_processes: bool = True


def plain(told: Plain) -> Write:
    """The machine as somebody's own script wrote it down, file by file."""

    def write(folder: Path) -> None:
        for name, text in _files(told).items():
            (folder / name).write_text(text)

    return write


def _files(told: Plain) -> dict[str, str]:
    files = {
        "server.log": _log(told),
        "run.json": _run(told),
        "machine.txt": _machine(told),
        "nvidia_smi_q.txt": _described(told),
        "nvidia_smi_query.csv": _series(told),
    }
    if told.error:
        return files
    status = f"Name:\tllama-server\nPid:\t{PID}\nVmRSS:\t{round((told.server.host_mib + 600) * 1024)} kB\n"
    files["proc_status.txt"] = f"{status}Cpus_allowed_list:\t0-{told.server.cpus - 1}\n"
    shape = told.server.shape
    meta = {"n_vocab": shape.vocabulary, "n_embd": shape.width, "n_params": shape.parameters}
    meta["size"] = round(shape.file_mib * 2**20)
    files["models.json"] = json.dumps({"data": [{"id": told.server.model, "owned_by": "llamacpp", "meta": meta}]})
    settings = {"n_ctx": told.server.context // told.server.slots}
    props = {"default_generation_settings": settings, "total_slots": told.server.slots, "model_path": told.server.model}
    files["props.json"] = json.dumps(props | {"build_info": _BUILDS[told.year]})
    return files | ({"nvidia_smi_compute_apps.csv": _apps(told)} if told.lists_processes else {})


def _log(told: Plain) -> str:
    """The server's lines with the model's own, those of the fit, and the words of the year."""
    lines = lines_of(told.server)
    named = next(n for n, line in enumerate(lines) if "print_info: file type" in line)
    lines[named:named] = [f"I {line}" for line in told.fit]
    lines[named + len(told.fit) : named + len(told.fit)] = [f"I {line}" for line in _model(told.server.shape)]
    counted = next((n for n, line in enumerate(lines) if "layers to GPU" in line), 0)
    output = ["I load_tensors: offloading output layer to GPU"] if any(d.output for d in told.server.devices) else []
    lines[counted:counted] = [
        f"I load_tensors: offloading {told.server.layers_on_gpu} repeating layers to GPU",
        *output,
    ]
    if told.error:
        kept = next(n for n, line in enumerate(lines) if "compute buffer size" in line)
        lines = [*lines[:kept], *(f"E {line}" for line in told.error)]
    printed = [line for line in lines if told.year == max(_WORDS) or not any(w in line for w in _NOT_BEFORE_2026)]
    return "".join(f"{_as_of(told.year, line, number)}\n" for number, line in enumerate(printed))


def _as_of(year: int, line: str, number: int) -> str:
    for now, then in _WORDS[year].items():
        line = line.replace(now, then)
    if year == max(_WORDS):
        return f"0.{number // 10:02d}.{number % 10}00.000 {line}"
    line = _CACHE.sub(r"llama_new_context_with_model: KV self size  = \1, K", line)
    return line[2:] if line.startswith(_LEVEL) else line


def _model(shape: Shape) -> list[str]:
    figures = {
        "arch": "llama", "n_ctx_train": shape.context, "n_embd": shape.width, "n_layer": shape.layers,
        "n_head": shape.heads, "n_head_kv": shape.kv_heads, "n_embd_head_k": shape.head_width,
        "n_embd_head_v": shape.head_width, "n_ff": shape.hidden, "n_expert": 0, "n_vocab": shape.vocabulary,
        "model params": f"{shape.parameters / 1e9:.2f} B", "general.name": shape.name,
    }  # fmt: skip
    rows = [f"print_info: {name:<16} = {value}" for name, value in figures.items()]
    return [*rows, f"print_info: file size   = {shape.file_mib / 1024:.2f} GiB"]


def _run(told: Plain) -> str:
    record = {"args": ["-m", told.server.model, *told.server.args], "ok": not told.error, "load_s": 4.0}
    runs = {} if told.error else {"runs": [_timings(answered) for answered in told.server.answered]}
    return json.dumps(record | runs, indent=1)


def _timings(answered: Answered) -> dict[str, float]:
    return {
        "cache_n": 0,
        "prompt_n": answered.prompt_tokens,
        "prompt_ms": answered.prompt_s * 1e3,
        "predicted_n": answered.tokens,
        "predicted_ms": (answered.tokens - 1) / answered.tokens_per_s * 1e3,
    }


def _machine(told: Plain) -> str:
    cores = told.server.cpus // 2
    rows = {"Architecture": "x86_64", "CPU(s)": told.server.cpus, "Model name": told.cpu, "Thread(s) per core": 2}
    rows |= {"Core(s) per socket": cores, "Socket(s)": 1, "Flags": "fpu sse4_2 avx f16c avx2 bmi2 fma"}
    rows |= {"Hypervisor vendor": told.hypervisor} if told.hypervisor else {}
    memory = "               total        used        free      shared  buff/cache   available\n"
    text = "".join(f"{name + ':':<40} {value}\n" for name, value in (rows | {"NUMA node(s)": 1}).items())
    return f"{text}{memory}Mem:              62           6          30           0          26          55\n"


def _described(told: Plain) -> str:
    rows = [
        "==============NVSMI LOG==============",
        "Driver Version : 570.133.07",
        f"Attached GPUs : {len(told.cards)}",
    ]
    for number, card in enumerate(told.cards):
        bus = f"00000000:{number + 1:02X}:00.0"
        rows += [
            f"GPU {bus}", f"    Product Name : {card.name}", "    PCI", f"        Bus Id : {bus}",
            "        GPU Link Info", "            PCIe Generation", f"                Max : {card.generation_max}",
            "                Current : 1", "            Link Width", f"                Max : {card.width_max}x",
            f"                Current : {card.width}x", "    FB Memory Usage", f"        Total : {card.total_mib} MiB",
            "        Reserved : 400 MiB", "    GPU Power Readings", f"        Current Power Limit : {card.limit_w} W",
            f"        Default Power Limit : {card.default_w} W", "    Max Clocks", f"        SM : {card.max_mhz} MHz",
            f"        Memory : {card.memory_mhz} MHz",
        ]  # fmt: skip
    return "\n".join([*rows, ""])


def _series(told: Plain) -> str:
    """A row for each GPU at each sample, which no column tells apart."""
    names = "timestamp,utilization.gpu,memory.used,temperature.gpu,power.draw,clocks.sm,clocks_event_reasons.active"
    rows = [f"{names},pcie.link.gen.current,pcie.link.width.current"]
    for sample in range(SAMPLES):
        for card in told.cards:
            others, loaded = sum(mib for _, _, mib in card.others), sample >= STARTS
            work = (card.busy, others + card.used_mib, card.celsius, card.watts, card.mhz, f"{card.reasons:#018x}")
            now = work if loaded else (0, others, 38, 18.4, 210, f"{1:#018x}")
            link = f"{card.generation if loaded else 1},{card.width}"
            rows.append(f"2026/11/15 01:09:{sample:02d}.000,{','.join(map(str, now))},{link}")
    return "\n".join([*rows, ""])


def _apps(told: Plain) -> str:
    rows = ["pid, process_name, used_gpu_memory [MiB]"]
    for card in told.cards:
        rows += [f"{pid}, {name}, {mib} MiB" for pid, name, mib in card.others]
        rows += [f"{PID}, {PROGRAM}, {card.used_mib} MiB"] if card.used_mib else []
    return "\n".join([*rows, ""])
