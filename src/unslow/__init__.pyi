# written by `make docs`
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from unslow.buy.cost import CostReport as CostReport
from unslow.buy.offers import ChoiceReport as ChoiceReport
from unslow.buy.report import DevicesReport as DevicesReport
from unslow.buy.tiers import TiersReport as TiersReport
from unslow.commands._formats import to_html as to_html
from unslow.commands._formats import to_json as to_json
from unslow.commands._formats import to_text as to_text
from unslow.commands._output import Progress as Progress
from unslow.commands.check import check as check
from unslow.commands.collect import save as save
from unslow.commands.explain import causes as causes
from unslow.commands.explain import explain as explain
from unslow.commands.triage import triage as triage
from unslow.facts.errors import UserError as UserError
from unslow.facts.snapshot import Snapshot as Snapshot
from unslow.facts.stored_model import Inventory as Inventory
from unslow.fleet.capacity.report import CapacityReport as CapacityReport
from unslow.fleet.report import FleetReport as FleetReport
from unslow.live.transformers import watch as watch
from unslow.page.view import View as View
from unslow.think.claims.report import CheckReport as CheckReport
from unslow.think.fit.report import FitReport as FitReport
from unslow.think.plan.report import PlanReport as PlanReport
from unslow.think.report import Page as Page
from unslow.think.report import Report as Report
from unslow.think.speed.report import PredictionReport as PredictionReport

__version__: str
__all__ = [
    "CapacityReport",
    "CheckReport",
    "ChoiceReport",
    "CostReport",
    "DevicesReport",
    "FitReport",
    "FleetReport",
    "Inventory",
    "Page",
    "PlanReport",
    "PredictionReport",
    "Progress",
    "Report",
    "Snapshot",
    "TiersReport",
    "UserError",
    "View",
    "__version__",
    "causes",
    "check",
    "choose",
    "collect",
    "cost",
    "devices",
    "diagnose",
    "diagnose_fleet",
    "explain",
    "fit",
    "fleet_capacity",
    "models",
    "plan",
    "predict",
    "save",
    "tiers",
    "to_html",
    "to_json",
    "to_text",
    "triage",
    "view",
    "watch",
]

def choose(
    model: str,
    *,
    quant: str | None = None,
    context: int | str | None = 8192,
    users: int | str | None = 1,
    prompt: int | str | None = 512,
    kv_type: str | None = "f16",
    price: str | Sequence[str] | None = (),
    prices: str | None = "",
    currency: str | None = "",
    budget: float | str | None = None,
    goal: float | str | None = None,
    quant_least: str | None = "Q4_K_M",
    have: str | None = "",
    among: str | Sequence[str] | None = (),
    partly: bool = False,
    host_price: float | str | None = 0.0,
    progress: Progress | None = None,
) -> ChoiceReport:
    """Which card, pair of cards or machine to buy for a model, with reasons, runners-up and rejected ones.

    model: model name, file, URL or stored model
    quant: quant, for a model name without a file (default: as published, else Q4_K_M)
    context: tokens in the context: 8192 (default) or 32k
    users: concurrent conversations, each with this context (default: 1)
    prompt: prompt tokens for the prefill prediction (default: 512)
    kv_type: KV cache type (default: f16)
    price: price of one device: "RTX 3090=700"; repeatable
    prices: TOML file with [prices], [rents], [apis], currency and electricity
    currency: currency of your prices (default: USD; built-in prices apply to USD only)
    budget: maximum price (default: none)
    goal: minimum speed per conversation: "20 tok/s" (default: the fastest)
    quant_least: the smallest acceptable quant (default: Q4_K_M)
    have: hardware you own, or `here`: rated alone and with one more device
    among: only these devices, or a vendor's: apple; repeatable
    partly: include devices that hold only part of the model, the rest in host memory
    host_price: price of a computer for new cards (default: you have one)
    progress: called with each progress message; None for none
    """

def collect(
    target: str | Path | None = None,
    *,
    bandwidth: bool = True,
    progress: Progress | None = None,
) -> Snapshot:
    """All visible facts about this machine and its runtimes, without sending a prompt and without keys.

    target: recording folder to read instead of this machine
    bandwidth: measure memory bandwidth (half a second)
    progress: called with each progress message; None for none
    """

