"""Choosing the next token on the CPU takes as long as computing it on the GPU.

## Why it is slow
After each step the host picks a token from a hundred thousand or more. Sorting them all (`top_k 0` with samplers that
need an order), checking each against a grammar or a JSON schema, or returning the probabilities of many costs
milliseconds for each token, while the GPU waits. A fast GPU does not help: all cards give the same speed.

## How to confirm
The same request without grammar, schema and logprobs, and with `top_k 40`, is clearly faster: `unslow` asks both in
turns where the server is idle. One core is busy while the GPU idles between steps.

## What it is not
The usual samplers with `top_k 40`: they take a fraction of a millisecond. Nor a grammar that the request really needs,
as long as it costs little.

## How to fix
Set `top_k` (llama.cpp `--top-k 40`, Ollama `top_k`, LM Studio "Top K Sampling", Transformers `top_k=50`, or in the
request) or put it first among the samplers (`--samplers "top_k;temperature"`); use a schema rather than a general JSON
grammar, or a runtime with a compiled grammar engine (vLLM, SGLang); ask for fewer `logprobs` (`n_probs`).

Guides say that every token waits 0.85 ms for the CPU whatever the model, but their own figures differ threefold: usual
sampling takes a fraction of a millisecond, and only a sort, a grammar or logprobs take more.

## Safety
`top_k 40` changes answers only where tokens of very low probability would have been picked. Without its grammar an
answer may break the format.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import gpu_samples, has_no_gpu
from unslow.think.case.narrative import (
    WORTH_COMPARING,
    blames,
    experiment_on,
    gain_of,
    is_clear,
    is_report,
    slow_side_has,
    times_as_fast,
)
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import SLOWEST, Prediction, measured_rate, predict
from unslow.think.case.slowness import shortfall
from unslow.think.case.waits import other_processes
from unslow.think.case.work import Cure, sampling_turns
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import started_without
from unslow.think.causes._facts import ask_for, cite, cite_comparison
from unslow.think.physics.token_time import LOGPROBS_SPREAD, logprobs_s, sorting_s

LEAST_SHARE = 0.1  # Of a token's time: sorting that takes less is not what makes it slow
NOT_WORTH_A_TRIAL = 0.03  # Below that, not even several sorts are a tenth
MOST_SHARE = 0.9  # Of a token: an estimate of the sorting must leave some of the time that was measured
IDLE = 0.5  # Of the GPU's time, or of a core for others: with more, somebody else may be what is waited for
USUAL_TOP_K = 40  # The default of llama.cpp
_PLAIN = Cure(plain_sampling=True)
SHOW = 'the same request again with `"top_k": 40` and without grammar, JSON schema, `format` and `logprobs`: its speed'


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a trial with and without, for a sort of the whole vocabulary, and for a grammar."""
    answer = first_to_decide(case, _by_turns, _by_requests, _by_trial, _by_top_k, _by_grammar, _by_speed, _by_settings)
    if not isinstance(answer, Absent):
        return answer
    if asked := _asked_by_others(case):
        return asked
    if is_report(case) or not isinstance(case.runtime.url, Known) or isinstance(case.run.traffic, Known):
        return answer
    # A server that was idle shows nothing of what its clients ask for
    return Absent(f"{answer.because}; logprobs and grammars of clients' own requests show only while they ask")


def _by_turns(case: Case) -> Found | Absent | None:
    """The same request as the server is set up and without any sampler, which was tried just now."""
    tried = sampling_turns(case)
    if tried is None or tried.value.as_set <= SLOWEST:
        return None
    gain = tried.value.plain / tried.value.as_set
    if gain < WORTH_COMPARING:
        # a grammar of the server's own stays in force whatever a request asks for
        return None if case.runtime.grammar.value_or("") else Absent("without any sampler it is as fast")
    what, settings = _settings(case)
    seen = f"{tried.value.plain:.3g} against {tried.value.as_set:.3g} tokens per second"
    return Found(
        because=f"without {what} it is {gain:.1f} times as fast: the CPU takes that long to choose a token",
        evidence=(cite(case, "run.plain_sampling", words=seen), *settings),
        cure=_PLAIN,
        remedies=(_usual_top_k(case),),
        speedup=gain,
    )


def _usual_top_k(case: Case) -> Remedy:
    """Where top_k is set already, it is missing among the samplers or comes after one that sorts."""
    if case.runtime.top_k.value_or(0) > 0:
        how = 'top_k first among the samplers, as in `--samplers "top_k;temperature"`, and no others that nobody needs'
        return Remedy(Knob.CLIENT.to(None, how), _PLAIN, "answers vary less")
    return Remedy(Knob.SAMPLER.to(USUAL_TOP_K, "top_k: only the best are sorted"), _PLAIN, "answers vary less")


