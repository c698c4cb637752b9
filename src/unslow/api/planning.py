"""The best settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from unslow.api.fitting import listed
from unslow.app.progress import Progress
from unslow.think.plan.report import PlanReport


def plan(  # noqa: PLR0913 (as many as the command has flags)
    model: str | Path | None = None,
    *,
    goal: Literal["speed", "context", "quality"] = "speed",
    context: int | str | None = None,
    prompt: int | str | None = None,
    kept: int | str | None = None,
    answer: int | str | None = None,
    users: int | None = None,
    this_work_only: bool = False,
    least_speed: float | None = None,
    worst_perplexity: str | None = None,
    device: str | Sequence[str] | None = None,
    ram: str | None = None,
    ram_bandwidth: str | None = None,
    threads: int | None = None,
    runtime: str | None = None,
    quant: str | None = None,
    margin: str | None = None,
    draft: str | None = None,
    progress: Progress | None = None,
) -> PlanReport:
    """The best settings for what runs, or for a model, each with its gain and what it costs; nothing is changed.

    model: what runs (a URL, a process id, a snapshot file, a recording folder), or a model (a GGUF file, a stored one,
        a well-known name); None for what runs here
    goal: what there shall be most of
    context: tokens that a conversation has room for: 8192 or "128k"; None for as now, else 8192
    prompt: new tokens of a usual request; None for as seen, else 512
    kept: tokens of the conversation that are in the cache already; None for 0
    answer: tokens of a usual answer; None for 256
    users: conversations at a time; None for as many as it has slots for, else 1
    this_work_only: longer prompts and conversations may get slower than now
    least_speed: the tokens per second that it must not fall below; the goals context and quality need it
    worst_perplexity: how much worse than in 16 bits it may predict: "1%"; None for as the file
    device: "RTX 4090", "2x H100", "cpu", or None for this machine's; several as a list
    ram: the host's memory, where it is not this machine's: "64GB"
    ram_bandwidth: what the host's memory delivers: "80GB/s"
    threads: cores of the host; None for all
    runtime: of a model: "llama.cpp", "ollama", "lm_studio", "vllm" or "transformers"; None for llama.cpp
    quant: for a name with no file
    margin: what has to stay free on each GPU: "512MiB"; None for 256MiB
    draft: a small model of the same family that guesses ahead
    progress: is told what is being done; None for silence
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.plan.answer import planned  # noqa: PLC0415 (imported when used)
    from unslow.app.plan.request import PlanRequest  # noqa: PLC0415
    from unslow.app.plan.subjects import hosts_named  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    word = None if model is None else str(model)
    flags |= {"model": word, "aim": goal, "devices": None if device is None else listed(device), "ram_bytes": ram}
    flags |= {"margin_bytes": margin, "least_tokens_per_s": least_speed, "worst_perplexity_increase": worst_perplexity}
    return planned(LiveSystem(hosts_named(word)), PlanRequest.from_flags(flags), progress)