def cost(
    model: str,
    *,
    quant: str | None = None,
    context: int | str | None = 8192,
    users: int | str | None = 1,
    prompt: int | str | None = 512,
    kv_type: str | None = "f16",
    price: str | Sequence[str] | None = (),
    prices: str | None = "",
    currency: str | None = "",
    device: str | Sequence[str] | None = (),
    tokens_per_day: float | str | None = None,
    hours_per_day: float | str | None = None,
    utilisation: float | str | None = None,
    prompt_ratio: float | str | None = 3.0,
    electricity: float | str | None = None,
    years: float | str | None = 3.0,
    resale: float | str | None = 0.0,
    watts: float | str | None = None,
    power_share: float | str | None = 1.0,
    host_price: float | str | None = 0.0,
    rent: str | Sequence[str] | None = (),
    api: str | Sequence[str] | None = (),
    progress: Progress | None = None,
) -> CostReport:
    """What a million tokens cost on your own hardware, rented, or from an API, and when owning pays off.

    Give the usage in one of three ways: tokens_per_day, hours_per_day or utilisation.

    model: model name, file, URL or stored model
    quant: quant, for a model name without a file (default: as published, else Q4_K_M)
    context: tokens in the context: 8192 (default) or 32k
    users: concurrent conversations, each with this context (default: 1)
    prompt: prompt tokens for the prefill prediction (default: 512)
    kv_type: KV cache type (default: f16)
    price: price of one device: "RTX 3090=700"; repeatable
    prices: TOML file with [prices], [rents], [apis], currency and electricity
    currency: currency of your prices (default: USD; built-in prices apply to USD only)
    device: device to own: RTX 3090, 2x RTX 3090, here; repeatable
    tokens_per_day: generated tokens per day: 200000, 200k or 2m
    hours_per_day: hours per day that the first device is busy
    utilisation: share of the day that the first device is busy: 0.2
    prompt_ratio: prompt tokens per generated token (default: 3)
    electricity: price per kWh (default: 0.30, assumed)
    years: years of use (default: 3)
    resale: resale price after that (default: 0)
    watts: measured power under load (default: its TDP)
    power_share: share of the TDP drawn under load (default: 1)
    host_price: price of a host computer (default: you have one)
    rent: hourly rent: "H100=2.5/h"
    api: price per million tokens, input/output: "0.5/1.5 per M"
    progress: called with each progress message; None for none
    """

def devices(
    names: str | Sequence[str] | None = (),
    *,
    model: str | None = "",
    quant: str | None = None,
    context: int | str | None = 8192,
    users: int | str | None = 1,
    prompt: int | str | None = 512,
    kv_type: str | None = "f16",
    price: str | Sequence[str] | None = (),
    prices: str | None = "",
    currency: str | None = "",
    all: bool = False,
    vendor: str | None = "",
    min_memory: str | None = None,
    sort: Literal["speed", "price", "value", "watts", "memory", "name"] | None = None,
    progress: Progress | None = None,
) -> DevicesReport:
    """Devices side by side: memory, bandwidth, price, watts; with a model also fit and speed.

    names: a device, several (2x ...), or `here`
    model: model name, file, URL or stored model
    quant: quant, for a model name without a file (default: as published, else Q4_K_M)
    context: tokens in the context: 8192 (default) or 32k
    users: concurrent conversations, each with this context (default: 1)
    prompt: prompt tokens for the prefill prediction (default: 512)
    kv_type: KV cache type (default: f16)
    price: price of one device: "RTX 3090=700"; repeatable
    prices: TOML file with [prices], [rents], [apis], currency and electricity
    currency: currency of your prices (default: USD; built-in prices apply to USD only)
    all: all GPUs and machines with unified memory
    vendor: only this vendor: nvidia, amd, apple, intel
    min_memory: only devices with at least this memory: 24GB
    sort: sort by speed, price, value (price per tok/s), watts, memory or name
    progress: called with each progress message; None for none
    """

