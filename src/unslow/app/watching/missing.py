"""What a server does not tell of its speed, and how to get it."""

from unslow.facts.snapshot import Subject
from unslow.look.bench.trials._work import Work
from unslow.look.system import LookError
from unslow.think.view.report import Missing

_HOW = {
    "llama.cpp": ("it hides its slots", "restart llama-server without --no-slots"),
    "Ollama": (
        "this Ollama shows what is loaded, and no tokens",
        "Ollama 0.30 or later shows them, to a user who may see its processes",
    ),
    "vLLM": ("its /metrics counts no tokens", "restart vLLM without --disable-log-stats"),
    "SGLang": ("its /metrics is switched off", "restart SGLang with --enable-metrics"),
    "TGI": ("it counts requests, and tokens only once an answer is whole", "`unslow bench` measures it"),
    "KoboldCpp": ("it tells whether it works, and no tokens", "`unslow bench` measures it"),
}
_OTHERS = ("this server shows nothing of its work", "`unslow bench` measures it; its own log may tell more")
WAITING = "how many requests wait is not told: restart llama-server with --metrics"


def missing_of(subject: Subject, work: Work | None, error: LookError | None) -> Missing | None:
    """Why there is no speed of this moment; None where there is one."""
    if work is not None and (work.decoding, work.tokens, work.tokens_per_s) != (None, None, None):
        return None
    runtime = subject.runtime.name.value_or("")
    why, how = next((told for name, told in _HOW.items() if runtime.endswith(name)), _OTHERS)
    if error is not None and error.how_to_get and "API key" in error.why:
        return Missing(why=error.why, how_to_get=error.how_to_get)
    return Missing(why=why, how_to_get=how)


def notes_on(subject: Subject, work: Work | None) -> tuple[str, ...]:
    """What else is not told."""
    is_llama = subject.runtime.name.value_or("").endswith("llama.cpp")
    return (WAITING,) if work is not None and is_llama and work.waiting is None else ()
