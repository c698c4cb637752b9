"""Several completions as one run: the median counts."""

import statistics
from collections.abc import Sequence

from unslow.facts.run import Completion, Run
from unslow.facts.values import Fact, Unknown, measured, not_found, not_supported
from unslow.look.bench.guest import Timed
from unslow.look.bench.processors import processors
from unslow.look.bench.timed import decode_rate
from unslow.look.bench.watched import Watched

NOT_WATCHED = not_supported("the GPU is not watched while it is measured", "run `nvidia-smi dmon -s pucm` meanwhile")


def summarise(done: Sequence[Watched], url: str) -> Run:
    """Medians over the completions, and what the processors did in all of them."""
    runs = [w.timed.completion for w in done]
    source, clock = f"median of {len(runs)} completions at {url}", done[-1].timed.clock
    clients = [_client_rate(c) for c in runs]
    firsts = [c.client_first_token_s for c in runs if c.client_first_token_s is not None]
    return Run(
        completions=measured(tuple(runs), url),
        decode_tokens_per_s=measured(statistics.median(decode_rate(c) for c in runs), f"{source}, {clock}"),
        prefill_tokens_per_s=_prefill([w.timed for w in done], f"{source}, {clock}"),
        time_to_first_token_s=_median(firsts, f"{source}, client clock"),
        client_decode_tokens_per_s=_median([c for c in clients if c], f"{source}, client clock"),
        depth_tokens=measured(int(statistics.median(c.prompt_tokens + c.generated_tokens / 2 for c in runs)), url),
        waiting_for_cpu_s_per_token=_waiting(runs),
        gpus=NOT_WATCHED,
        **processors([w.use for w in done]),
    )


def _prefill(done: Sequence[Timed], source: str) -> Fact[float]:
    if not all(timed.prompt_timed for timed in done):
        return not_found("the server does not time its prompts, and these are too short for the client's clock")
    runs = [timed.completion for timed in done]
    return _median([c.prompt_tokens / c.prefill_s for c in runs if c.prefill_s > 0], source)


def _median(values: Sequence[float], source: str) -> Fact[float]:
    return measured(statistics.median(values), source) if values else not_found("no timing of this kind came back")


def _client_rate(completion: Completion) -> float | None:
    if completion.client_total_s is None or completion.client_first_token_s is None:
        return None
    seconds = completion.client_total_s - completion.client_first_token_s
    return (completion.generated_tokens - 1) / seconds if seconds > 0 and completion.generated_tokens > 1 else None


def _waiting(runs: Sequence[Completion]) -> Fact[float]:
    waits = [c.waited_s / c.generated_tokens for c in runs if c.waited_s is not None]
    if not waits:
        return Unknown("the run-queue times of the runtime's threads can't be read", "run unslow as the same user")
    return measured(statistics.median(waits), "/proc/PID/task/*/schedstat while generating")
