"""How Ollama spells each knob: an option of the model, or a variable of the server.

An option holds for one chat (`/set parameter`), one request (`"options": {...}`) or one model (a Modelfile's
PARAMETER); a variable for the whole server, which must be started again. In a client's shell it does nothing.
"""

from collections.abc import Callable
from functools import partial

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.units import MIB
from unslow.look.runtimes.ollama.backend import spell_backend, spell_device
from unslow.look.runtimes.ollama.places import COMPOSE_UP, home_of, is_at_least, is_known_at_least, option, variable

Words = Callable[[Setting, Runtime], list[str]]
_SMALLEST_BYTES = 2**24  # a number below is one of MiB already
_USUAL_DRAFT = 4
_CACHE_TYPES = ("f16", "q8_0", "q4_0")
_SERVED_BY_LLAMA_SERVER = (0, 30)


def spell(change: Change, runtime: Runtime) -> list[str]:
    """What to type, from the quickest to the lasting; [] where Ollama has nothing for it."""
    words = _WORDS.get(change.knob)
    return words(change.value, runtime) if words else []


def _option(name: str, value: Setting, _runtime: Runtime) -> list[str]:
    return [] if value is None else option(name, value)


def _variable(name: str, value: Setting, runtime: Runtime) -> list[str]:
    return variable(name, value, runtime)


def _passed_on(name: str, value: Setting, runtime: Runtime) -> list[str]:
    """A variable of llama-server, which it inherits; nothing before 0.30."""
    return variable(name, value, runtime) if is_at_least(runtime, _SERVED_BY_LLAMA_SERVER) else []


def _context(value: Setting, runtime: Runtime) -> list[str]:
    """Ollama means the tokens of one request and multiplies them by the requests that may run together."""
    slots = max(1, runtime.slots.value_or(1))
    tokens = value // slots if isinstance(value, int) else "N"
    lasting = variable("OLLAMA_CONTEXT_LENGTH", tokens, runtime) if is_at_least(runtime, (0, 5, 13)) else []
    return [*option("num_ctx", tokens), *lasting]


def _layers(value: Setting, _runtime: Runtime) -> list[str]:
    """Without a number Ollama fits as many as it can."""
    return option("num_gpu", -1 if value is None else value)


def _fit(value: Setting, runtime: Runtime) -> list[str]:
    if value is False:
        return _passed_on("LLAMA_ARG_FIT", "off", runtime)
    stopped = "LLAMA_ARG_FIT" in runtime.environment.value_or({})
    return [*option("num_gpu", -1), *(variable("LLAMA_ARG_FIT", None, runtime) if stopped else [])]