def _by_requests(case: Case) -> Found | None:
    """What the requests that were watched ask for: by its price, else by the speed that they get."""
    asked, share, lost = _asked_by_others(case), _asked_share(case), shortfall(case)
    if asked is None or isinstance(case.run.plain_sampling, Known) or isinstance(case.run.completions, Known):
        return None
    dear = share is not None and share >= LEAST_SHARE
    rate, plain = measured_rate(case), predict(case, _PLAIN)
    if dear and share and isinstance(rate, Known) and isinstance(plain, Prediction):
        # a token takes about so much longer than it should without; a server that is faster pays less for it
        taken_s = plain.seconds.mid * share / (1 - share)
        dear = 1 / rate.value - plain.seconds.mid > taken_s / LOGPROBS_SPREAD
    if not dear and (lost is None or lost < WORTH_COMPARING):
        return None
    what, settings = _settings(case)
    cost = f", about {share:.0%} of the time of a token" if dear else ""
    traffic, remedy = case.run.traffic, _usual_top_k(case)
    if isinstance(traffic, Known) and traffic.value.logprobs.value_or(0):
        fewer = Knob.CLIENT.to(None, "requests for fewer logprobs, or for none")
        remedy = Remedy(fewer, _PLAIN, "the logprobs")
    return Found(
        because=f"requests ask for {what}, and the CPU takes that long to choose a token{cost}",
        evidence=settings,
        cure=_PLAIN,
        remedies=(remedy,),
    )


def _asked_by_others(case: Case) -> Suspected | None:
    """What other clients ask for was not part of the trial; nothing where it is known to cost little."""
    traffic = case.run.traffic
    if not isinstance(traffic, Known):
        return None
    grammar, share = traffic.value.grammar.value_or(""), _asked_share(case)
    sorts = traffic.value.top_k.value_or(USUAL_TOP_K) <= 0
    costs_little = share is not None and share < LEAST_SHARE
    if not grammar and (costs_little or not (sorts or traffic.value.logprobs.value_or(0))):
        return None
    return Suspected(f"clients ask for {_settings(case)[0]}", "the speed of such a request without it", SHOW)


def _asked_share(case: Case) -> float | None:
    """The part of a token's time that what clients ask for takes, by physics; None where it can't be reckoned."""
    traffic, entries, plain = case.run.traffic, case.model.vocabulary.value_or(0), predict(case, _PLAIN)
    if not isinstance(traffic, Known) or not entries or not isinstance(plain, Prediction):
        return None
    sort_s = sorting_s(entries) if traffic.value.top_k.value_or(USUAL_TOP_K) <= 0 else 0.0
    taken_s = sort_s + logprobs_s(traffic.value.logprobs.value_or(0), entries)
    return taken_s / (taken_s + plain.seconds.mid)


def _settings(case: Case) -> tuple[str, Citations]:
    """What the samplers have to do here, in words, and the facts that tell it."""
    paths: dict[str, str] = {}  # By the words for what each asks
    asked = {"runtime.top_k": case.runtime.top_k, "runtime.grammar": case.runtime.grammar}
    if isinstance(case.run.traffic, Known):
        asked |= {f"run.traffic.{n}": getattr(case.run.traffic.value, n) for n in ("top_k", "grammar", "logprobs")}
    for path, fact in asked.items():
        value, words = fact.value if isinstance(fact, Known) else None, ""
        if path.endswith("top_k"):
            words = "the sort of the whole vocabulary (top_k 0)" if value is not None and int(value) <= 0 else ""
        elif value:
            logprobs = path.endswith("logprobs")
            words = f"logprobs of {value} tokens" if logprobs else f"the grammar ({_short(str(value))})"
        if words:
            paths[words] = path
    return " and ".join(paths) or "the samplers as they are set", tuple(cite(case, path) for path in paths.values())


def _by_trial(case: Case) -> Found | Absent | None:
    tried = experiment_on(case, Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS, Topic.DEPTH, metrics=("decode",))
    if tried is None or tried.differs == (Topic.DEPTH,):
        return None
    if slow_side_has(tried, *(topic for topic in tried.differs if topic is not Topic.DEPTH)) is False:
        return None
    if not is_clear(tried):
        return Absent("the speed is the same without it")
    kind = {Topic.GRAMMAR: "a grammar", Topic.LOGPROBS: "logprobs"}.get(tried.differs[0], "these samplers")
    return Found(
        because=f"without {kind} it is {times_as_fast(tried)}: the CPU checks every token",
        evidence=(cite_comparison(case, tried),),
        remedies=(Remedy(Knob.CLIENT.to(None, "without it, or with a faster grammar engine"), None, "the format"),),
        speedup=gain_of(tried),
    )


