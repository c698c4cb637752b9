"""A llama-server in a built world: its process, its answers and the log that it prints with `-lv 4`."""

import json
from typing import NamedTuple

from lab.built_machines.shapes import Shape
from lab.built_machines.world import World

PID = 4242
FOLDER = "/srv/llm"
URL = "http://127.0.0.1:8080"
LOG = f"{FOLDER}/server.log"
AVX2 = "SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1"
CACHE_BITS = {"f16": 16, "q8_0": 8.5, "q5_1": 6}
"""For each value of the cache, by its type."""
CPU_FEATURES = f"CPU : {AVX2} | LLAMAFILE = 1 | OPENMP = 1 | REPACK = 1 | "


class Device(NamedTuple):
    """A device as the log lists it, and the share of the layers that it holds."""

    name: str
    description: str
    total_mib: int
    free_mib: int
    layers: int
    output: bool = False


class Answered(NamedTuple):
    """One request as the log times it."""

    prompt_tokens: int
    prompt_s: float
    tokens: int
    tokens_per_s: float


class Server(NamedTuple):
    """How a llama-server was started, what it decided, and what it has answered."""

    shape: Shape
    devices: tuple[Device, ...]
    answered: tuple[Answered, ...]
    args: tuple[str, ...] = ()
    environment: str = ""
    context: int = 8192
    threads: int = 8
    cpus: int = 8
    start: tuple[str, ...] = ()
    """Lines that a backend prints first."""
    features: str = CPU_FEATURES
    """Of `system_info`."""
    cpu: tuple[str, int] = ("AMD Ryzen 7 5800X 8-Core Processor", 64222)
    system: str = "Linux x86_64"
    slots: int = 1
    busy: bool = False
    """Whether it is answering while somebody looks."""
    warnings: tuple[str, ...] = ()
    ubatch: int = 512
    flash_attention: bool = True
    cache_type: str = "f16"
    splits: int = 2
    """Parts of the graph that one device computes without another."""
    drafted: tuple[int, int] = (0, 0)
    """Tokens that a draft proposed, and those of them that were taken."""
    deferred: int = 0

    @property
    def layers_on_gpu(self) -> int:
        """Repeating layers on any GPU."""
        return sum(device.layers for device in self.devices)

    @property
    def host_mib(self) -> float:
        """Weights in the host's memory: the table of tokens always."""
        shape, output = self.shape, any(device.output for device in self.devices)
        return shape.table_mib + (shape.layers - self.layers_on_gpu) * shape.layer_mib + (not output) * shape.output_mib

    @property
    def model(self) -> str:
        """The path of its file."""
        return f"{FOLDER}/{self.shape.name.replace(' ', '-').lower()}.gguf"


def log_of(server: Server) -> str:
    """Its log from the start on, with a stamp on every line."""
    return "".join(f"0.{n // 10:02d}.{n % 10}00.000 {line}\n" for n, line in enumerate(lines_of(server)))


def lines_of(server: Server) -> list[str]:
    """The lines of its log, each with its level and no stamp."""
    threads = f"n_threads = {server.threads} (n_threads_batch = {server.threads})"
    return [
        "I srv  llama_server: initializing ...",
        *server.start,
        f"I cmn  common_param: common_params_print_info: build 9999 (0c1e570) with GNU 13.3.0 for {server.system}",
        "I cmn  common_param: common_params_print_info: verbosity = 4 (adjust with the `-lv N` CLI arg)",
        *_device_lines(server),
        f"I cmn  common_param: system_info: {threads} / {server.cpus} | {server.features}",
        f"I srv    load_model: loading model '{server.model}'",
        *_loading_lines(server),
        *_context_lines(server),
        *(f"W {line}" for line in server.warnings),
        "I srv  llama_server: model loaded",
        f"I srv  llama_server: server is listening on {URL}",
        *(line for task, answered in enumerate(server.answered) for line in _timing_lines(task, answered)),
    ]


def _device_lines(server: Server) -> list[str]:
    listed = [(d.name, d.description, d.total_mib, d.free_mib) for d in server.devices]
    listed.append(("CPU", server.cpu[0], server.cpu[1], server.cpu[1]))
    head = "I cmn  common_param:"
    rows = [f"{head}   - {name:<8}: {what} ({total} MiB, {free} MiB free)" for name, what, total, free in listed]
    return [f"{head} device_info:", *rows]


def _loading_lines(server: Server) -> list[str]:
    shape, on_gpu = server.shape, server.layers_on_gpu
    counted = on_gpu + ("-ot" in server.args or any(device.output for device in server.devices))
    held = [(d.name, d.layers * shape.layer_mib + (shape.output_mib if d.output else 0)) for d in server.devices]
    using = [d for d in server.devices if d.layers]
    return [
        *(
            f"I llama_prepare_model_devices: using device {d.name} ({d.description}) - {d.free_mib} MiB free"
            for d in using
        ),
        f"I print_info: file type   = {shape.quant}",
        *([f"I load_tensors: offloaded {counted}/{shape.layers + 1} layers to GPU"] if server.devices else []),
        f"I load_tensors:   CPU_Mapped model buffer size = {server.host_mib:8.2f} MiB",
        *(f"I load_tensors:        {name} model buffer size = {mib:8.2f} MiB" for name, mib in held if mib),
    ]