def diagnose(
    target: str | int | Path | Snapshot | None = None,
    *,
    passive: bool = False,
    quick: bool = False,
    thorough: bool = False,
    seconds: float | None = None,
    goal: float | None = None,
    context: int | str | None = None,
    api_key: str | None = None,
    log: str | None = None,
    evict: bool = False,
    model: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Why inference is slow here, proved, and what this hardware should give.

    Without `passive` it sends a few prompts to the server; a busy one is only observed. With nothing running, it
    measures the embedded engine on a synthetic model. Ctrl-C stops measuring and returns the report so far; a second
    one is a KeyboardInterrupt.

    target: URL, process id, snapshot or recording folder
    passive: only observe: send no prompt and start nothing
    quick: finish in about 10 seconds (default: at most 60)
    thorough: measure more, for up to 300 seconds
    seconds: finish within this many seconds
    goal: the speed you want, in tokens per second
    context: the context length you need
    api_key: API key for the server (or UNSLOW_API_KEY)
    log: the server's log file, if it is not found automatically
    evict: measure even if it evicts a conversation's prompt cache
    model: synthetic model for the embedded engine, such as llama_1b
    progress: called with each progress message; None for none
    """

def diagnose_fleet(
    prometheus: str | None = None,
    *,
    username: str | None = "",
    password_file: str | Path | None = "",
    token_file: str | Path | None = "",
    header: str | Sequence[str] | None = (),
    ca_file: str | Path | None = "",
    cert: str | Path | None = "",
    key: str | Path | None = "",
    insecure: bool = False,
    timeout: str | None = "30s",
    window: str | None = "15m",
    compare: str | None = "1d",
    match: str | None = "",
    engines: str | None = "",
    join: str | None = "",
    workers: int | str | None = None,
    progress: Progress | None = None,
) -> FleetReport:
    """What each instance that a Prometheus knows loses, to what, and which are slower than their peers.

    Only the address that is given is asked, and as often for ten instances as for ten thousand. Where an answer was
    not whole, `complete` is False and `statements` say what is missing.

    prometheus: address of Prometheus (or UNSLOW_PROMETHEUS_URL)
    username: user for basic authentication
    password_file: password for it (or UNSLOW_PROMETHEUS_PASSWORD)
    token_file: bearer token (or UNSLOW_PROMETHEUS_TOKEN)
    header: sent with every query: "X-Scope-OrgID: team-a"; repeatable
    ca_file: CA certificates to trust instead of the system's
    cert: client certificate
    key: key of the client certificate, if in its own file
    insecure: do not verify the server's certificate
    timeout: timeout of one query (default: 30s)
    window: time range to diagnose, up to now (default: 15m)
    compare: age of the baseline to compare with, or none (default: 1d)
    match: only series with these labels: 'cluster="a",env=~"prod.*"'
    engines: the same for the engines' series only: 'namespace="llm"'
    join: labels to join on, if the default ones do not match: host=machine
    workers: worker processes (default: one per CPU)
    progress: called with each progress message; None for none
    """

def fit(
    model: str | Path,
    *,
    device: str | Sequence[str] | None = "auto",
    ram: str | None = None,
    quant: str | None = None,
    runtime: str | None = "llama_cpp",
    margin: str | None = None,
    context: int | str | None = None,
    parallel: int | str | None = None,
    kv_unified: bool | None = None,
    kv_type: str | None = "f16",
    kv_type_v: str | None = None,
    kv_offload: bool = True,
    swa_full: bool = False,
    gpu_layers: int | str | None = None,
    n_cpu_moe: int | str | None = 0,
    override_tensor: str | Sequence[str] | None = (),
    tensor_split: Sequence[float] | None = (),
    batch: int | str | None = None,
    ubatch: int | str | None = None,
    outputs: int | str | None = None,
    flash_attention: Literal["on", "off", "auto"] | None = "auto",
    op_offload: bool = True,
    gpu_memory_utilization: float | None = None,
) -> FitReport:
    """Whether a model fits: the memory it needs on each device, byte by byte, and what would fit.

    model: file, folder, URL, stored model or model name
    device: RTX 4090, 2x H100, M3 Max 64GB, 24GB, cpu, or auto for this machine's (default); repeatable
    ram: host memory, if not this machine's: 64GB
    quant: quant, for a model name without a file (default: as published, else Q4_K_M)
    runtime: llama_cpp (default), ollama (its own models only), vllm or transformers
    margin: memory to keep free on each device (default: 1GiB)
    context: context length, shared by all slots (Ollama: per slot); 0 for the model's trained limit (default: 8192; vLLM: the longest that fits)
    parallel: slots (default: llama-server's 4 with a unified cache, else 1)
    kv_unified: one KV cache shared by all slots
    kv_type: KV cache type; of keys only if --kv-type-v is given (default: f16)
    kv_type_v: KV cache type of the values
    kv_offload: keep the KV cache with its layer, or in host memory (-nkvo)
    swa_full: sliding-window layers cache the whole context
    gpu_layers: GPU layers, the output layer included (default: all)
    n_cpu_moe: keep the experts of the first N layers in host memory
    override_tensor: tensor override such as exps=CPU
    tensor_split: share of each GPU (default: by free memory)
    batch: logical batch (default: 2048)
    ubatch: micro-batch (default: 512)
    outputs: tokens with logits per batch: the slots (default), 0 for all
    flash_attention: flash attention (default: auto)
    op_offload: prefill on the GPU with weights from host memory
    gpu_memory_utilization: as in vLLM (default: 0.92, as of vLLM 0.20)
    """

def fleet_capacity(
    prometheus: str | None = None,
    *,
    username: str | None = "",
    password_file: str | Path | None = "",
    token_file: str | Path | None = "",
    header: str | Sequence[str] | None = (),
    ca_file: str | Path | None = "",
    cert: str | Path | None = "",
    key: str | Path | None = "",
    insecure: bool = False,
    timeout: str | None = "30s",
    match: str | None = "",
    engines: str | None = "",
    join: str | None = "",
    goal: str | None = None,
    first_token: str | None = None,
    span: str | None = None,
    progress: Progress | None = None,
) -> CapacityReport:
    """How many users a fleet can serve at a goal, and what the next GPU buys.

    What was measured and what is simulated beyond it are told apart by `basis`.

    prometheus: address of Prometheus (or UNSLOW_PROMETHEUS_URL)
    username: user for basic authentication
    password_file: password for it (or UNSLOW_PROMETHEUS_PASSWORD)
    token_file: bearer token (or UNSLOW_PROMETHEUS_TOKEN)
    header: sent with every query: "X-Scope-OrgID: team-a"; repeatable
    ca_file: CA certificates to trust instead of the system's
    cert: client certificate
    key: key of the client certificate, if in its own file
    insecure: do not verify the server's certificate
    timeout: timeout of one query (default: 30s)
    match: only series with these labels: 'cluster="a",env=~"prod.*"'
    engines: the same for the engines' series only: 'namespace="llm"'
    join: labels to join on, if the default ones do not match: host=machine
    goal: capacity: minimum speed per user (default: "20 tok/s")
    first_token: capacity: maximum time to first token
    span: capacity: how far back to measure (default: 24h)
    progress: called with each progress message; None for none
    """

def models(
    where: Sequence[str | Path] | None = (),
    *,
    progress: Progress | None = None,
) -> Inventory:
    """The models on this machine, in every tool's store; only their headers are read.

    where: more folders or files to search
    progress: called with each progress message; None for none
    """

def plan(
    model: str | Path | None = None,
    *,
    goal: Literal["speed", "context", "quality"] | None = "speed",
    context: int | str | None = None,
    prompt: int | str | None = None,
    kept: int | str | None = 0,
    answer: int | str | None = 256,
    this_work_only: bool = False,
    users: int | str | None = 1,
    least_speed: float | None = None,
    worst_perplexity: str | None = None,
    device: str | Sequence[str] | None = "auto",
    ram: str | None = None,
    ram_bandwidth: str | None = None,
    threads: int | str | None = None,
    runtime: str | None = "llama.cpp",
    quant: str | None = None,
    margin: str | None = None,
    draft: str | None = None,
    progress: Progress | None = None,
) -> PlanReport:
    """The best settings for a running server or a model, each with its gain and its cost; changes nothing.

    model: a running server (default: on this machine), or a model
    goal: what to maximize (default: speed)
    context: context length per conversation (default: as now, else 8192)
    prompt: prompt tokens of a typical request (default: as observed, else 512)
    kept: tokens already in the KV cache (default: 0)
    answer: generated tokens of a typical request (default: 256)
    this_work_only: allow longer prompts and conversations to get slower than now
    users: concurrent conversations (default: the number of slots, else 1)
    least_speed: minimum speed
    worst_perplexity: maximum quality loss: perplexity increase over 16 bits (default: as the file)
    device: RTX 4090, 2x H100, cpu, or auto for this machine's (default); repeatable
    ram: host memory, if not this machine's: 64GB
    ram_bandwidth: host memory bandwidth: 80GB/s
    threads: host cores (default: all)
    runtime: for a MODEL: llama.cpp (default), ollama, lm_studio, vllm, transformers
    quant: quant, for a model name without a file
    margin: memory to keep free on each GPU (default: 256MiB)
    draft: draft model: a small model of the same family
    progress: called with each progress message; None for none
    """

def predict(
    model: str | Path,
    *,
    explain: bool = False,
    quant: str | None = None,
    device: str | Sequence[str] | None = "auto",
    gpus: int | str | None = None,
    runtime: str | None = "llama.cpp",
    backend: str | None = "",
    ram_bandwidth: str | None = None,
    ram: str | None = None,
    threads: int | str | None = None,
    context: int | str | None = 0,
    gpu_layers: int | str | None = None,
    cpu_moe: int | str | None = None,
    kv_type: str | None = "f16",
    split: str | None = "",
    batch: int | str | None = 1,
    prompt: int | str | None = 512,
    ubatch: int | str | None = 512,
    flash_attention: bool = True,
    graphs: bool = True,
    draft: str | None = "",
    draft_tokens: int | str | None = 4,
    acceptance: float | None = None,
) -> PredictionReport:
    """How fast a model should be: decode, prefill and first token, each with an 80 % interval.

    It offloads as many layers as fit, unless gpu_layers says otherwise. Without a prediction, `reason` says why.

    model: model name, file, URL or stored model
    explain: explain what limits the speed: parts, batching, quants
    quant: quant, for a model name without a file (default: as published, else Q4_K_M)
    device: RTX 4090, 2x H100, M3 Max 64GB, a CPU, or auto for this machine's (default)
    gpus: number of these devices (default: 1)
    runtime: llama.cpp (default), ollama (its own models only), vllm or transformers
    backend: cuda, rocm, metal, vulkan or cpu (default: by vendor)
    ram_bandwidth: host memory bandwidth: 80GB/s (default: measured here)
    ram: host memory, if not this machine's: 64GB
    threads: host threads (default: its cores)
    context: tokens already in the context: 8192 or 128k (default: 0)
    gpu_layers: GPU layers, the output layer included (default: auto)
    cpu_moe: keep the experts of the first N layers in host memory
    kv_type: KV cache type (default: f16)
    split: split across GPUs: layer, row or tensor (default: layer; vLLM: tensor)
    batch: concurrent conversations (default: 1)
    prompt: prompt tokens for the prefill prediction (default: 512)
    ubatch: micro-batch (default: 512)
    flash_attention: flash attention (default: on)
    graphs: CUDA graphs (default: on)
    draft: draft model
    draft_tokens: drafted tokens per step (default: 4)
    acceptance: acceptance rate of drafted tokens: 0.7
    """

def tiers(
    memory: str | Sequence[str] | None = (),
    *,
    unified: str | Sequence[str] | None = (),
    context: int | str | None = 8192,
    quant_least: str | None = "Q4_K_M",
    rows: int | str | None = 5,
    progress: Progress | None = None,
) -> TiersReport:
    """What each memory size can run: the largest known models that fit, and those that just do not.

    memory: VRAM sizes in GB (default: 8,12,16,24,32,48)
    unified: unified memory sizes in GB (default: 16,32,64,128)
    context: context length that must fit: 8192 (default) or 32k
    quant_least: the smallest acceptable quant (default: Q4_K_M)
    rows: models per size (default: 5)
    progress: called with each progress message; None for none
    """

def view(
    target: str | int | Path | None = None,
    *,
    passive: bool = False,
    quick: bool = False,
    thorough: bool = False,
    seconds: float | None = None,
    goal: float | None = None,
    context: int | str | None = None,
    api_key: str | None = None,
    log: str | None = None,
    evict: bool = False,
    model: str | None = None,
    ready: bool = False,
    masked: bool = False,
    progress: Progress | None = None,
) -> View:
    """A diagnosis with every number that the page draws: memory, roofline, timeline, curves, before and after.

    It sends what `diagnose` sends. A panel that cannot be drawn is None, and `missing` says why.

    target: URL, process id, snapshot or recording folder
    passive: only observe: send no prompt and start nothing
    quick: finish in about 10 seconds (default: at most 60)
    thorough: measure more, for up to 300 seconds
    seconds: finish within this many seconds
    goal: the speed you want, in tokens per second
    context: the context length you need
    api_key: API key for the server (or UNSLOW_API_KEY)
    log: the server's log file, if it is not found automatically
    evict: measure even if it evicts a conversation's prompt cache
    model: synthetic model for the embedded engine, such as llama_1b
    ready: also work out what each slider of the memory would say, which takes longer
    masked: without user names, home folders, hosts and serial numbers, to share it
    progress: called with each progress message; None for none
    """
