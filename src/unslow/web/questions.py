"""What any program may ask: does a model fit, how fast is it, what is the best plan, what is a cause."""

from typing import Any

import msgspec

from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question
from unslow.web.parameters import Parameter


class CausePage(msgspec.Struct, frozen=True, kw_only=True):
    """A cause or verdict as documented."""

    id: str
    title: str
    phase: str
    needs: tuple[str, ...]
    """The facts that decide it."""
    explains: tuple[str, ...]
    text: str


MODEL = Parameter("model", "a well-known name, a GGUF file, or a model that /models lists", needed=True)
_WHERE = (
    Parameter("device", "RTX 4090, 2x H100, cpu, or auto for this machine's; may be repeated", "list", "devices"),
    Parameter("ram", "the host's memory, where it is not this machine's: 64GB", field="ram_bytes"),
    Parameter("quant", "for a name with no file: Q4_K_M"),
    Parameter("runtime", "llama_cpp, ollama, vllm or transformers"),
)
_SETTINGS = (
    Parameter("gpu_layers", "layers on the GPUs", "count"),
    Parameter("kv_type", "of keys and values: f16, q8_0"),
    Parameter("ubatch", "prompt tokens that are computed at once", "count"),
)
_FIT = (
    MODEL,
    *_WHERE,
    *_SETTINGS,
    Parameter("context", "tokens of context: 8192 or 128k", "count"),
    Parameter("kv_type_v", "of values, where it is another one"),
    Parameter("n_cpu_moe", "layers whose experts stay on the host", "count"),
    Parameter("parallel", "slots that share the context", "count"),
    Parameter("batch", "logical batch", "count"),
    Parameter("flash_attention", "whether it is used", choices=("on", "off", "auto")),
    Parameter("gpu_memory_utilization", "vLLM's share, from 0 to 1", "number"),
)
_PREDICT = (
    MODEL,
    *_WHERE,
    *_SETTINGS,
    Parameter("context", "tokens that are already in the context", "count", "depth"),
    Parameter("gpus", "how many of the device", "count"),
    Parameter("cpu_moe", "layers whose experts stay on the host", "count"),
    Parameter("backend", "cuda, rocm, metal, vulkan or cpu"),
    Parameter("split", "of several GPUs: layer, row or tensor"),
    Parameter("batch", "conversations that are served at once", "count"),
    Parameter("prompt", "tokens of the prompt whose reading is predicted", "count"),
    Parameter("threads", "of the host", "count"),
    Parameter("ram_bandwidth", "what the host's memory delivers: 80GB/s"),
    Parameter("draft", "a small model that drafts tokens"),
    Parameter("draft_tokens", "how many at a time", "count"),
    Parameter("acceptance", "share of drafted tokens that are right", "number"),
    Parameter("explain", "also the memory wall: what binds, batching, quant by quant", "switch"),
)
_PLAN = (
    Parameter("model", "a model as for /fit, or a snapshot, URL or process id; without it, what runs here"),
    *_WHERE,
    Parameter("goal", "what there shall be most of", field="aim", choices=("speed", "context", "quality")),
    Parameter("context", "tokens that a conversation has room for", "count"),
    Parameter("prompt", "new tokens of a usual request", "count"),
    Parameter("kept", "tokens of the conversation that are in the cache already", "count"),
    Parameter("answer", "tokens of a usual answer", "count"),
    Parameter("users", "conversations at a time", "count"),
    Parameter("least_speed", "floor of speed in tokens per second", "number", "least_tokens_per_s"),
    Parameter("worst_perplexity", "floor of quality in percent", field="worst_perplexity_increase"),
    Parameter("margin", "to stay free on each GPU: 256MiB", field="margin_bytes"),
    Parameter("threads", "cores of the host", "count"),
    Parameter("ram_bandwidth", "what the host's memory delivers: 80GB/s"),
    Parameter("draft", "a small model of the same family that guesses ahead"),
)


def fit(_desk: Desk, question: Question) -> Any:
    """As `unslow fit` answers."""
    from unslow.app.fit import Request, answer  # noqa: PLC0415 (imported when asked: the page is there sooner)
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return answer(LiveSystem(), Request.from_flags(dict(question.flags)))


def predict(_desk: Desk, question: Question) -> Any:
    """As `unslow predict` answers."""
    from unslow.app.predict import Request, answer  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return answer(LiveSystem(), Request.from_flags(dict(question.flags)))


def plan(_desk: Desk, question: Question) -> Any:
    """As `unslow plan` answers; nothing is changed."""
    from unslow.app.plan.answer import planned  # noqa: PLC0415
    from unslow.app.plan.request import PlanRequest  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return planned(LiveSystem(), PlanRequest.from_flags(dict(question.flags)))


def models(_desk: Desk, _question: Question) -> Any:
    """As `unslow models` answers."""
    from unslow.app.models import list_models  # noqa: PLC0415
    from unslow.app.progress import Silent  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return list_models(LiveSystem(), (), Silent())


def causes(_desk: Desk, _question: Question) -> list[CausePage]:
    """Every cause that is known."""
    from unslow.app.explain import pages  # noqa: PLC0415

    return [CausePage(**page._asdict()) for page in pages()]


def explain(_desk: Desk, question: Question) -> CausePage:
    """One of them."""
    from unslow.app.explain import page  # noqa: PLC0415

    return CausePage(**page(question.path["cause"])._asdict())


_PAGE = "unslow.web.questions:CausePage"
_MANY = (
    Endpoint("/fit", "Does a model fit, byte by byte", "unslow.think.fit.report:FitReport", fit, _FIT),
    Endpoint("/predict", "How fast a model should be", "unslow.think.speed.report:PredictionReport", predict, _PREDICT),
    Endpoint("/plan", "The best settings; nothing is changed", "unslow.think.plan.report:PlanReport", plan, _PLAN),
    Endpoint("/models", "The models on this machine", "unslow.facts.stored_model:Inventory", models),
    Endpoint("/causes", "Every cause that is known", f"{_PAGE}[]", causes),
    Endpoint("/explain/{cause}", "What a cause is, how to confirm and to fix it", _PAGE, explain),
)
ENDPOINTS = tuple(endpoint._replace(slow=True) for endpoint in _MANY)