def _margin(value: Setting, runtime: Runtime) -> list[str]:
    """What is left free on each GPU: MiB for llama-server, bytes for Ollama's own reckoning before."""
    if not isinstance(value, int | float):
        return []
    size = int(value) if value >= _SMALLEST_BYTES else int(value) * MIB
    if is_at_least(runtime, _SERVED_BY_LLAMA_SERVER):
        return variable("LLAMA_ARG_FIT_TARGET", size // MIB, runtime)
    return variable("OLLAMA_GPU_OVERHEAD", size, runtime)


def _cache_type(value: Setting, runtime: Runtime) -> list[str]:
    """A quantised cache needs flash attention, which before 0.30 had to be asked for."""
    on = is_known_at_least(runtime, _SERVED_BY_LLAMA_SERVER)
    asked = [] if on else variable("OLLAMA_FLASH_ATTENTION", 1, runtime)[:1]
    return [*asked, *variable("OLLAMA_KV_CACHE_TYPE", value if value in _CACHE_TYPES else "q8_0", runtime)]


def _flash_attention(value: Setting, runtime: Runtime) -> list[str]:
    on = value not in (False, "off", 0)
    return variable("OLLAMA_FLASH_ATTENTION", int(on), runtime)


def _split(value: Setting, runtime: Runtime) -> list[str]:
    """Spread over all GPUs, or kept on one; other ways are llama-server's."""
    if value in ("none", None):
        return option("main_gpu", runtime.main_gpu.value_or(0))
    if value == "layer":
        return variable("OLLAMA_SCHED_SPREAD", 1, runtime)
    return _passed_on("LLAMA_ARG_SPLIT_MODE", value, runtime)


def _load_mode(value: Setting, _runtime: Runtime) -> list[str]:
    return option("use_mmap", "false" if value == "none" else "true") if value in ("none", "mmap") else []


def _drafting(value: Setting, runtime: Runtime) -> list[str]:
    """Only of models that bring their draft along; without a value, the other way round than now."""
    now = runtime.speculative.value_or("")
    tokens = value if type(value) is int else _USUAL_DRAFT if value or (value is None and not now) else 0
    return option("draft_num_predict", tokens)


def _keep_alive(value: Setting, runtime: Runtime) -> list[str]:
    """What a request says goes before the variable; None leaves it out of requests."""
    if value is None:
        return [labelled(Place.REQUEST, 'no "keep_alive", or a time such as "keep_alive": "30m"')]
    lasting = variable("OLLAMA_KEEP_ALIVE", value, runtime)
    is_variable = runtime.keep_alive_s.value_or(None) == 0  # then that is what every client suffers from
    return lasting if is_variable else [labelled(Place.REQUEST, f'"keep_alive": {value}'), *lasting]


def _quant(value: Setting, _runtime: Runtime) -> list[str]:
    """Tags of one model are its quants; which there are, its page says."""
    kind = f"with {value}" if value else "of a smaller quant, or of a smaller model"
    return [
        "ollama pull NAME:TAG",
        labelled(Place.HAND, f"TAG is the one {kind} on the model's page at ollama.com/library"),
    ]


def _again(_value: Setting, _runtime: Runtime) -> list[str]:
    """Layers are placed when a model is loaded, and not again."""
    return ["ollama stop MODEL", "ollama run MODEL"]


def _version(value: Setting, runtime: Runtime) -> list[str]:
    tag = str(value).removeprefix("v") if value else ""
    image = f"ollama/ollama:{tag or 'latest'}"
    match home_of(runtime):
        case "container":
            return [f"docker pull {image}"]
        case "compose":
            return [labelled(Place.COMPOSE, f"image: {image}"), COMPOSE_UP]
        case "windows" | "mac":
            where = f"https://github.com/ollama/ollama/releases/tag/v{tag}" if tag else "https://ollama.com/download"
            return [labelled(Place.HAND, f"install it from {where}")]
    return [f"curl -fsSL https://ollama.com/install.sh | {f'OLLAMA_VERSION={tag} ' if tag else ''}sh"]


def _thinking(_value: Setting, _runtime: Runtime) -> list[str]:
    return [
        "ollama run MODEL --think=false",
        labelled(Place.CHAT, "/set nothink"),
        labelled(Place.REQUEST, '"think": false'),
    ]


_WORDS: dict[Knob, Words] = {
    Knob.CONTEXT_LENGTH: _context,
    Knob.GPU_LAYERS: _layers,
    Knob.FIT: _fit,
    Knob.FIT_MARGIN: _margin,
    Knob.KV_CACHE_TYPE: _cache_type,
    Knob.FLASH_ATTENTION: _flash_attention,
    Knob.PARALLEL: partial(_variable, "OLLAMA_NUM_PARALLEL"),
    Knob.LOADED_MODELS: partial(_variable, "OLLAMA_MAX_LOADED_MODELS"),
    Knob.BATCH: partial(_option, "num_batch"),
    Knob.THREADS: partial(_option, "num_thread"),
    Knob.SAMPLER: partial(_option, "top_k"),
    Knob.SPLIT_MODE: _split,
    Knob.TENSOR_SPLIT: partial(_passed_on, "LLAMA_ARG_TENSOR_SPLIT"),
    Knob.EXPERTS_ON_CPU: partial(_passed_on, "LLAMA_ARG_N_CPU_MOE"),
    Knob.KV_OFFLOAD: partial(_passed_on, "LLAMA_ARG_KV_OFFLOAD"),
    Knob.NUMA: partial(_passed_on, "LLAMA_ARG_NUMA"),
    Knob.LOAD_MODE: _load_mode,
    Knob.SPECULATIVE: _drafting,
    Knob.KEEP_ALIVE: _keep_alive,
    Knob.QUANT: _quant,
    Knob.DEVICE: spell_device,
    Knob.GPU_BACKEND: spell_backend,
    Knob.OTHER_PROCESS: _again,
    Knob.VERSION: _version,
    Knob.THINKING: _thinking,
}
