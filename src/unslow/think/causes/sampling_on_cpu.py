"""Choosing the next token takes as long as computing it.

## Why it is slow
After each step the host picks a token from a hundred thousand or more. Sorting them all (`top_k 0` with samplers that
need an order), checking each against a grammar or a JSON schema, or returning the probabilities of many costs
milliseconds per token, while the GPU waits. A faster GPU does not help: all cards reach the same speed.

vLLM, SGLang and TGI choose on the GPU. There `top_p`, which many models' `generation_config.json` sets for every
request, sorts the whole vocabulary with PyTorch unless a fused sampler such as FlashInfer's is in use: next to a small
model that is a large part of a token.

## How to confirm
The same request without grammar, schema and logprobs, and with `top_k 40`, is clearly faster: `unslow` sends both in
turns when the server is idle. One core is busy while the GPU idles between steps.

## What it is not
The default samplers with `top_k 40`: they take a fraction of a millisecond. Nor a grammar that the request really
needs, as long as it costs little.

## How to fix
Set `top_k` (llama.cpp `--top-k 40`, Ollama `top_k`, LM Studio "Top K Sampling", Transformers `top_k=50`, or in the
request) or put it first among the samplers (`--samplers "top_k;temperature"`); use a schema rather than a general JSON
grammar, or a runtime with a compiled grammar engine (vLLM, SGLang); ask for fewer `logprobs` (`n_probs`).

vLLM: `--generation-config vllm` leaves the model's `generation_config.json` out; or `"top_p": 1` in the requests; or
FlashInfer's sampler (`VLLM_USE_FLASHINFER_SAMPLER=1`, the default of newer versions).

Guides say that every token waits 0.85 ms for the CPU whatever the model, but their own figures differ threefold:
default sampling takes a fraction of a millisecond, and only a sort, a grammar or logprobs take more.

## Safety
`top_k 40` changes answers only where tokens of very low probability would have been picked. Without its grammar an
answer may break the format.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import WORTH_COMPARING, is_clear, times_as_fast
from unslow.think.case.samplers import LEAST_SHARE, start_of
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.physics.token_time import LOGPROBS_SPREAD

NOT_WORTH_A_TRIAL = 0.03  # Of a token's time: below it, not even several sorts are a tenth
IDLE = 0.5  # Of the GPU's time, or of a core for others: above it, something else may be the bottleneck
USUAL_TOP_K = 40  # The default of llama.cpp
PLAIN = Cure(plain_sampling=True)
NO_GRAMMAR = Remedy(Knob.CLIENT.to(None, "without it, or with a faster grammar engine"), None, "the format")
SHOW = 'the speed of the same request with `"top_k": 40` and without grammar, JSON schema, `format` and `logprobs`'


def plain_trial(case: CaseView) -> Found | None:
    """The same request with the configured samplers and without any, as measured in turns."""
    gain, turns = case.samplers.gain_without, case.speed.sampling_turns
    if gain is None or turns is None or gain < WORTH_COMPARING:
        return None
    work, settings = case.samplers.work
    speeds = f"{turns.value.plain:.3g} against {turns.value.as_set:.3g} tok/s"
    who, fixes = "CPU", [usual_top_k(case)]
    if case.samplers.on_gpu:
        who, fixes = "GPU", plain_on_gpu(case)
        if chosen := case.samplers.set_by_model:
            work = f"the samplers that the model's generation_config.json sets ({chosen})"
    return finding(
        case,
        f"without {work} decode is {gain:.1f} times as fast: the {who} takes that long to choose a token",
        case.cite("run.plain_sampling", words=speeds),
        settings,
        cure=PLAIN,
        fixes=fixes,
        speedup=gain,
    )


def plain_on_gpu(case: CaseView) -> list[Remedy]:
    """Fewer samplers for every request, or for each; or, on vLLM, a sampler that does not sort."""
    requests = 'requests with `"top_p": 1`, or at temperature 0'
    if not case.engine.label.endswith("vLLM"):
        return [Remedy(Knob.CLIENT.to(None, requests), PLAIN, "answers vary more")]
    model = Knob.SAMPLER.to(None, "vLLM's own defaults instead of the model's generation_config.json, which sorts")
    fused = "FlashInfer's sampler, which does not sort: `VLLM_USE_FLASHINFER_SAMPLER=1` in its environment"
    return [
        Remedy(model, PLAIN, "answers vary more"),
        Remedy(Knob.CLIENT.to(None, requests), PLAIN, "answers vary more"),
        Remedy(Knob.CLIENT.to(None, fused), None),
    ]


def watched_requests(case: CaseView) -> Found | None:
    """What the watched requests ask for: by its cost, else by the speed that they get."""
    traffic = case.run.traffic.get()
    was_tried = isinstance(case.run.plain_sampling, Known) or isinstance(case.run.completions, Known)
    if traffic is None or was_tried or not case.samplers.requests_may_cost:
        return None
    share, lost = case.samplers.requested_share, case.speed.shortfall
    is_costly = share is not None and share >= LEAST_SHARE
    rate, plain = case.speed.measured_rate.get(), case.speed.predict(PLAIN)
    if share is not None and is_costly and rate is not None and isinstance(plain, Prediction):
        # A token takes about that much longer than expected without it; a server that is faster pays less
        taken_s = plain.seconds.mid * share / (1 - share)
        is_costly = 1 / rate - plain.seconds.mid > taken_s / LOGPROBS_SPREAD
    if not is_costly and (lost is None or lost < WORTH_COMPARING):
        return None
    work, settings = case.samplers.work
    cost = f", about {share:.0%} of a token's time" if is_costly else ""
    fewer = Remedy(Knob.CLIENT.to(None, "requests for fewer logprobs, or for none"), PLAIN, "the logprobs")
    return finding(
        case,
        f"requests ask for {work}, which the CPU computes for every token{cost}",
        settings,
        cure=PLAIN,
        fixes=[fewer if traffic.logprobs.get() else usual_top_k(case)],
    )


def tried_by_person(case: CaseView) -> Found | None:
    """The same request without a grammar, a sampler or logprobs was clearly faster."""
    trial = case.samplers.told_trial
    if trial is None or not is_clear(trial) or case.samplers.cost_nothing:
        return None
    kind = {Topic.GRAMMAR: "a grammar", Topic.LOGPROBS: "logprobs"}.get(trial.differs[0], "these samplers")
    words = f"without {kind} decode is {times_as_fast(trial)}: the CPU checks every token"
    return finding(case, words, fixes=[NO_GRAMMAR], trial=trial)


def full_sort(case: CaseView) -> Found | Suspected | None:
    """`top_k 0`, which sorts the whole vocabulary, and the part of a token's time that takes."""
    if not case.samplers.sorts_whole_vocabulary or why_cheap(case):
        return None
    entries, share = case.model.vocabulary.get(), case.samplers.sort_share
    if share is not None and share < LEAST_SHARE:
        words = f"top_k is 0: {_sort_cost(case)} at least, and other samplers may sort again"
        return Suspected(words, "run.plain_sampling", SHOW)
    if share is None and not case.narrative.blames("decode"):
        case.ask_for("run.decode_tokens_per_s", SHOW)
        case.ask_for("model.vocabulary", SHOW)
    of = f" of {entries:,} entries" if entries else ""
    cost = f", about {share:.0%} of a token's time" if share else ""
    return finding(
        case,
        f"top_k is 0, so the CPU sorts the whole vocabulary{of} for every token{cost}",
        case.cite("runtime.sampling.top_k", f"{USUAL_TOP_K} is usual"),
        cure=PLAIN,
        fixes=[usual_top_k(case)],
        speedup=1 / (1 - share) if share else None,
    )