def _context_lines(server: Server) -> list[str]:
    shape, kind = server.shape, server.cache_type
    total = shape.kv_mib(server.context) * CACHE_BITS[kind] / 16
    places = [(d.name, d.layers) for d in server.devices if d.layers]
    places.append(("CPU", shape.layers - server.layers_on_gpu))
    halves = f"K ({kind}): {total / 2:.2f} MiB, V ({kind}): {total / 2:.2f} MiB"
    caches = [f"I llama_kv_cache: {n:>10} KV buffer size = {total * k / shape.layers:8.2f} MiB" for n, k in places if k]
    return [
        f"I llama_context: n_seq_max             = {server.slots}",
        f"I llama_context: n_ctx                 = {server.context}",
        f"I llama_context: n_ctx_seq             = {server.context // server.slots}",
        "I llama_context: n_batch               = 2048",
        f"I llama_context: n_ubatch              = {server.ubatch}",
        f"I llama_context: flash_attn            = {'auto' if server.flash_attention else 'disabled'}",
        *caches,
        f"I llama_kv_cache: size = {total:.2f} MiB ({server.context} cells, {shape.layers} layers), {halves}",
        f"I resolve_fused_ops: Flash Attention {'enabled' if server.flash_attention else 'disabled'}",
        *(f"I sched_reserve: {d.name:>10} compute buffer size =   258.50 MiB" for d in server.devices if d.layers),
        f"I sched_reserve: graph splits = {server.splits}",
    ]


def _timing_lines(task: int, answered: Answered) -> list[str]:
    prompt, n = answered.prompt_s * 1e3, answered.prompt_tokens
    spent, k = answered.tokens / answered.tokens_per_s * 1e3, answered.tokens
    head = f"I slot print_timing: id  0 | task {task * 500} |"
    read = f"({prompt / n:8.2f} ms per token, {n / answered.prompt_s:8.2f} tokens per second)"
    written = f"({spent / k:8.2f} ms per token, {answered.tokens_per_s:8.2f} tokens per second)"
    return [
        f"{head} prompt eval time = {prompt:10.2f} ms / {n:5d} tokens {read}",
        f"{head}        eval time = {spent:10.2f} ms / {k:5d} tokens {written}",
        f"{head}       total time = {prompt + spent:10.2f} ms / {n + k:5d} tokens",
        f"I slot      release: id  0 | task {task * 500} | stop processing: n_tokens = {n + k}, truncated = 0",
    ]


def answers_of(server: Server) -> dict[str, str]:
    """What its addresses answer."""
    slots = [
        {"id": n, "n_ctx": server.context // server.slots, "speculative": False, "is_processing": server.busy and not n}
        for n in range(server.slots)
    ]
    props = {
        "default_generation_settings": {"params": {"top_k": 40}, "n_ctx": server.context // server.slots},
        "total_slots": server.slots,
        "model_path": server.model,
        "build_info": "b9999-0c1e570",
        "endpoint_slots": True,
        "endpoint_metrics": True,
    }
    meta = {"n_vocab": server.shape.vocabulary, "n_ctx_train": server.shape.context, "n_embd": server.shape.width}
    meta |= {"n_params": server.shape.parameters, "size": round(server.shape.file_mib * 2**20)}
    models = {"data": [{"id": server.model, "owned_by": "llamacpp", "meta": meta}]}
    answers = {"health": {"status": "ok"}, "props": props, "v1/models": models, "slots": slots}
    found = {f"GET {URL}/{path}": json.dumps(answer) for path, answer in answers.items()}
    return found | {f"GET {URL}/metrics": _metrics(server)}


def _metrics(server: Server) -> str:
    """The counters of /metrics, whose rates are those of all that was answered."""
    done = server.answered
    figures = {
        "prompt_tokens_total": sum(a.prompt_tokens for a in done),
        "prompt_tokens_cached_total": 0,
        "prompt_seconds_total": round(sum(a.prompt_s for a in done), 3),
        "tokens_predicted_total": sum(a.tokens for a in done),
        "tokens_predicted_seconds_total": round(sum(a.tokens / a.tokens_per_s for a in done), 3),
        "n_tokens_max": max((a.prompt_tokens + a.tokens for a in done), default=0),
        "requests_processing": int(server.busy),
        "requests_deferred": server.deferred,
        "spec_decode_num_draft_tokens_total": server.drafted[0],
        "spec_decode_num_accepted_tokens_total": server.drafted[1],
    }
    return "".join(f"llamacpp:{name} {value}\n" for name, value in figures.items())


def serve(world: World, server: Server) -> World:
    """The world with the server in it as Linux shows a process."""
    command = ("/usr/bin/llama-server", "-m", server.model, "-lv", "4", "--metrics", *server.args)
    proc, resident = f"/proc/{PID}", round((server.host_mib + 600) * 1024)
    world.add(
        {
            f"{proc}/comm": "llama-server\n",
            f"{proc}/cmdline": "".join(f"{word}\0" for word in command),
            f"{proc}/environ": server.environment,
            f"{proc}/status": f"Name:\tllama-server\nPid:\t{PID}\nPPid:\t1\nVmRSS:\t{resident} kB\n"
            f"Cpus_allowed_list:\t0-{server.cpus - 1}\n",
            f"{proc}/cgroup": "0::/system.slice/llama.service\n",
            f"{proc}/root{LOG}": log_of(server),
        },
        links={f"{proc}/cwd": FOLDER, f"{proc}/fd/1": LOG, f"{proc}/fd/2": LOG, f"{proc}/exe": command[0]},
        http=answers_of(server),
        asks={f"gguf {proc}/root{server.model}": server.shape.gguf(f"{proc}/root{server.model}")},
    )
    return world
