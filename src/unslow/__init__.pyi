# written by docs/generate.py
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
    """Which card, pair of cards or machine to buy for a model, with reasons, runners-up and what was refused.

    model: well-known name, file, URL or stored model
    quant: for a name with no file (default: as published, else Q4_K_M)
    context: tokens that are in the context: 8192 (default) or 32k
    users: conversations at once, each with such a context (default: 1)
    prompt: tokens of the prompt whose reading is predicted (default: 512)
    kv_type: of keys and values (default: f16)
    price: of one device: "RTX 3090=700"; may be repeated
    prices: a file with [prices], [rents], [apis], currency and electricity
    currency: of your prices (default: USD; shipped prices count in USD alone)
    budget: what may be paid (default: anything)
    goal: of each conversation, at the low end: "20 tok/s" (default: the fastest)
    quant_least: the coarsest quant that will do (default: Q4_K_M)
    have: what is there already, or here: alone, and with one more beside it
    among: only these, or those of a maker: apple; may be repeated
    partly: also what holds only a part of the model, the rest on the host
    host_price: of a computer around new cards (default: there is one)
    progress: is told what is being done; None for silence
    """

def collect(
    target: str | Path | None = None,
    *,
    bandwidth: bool = True,
    progress: Progress | None = None,
) -> Snapshot:
    """Everything that can be seen of this machine and its runtimes without sending a prompt; keys are not in it.

    target: a recording folder to read instead of this machine
    bandwidth: measure the memory bandwidth (half a second)
    progress: is told what is being done; None for silence
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
    """What a million tokens cost on hardware of your own, rented, or from an API, and when owning pays.

    How much it is used has to be said in one of three ways: tokens_per_day, hours_per_day or utilisation.

    model: well-known name, file, URL or stored model
    quant: for a name with no file (default: as published, else Q4_K_M)
    context: tokens that are in the context: 8192 (default) or 32k
    users: conversations at once, each with such a context (default: 1)
    prompt: tokens of the prompt whose reading is predicted (default: 512)
    kv_type: of keys and values (default: f16)
    price: of one device: "RTX 3090=700"; may be repeated
    prices: a file with [prices], [rents], [apis], currency and electricity
    currency: of your prices (default: USD; shipped prices count in USD alone)
    device: to own: RTX 3090, 2x RTX 3090, here; may be repeated
    tokens_per_day: that are generated: 200000, 200k or 2m
    hours_per_day: that the first device works
    utilisation: of the day that the first device works: 0.2
    prompt_ratio: prompt tokens that are read for each generated one (default: 3)
    electricity: of a kWh (default: 0.30, which is assumed)
    years: that it is used (default: 3)
    resale: what it sells for then (default: 0)
    watts: measured while it works (default: its TDP)
    power_share: of the TDP that it draws while it works (default: 1)
    host_price: of a computer around a card (default: there is one)
    rent: by the hour: "H100=2.5/h"
    api: of a million tokens: "0.5/1.5 per M"
    progress: is told what is being done; None for silence
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
    """Devices side by side: memory, bandwidth, price, watts; with a model also whether it fits and how fast it is.

    names: a device, several of a kind (2x ...), or here
    model: well-known name, file, URL or stored model
    quant: for a name with no file (default: as published, else Q4_K_M)
    context: tokens that are in the context: 8192 (default) or 32k
    users: conversations at once, each with such a context (default: 1)
    prompt: tokens of the prompt whose reading is predicted (default: 512)
    kv_type: of keys and values (default: f16)
    price: of one device: "RTX 3090=700"; may be repeated
    prices: a file with [prices], [rents], [apis], currency and electricity
    currency: of your prices (default: USD; shipped prices count in USD alone)
    all: every GPU and every machine with one memory
    vendor: those of a maker: nvidia, amd, apple, intel
    min_memory: those with as much memory: 24GB
    sort: speed, price, value (price per tok/s), watts, memory or name
    progress: is told what is being done; None for silence
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

    Without `passive` a few prompts are sent to the server that is found; one that is busy is only observed. With
    nothing running, the embedded engine is measured on a made-up model. Ctrl-C ends the measuring and gives the report
    so far; a second one is a KeyboardInterrupt.

    target: URL, process id, snapshot or recording folder
    passive: send no prompt to any runtime and start none; only read
    quick: be done in about 10 seconds; the default is 60 at most
    thorough: take up to 300 seconds, and try more
    seconds: be done in so many seconds at most
    goal: the speed that you want, in tokens per second
    context: the context length that you need
    api_key: for a server that asks for one (or UNSLOW_API_KEY)
    log: the server's log, where it can't be found
    evict: measure even if a chat must then read its prompt again
    model: the made-up model for the embedded engine, such as llama_1b
    progress: is told what is being done; None for silence
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

    prometheus: its address (or UNSLOW_PROMETHEUS_URL)
    username: for basic authentication
    password_file: the password for it (or UNSLOW_PROMETHEUS_PASSWORD)
    token_file: a bearer token (or UNSLOW_PROMETHEUS_TOKEN)
    header: sent with every query: "X-Scope-OrgID: team-a"; repeatable
    ca_file: certificates of authorities to trust, instead of the system's
    cert: a certificate of our own, where the server asks for one
    key: its key, where that is in a file of its own
    insecure: don't check the server's certificate
    timeout: the most that one query may take (default: 30s)
    window: the time that is judged, until now (default: 15m)
    compare: how long ago it is compared with, or none (default: 1d)
    match: only series with these labels: 'cluster="a",env=~"prod.*"'
    engines: the same of the engines' series alone: 'namespace="llm"'
    join: labels that belong together, where the usual ones don't: host=machine
    workers: processes that judge (default: one for each processor)
    progress: is told what is being done; None for silence
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
    """Whether a model fits: what it asks of each device, byte by byte, and what would fit.

    model: file, folder, URL, stored model or well-known name
    device: RTX 4090, 2x H100, M3 Max 64GB, 24GB, cpu, or auto for this machine's (default); may be repeated
    ram: the host's memory, where it is not this machine's: 64GB
    quant: the quant to fit, for a name with no file (default: as published, else Q4_K_M)
    runtime: llama_cpp (default), ollama (of its own models), vllm or transformers
    margin: to stay free on each device (default: 1GiB)
    context: all tokens, for all slots together (Ollama: for each); 0 for all that the model was trained for (default: 8192; vLLM: the longest that fits)
    parallel: slots (default: llama-server's 4 with one cache for all, else 1)
    kv_unified: one cache for all slots
    kv_type: of keys, and of values unless --kv-type-v is given (default: f16)
    kv_type_v: of values
    kv_offload: keep the cache with its layer, or on the host (-nkvo)
    swa_full: sliding-window layers keep the whole context
    gpu_layers: layers on the GPUs, the output counted as one (default: all)
    n_cpu_moe: experts of the first N layers stay on the host
    override_tensor: such as exps=CPU
    tensor_split: shares of several GPUs (default: by free memory)
    batch: logical batch (default: 2048)
    ubatch: what is computed at once (default: 512)
    outputs: tokens with logits in a batch: a server's slots (default), 0 for all
    flash_attention: (default: auto)
    op_offload: GPUs compute long prompts with the host's weights
    gpu_memory_utilization: vLLM's (default: 0.92, as since vLLM 0.20)
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

    prometheus: its address (or UNSLOW_PROMETHEUS_URL)
    username: for basic authentication
    password_file: the password for it (or UNSLOW_PROMETHEUS_PASSWORD)
    token_file: a bearer token (or UNSLOW_PROMETHEUS_TOKEN)
    header: sent with every query: "X-Scope-OrgID: team-a"; repeatable
    ca_file: certificates of authorities to trust, instead of the system's
    cert: a certificate of our own, where the server asks for one
    key: its key, where that is in a file of its own
    insecure: don't check the server's certificate
    timeout: the most that one query may take (default: 30s)
    match: only series with these labels: 'cluster="a",env=~"prod.*"'
    engines: the same of the engines' series alone: 'namespace="llm"'
    join: labels that belong together, where the usual ones don't: host=machine
    goal: capacity: what each user must get (default: "20 tok/s")
    first_token: capacity: the longest that a user may wait for a first token
    span: capacity: how far back to measure (default: 24h)
    progress: is told what is being done; None for silence
    """

def models(
    where: Sequence[str | Path] | None = (),
    *,
    progress: Progress | None = None,
) -> Inventory:
    """The models on this machine, in every tool's store; only their headers are read.

    where: further folders or files to look at
    progress: is told what is being done; None for silence
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
    """The best settings for what runs, or for a model, each with its gain and what it costs; nothing is changed.

    model: what runs (default: here), or a model
    goal: most of (default: speed)
    context: tokens that a conversation has room for (default: as now, else 8192)
    prompt: new tokens of a usual request (default: as seen, else 512)
    kept: tokens of the conversation that are in the cache already (default: 0)
    answer: tokens of a usual answer (default: 256)
    this_work_only: longer prompts and conversations may get slower than now
    users: conversations at a time (default: as it has slots for, else 1)
    least_speed: floor of speed
    worst_perplexity: floor of quality: how much worse than in 16 bits it may predict (default: as the file)
    device: RTX 4090, 2x H100, cpu, or auto for this machine's (default); may be repeated
    ram: the host's memory, where it is not this machine's: 64GB
    ram_bandwidth: what the host's memory delivers: 80GB/s
    threads: cores of the host (default: all of them)
    runtime: of a MODEL: llama.cpp (default), ollama, lm_studio, vllm, transformers
    quant: the quant, for a name with no file
    margin: to stay free on each GPU (default: 256MiB)
    draft: a small model of the same family that guesses ahead
    progress: is told what is being done; None for silence
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
    """How fast a model should be: answers, prompts and the first token, each with an interval that holds four of five.

    As many layers as fit lie on the GPU, the others on the host, unless gpu_layers says otherwise. Where nothing can be
    told, `reason` says why.

    model: well-known name, file, URL or stored model
    explain: the memory wall: what binds, batching, quant by quant
    quant: for a name with no file (default: as published, else Q4_K_M)
    device: RTX 4090, 2x H100, M3 Max 64GB, a processor, or auto for this machine's (default)
    gpus: how many of that device (default: 1)
    runtime: llama.cpp (default), ollama (of its own models), vllm or transformers
    backend: cuda, rocm, metal, vulkan or cpu (default: by the device's maker)
    ram_bandwidth: what the host's memory delivers: 80GB/s (default: measured here)
    ram: the host's memory, where it is not this machine's: 64GB
    threads: of the host (default: its cores)
    context: tokens that are already in the context: 8192 or 128k (default: 0)
    gpu_layers: layers on the GPUs, the output counted as one (default: auto)
    cpu_moe: experts of the first N layers stay on the host
    kv_type: of keys and values (default: f16)
    split: of several GPUs: layer, row or tensor (default: layer; vLLM: tensor)
    batch: conversations that are served at once (default: 1)
    prompt: tokens of the prompt whose reading is predicted (default: 512)
    ubatch: prompt tokens that are computed at once (default: 512)
    flash_attention: attention in one kernel (default: on)
    graphs: with CUDA graphs (default: on)
    draft: a small model that drafts tokens
    draft_tokens: how many at a time (default: 4)
    acceptance: of drafted tokens that are right: 0.7
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
    """What can be run on how much memory: the largest well-known models that fit whole, and those that just don't.

    memory: of cards (default: 8,12,16,24,32,48)
    unified: that GPU and host share (default: 16,32,64,128)
    context: tokens that must fit: 8192 (default) or 32k
    quant_least: the coarsest quant that will do (default: Q4_K_M)
    rows: models for each size (default: 5)
    progress: is told what is being done; None for silence
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

    It sends what `diagnose` sends. A panel that can't be drawn is None, and `missing` says why.

    target: URL, process id, snapshot or recording folder
    passive: send no prompt to any runtime and start none; only read
    quick: be done in about 10 seconds; the default is 60 at most
    thorough: take up to 300 seconds, and try more
    seconds: be done in so many seconds at most
    goal: the speed that you want, in tokens per second
    context: the context length that you need
    api_key: for a server that asks for one (or UNSLOW_API_KEY)
    log: the server's log, where it can't be found
    evict: measure even if a chat must then read its prompt again
    model: the made-up model for the embedded engine, such as llama_1b
    ready: also work out what each slider of the memory would say, which takes longer
    masked: without user names, home folders, hosts and serial numbers, for somebody else to see
    progress: is told what is being done; None for silence
    """