def server_grammar(case: CaseView) -> Found | Suspected | None:
    """A grammar that the server sets, beside a speed below the expected one and an idle GPU and CPU."""
    grammar, lost = case.runtime.sampling.grammar.get(), case.speed.shortfall
    if not grammar or why_cheap(case) or (lost is not None and lost <= 1):
        return None
    words = f"a grammar constrains the output ({start_of(grammar)})"
    if lost is None:
        return Suspected(words, "the speed without it", SHOW)
    busy, others = [gpu.busy.get() for _, gpu in case.telemetry.gpu_samples], case.host.other_processes
    gpu_idles = bool(busy) and all(share is not None and share < IDLE for share in busy)
    idle = case.gpus.has_none or (gpu_idles and not case.placement.cpu_computes)
    waits_for_sampling = idle and others is not None and others.cpus < IDLE
    if not waits_for_sampling and not case.narrative.is_report:
        return Suspected(words, "run.plain_sampling", SHOW)
    because = f"{words}, and the CPU checks every token against it"
    return finding(case, because, "runtime.sampling.grammar", fixes=[NO_GRAMMAR], speedup=lost)


def cheap_settings(case: CaseView) -> Absent | Suspected:
    """Settings that cost little, or a speed as expected; what clients ask for in their requests may still cost more."""
    because, sorts, lost = why_cheap(case), case.samplers.sorts_whole_vocabulary, case.speed.shortfall
    if not because and lost == 1 and not sorts:
        because = "decode is as fast as expected with these settings"
    if not because:
        top_k, grammar = case.runtime.sampling.top_k.get(), case.runtime.sampling.grammar.get()
        no_grammar = grammar is not None or case.engine.started_without("--grammar", "--json-schema", "-j")
        usual = top_k is not None or case.engine.started_without("--top-k", "--sampl")
        if sorts or (grammar and lost != 1) or not no_grammar or not usual:
            case.ask_for("run.plain_sampling", SHOW)
        words = "the grammar costs nothing here" if grammar else "no grammar is set"
        because = f"top_k is {USUAL_TOP_K if top_k is None else top_k}, and {words}"
    if case.samplers.requests_may_cost:
        words = f"clients ask for {case.samplers.work[0]}"
        return Suspected(words, "the speed of such a request without it", SHOW)
    was_idle = isinstance(case.runtime.process.url, Known) and not isinstance(case.run.traffic, Known)
    if was_idle and not case.narrative.is_report:
        because = f"{because}; logprobs and grammars in clients' requests show only while they run"
    return Absent(because)