def _by_top_k(case: Case) -> Found | Absent | Suspected | None:
    """`top_k 0` sorts the whole vocabulary; what that costs is known."""
    top_k = case.runtime.top_k
    if not isinstance(top_k, Known) or top_k.value > 0:
        return None
    entries = case.model.vocabulary.value_or(0)
    # The part of a token's time that the sort takes: of what it should take, lest another cause hide this one
    plain, rate, share = predict(case, _PLAIN), measured_rate(case), None
    if entries and isinstance(plain, Prediction):
        share = sorting_s(entries) / (sorting_s(entries) + plain.seconds.mid)
    elif entries and isinstance(rate, Known):
        share = min(MOST_SHARE, sorting_s(entries) * rate.value)
    if share is not None and share < LEAST_SHARE:
        words = f"sorting {entries:,} entries takes {share:.0%} of a token's time"
        if share < NOT_WORTH_A_TRIAL or is_report(case) or not isinstance(case.runtime.url, Known):
            return Absent(words)
        return Suspected(f"top_k is 0: {words} at least, and other samplers may sort again", "run.plain_sampling", SHOW)
    if share is None and not blames(case, "decode"):
        ask_for(case, "run.decode_tokens_per_s", SHOW)
        ask_for(case, "model.vocabulary", SHOW)
    of = f" of {entries:,} entries" if entries else ""
    cost = f", about {share:.0%} of the time of a token" if share else ""
    return Found(
        because=f"top_k is 0, so the whole vocabulary{of} is sorted on the CPU for every token{cost}",
        evidence=(cite(case, "runtime.top_k", f"{USUAL_TOP_K} is usual"),),
        cure=_PLAIN,
        remedies=(_usual_top_k(case),),
        speedup=1 / (1 - share) if share else None,
    )


def _by_grammar(case: Case) -> Found | Suspected | None:
    grammar = case.runtime.grammar
    if not isinstance(grammar, Known) or not grammar.value:
        return None
    lost, bound = shortfall(case), f"the answer is bound to {_short(grammar.value)}"
    # The GPU is idle most of the time, or there is none, beside a CPU that nobody else uses
    others, busy = other_processes(case), [gpu.busy.value_or(1.0) for _, gpu in gpu_samples(case)]
    idle = has_no_gpu(case) or (bool(busy) and max(busy) < IDLE and not cpu_computes(case))
    waits_for_host = idle and others is not None and others.cpus < IDLE
    if lost is not None and lost > 1 and not is_report(case) and not waits_for_host:
        return Suspected(bound, "run.plain_sampling", SHOW)
    if lost is None or lost <= 1:
        return Suspected(bound, "the speed without it", SHOW) if lost is None else None
    return Found(
        because=f"{bound}, and the CPU checks every token against it",
        evidence=(cite(case, "runtime.grammar"),),
        remedies=(Remedy(Knob.CLIENT.to(None, "without it, or with a faster grammar engine"), None, "the format"),),
        speedup=lost,
    )


def _short(grammar: str, longest: int = 40) -> str:
    """The start of a grammar on one line: it is known by that."""
    line = " ".join(grammar.split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def _by_speed(case: Case) -> Absent | None:
    if isinstance(case.runtime.top_k, Known) and case.runtime.top_k.value <= 0:
        return None  # which this set-up is expected to pay for
    return Absent("it is as fast as this set-up should be") if shortfall(case) == 1 else None


def _by_settings(case: Case) -> Absent:
    grammar, top_k = case.runtime.grammar, case.runtime.top_k
    if top_k.value_or(USUAL_TOP_K) <= 0 or (grammar.value_or("") and (shortfall(case) or 2) > 1):
        ask_for(case, "run.plain_sampling", SHOW)
    none = isinstance(grammar, Known) or started_without(case, "--grammar", "--json-schema", "-j")
    usual = isinstance(top_k, Known) or started_without(case, "--top-k", "--sampl")
    if not none or not usual:
        ask_for(case, "run.plain_sampling", SHOW)
    words = "the grammar costs nothing here" if grammar.value_or("") else "no grammar is set"
    return Absent(f"top_k is {top_k.value_or(USUAL_TOP_K)}, and {words}")


CAUSE = Cause(
    title="Sampling on the CPU",
    phase="decode",
    needs=(("run.plain_sampling", "runtime.top_k", "runtime.grammar", "runtime.command", "account.comparisons"),),
    check=check,
    explains=("cpu_round_trip_bound",),
    ask=SHOW,
)