def why_cheap(case: CaseView) -> str:
    """Why the server's own settings cost little: as measured, as told, by the size of a sort; empty if unknown."""
    if case.samplers.cost_nothing:
        return "it is as fast without any sampler"
    if (trial := case.samplers.told_trial) is not None and not is_clear(trial):
        return "the speed is the same without it"
    share = case.samplers.sort_share if case.samplers.sorts_whole_vocabulary else None
    if share is None or share >= LEAST_SHARE:
        return ""
    can_try = isinstance(case.runtime.process.url, Known) and not case.narrative.is_report
    return "" if can_try and share >= NOT_WORTH_A_TRIAL else _sort_cost(case)


def _sort_cost(case: CaseView) -> str:
    return f"sorting {case.model.vocabulary.get():,} entries takes {case.samplers.sort_share:.0%} of a token's time"


def usual_top_k(case: CaseView) -> Remedy:
    """Set top_k; where it is set already, it is missing among the samplers or comes after one that sorts."""
    top_k = case.runtime.sampling.top_k.get()
    change = Knob.SAMPLER.to(USUAL_TOP_K, "top_k: only the best are sorted")
    if top_k is not None and top_k > 0:
        how = 'top_k first among the samplers, as in `--samplers "top_k;temperature"`, and only those that are needed'
        change = Knob.CLIENT.to(None, how)
    return Remedy(change, PLAIN, "answers vary less")


CAUSE = Cause(
    title="Sampling takes long",
    phase="decode",
    needs=all_of(
        "run.plain_sampling or runtime.sampling.top_k or runtime.sampling.grammar or runtime.process.command or "
        "account.comparisons"
    ),
    routes=(
        Route("measured", plain_trial),
        Route("measured", watched_requests),
        Route("told", tried_by_person),
        Route("counted", full_sort),
        Route("counted", server_grammar),
        Route("counted", cheap_settings),
    ),
    explains=("cpu_round_trip_bound",),
    ask=SHOW,
)
