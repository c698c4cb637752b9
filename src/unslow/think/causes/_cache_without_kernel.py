"""A KV cache of types for which the GPU has no kernel: what its speed shows, deep in a chat and for prompts."""

import msgspec

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.adapt.cache_kernels import (
    cache_types,
    on_cuda,
    surely_lacks_kernels,
    usually_lacks_kernels,
    way_around,
)
from unslow.think.adapt.experiments import is_report
from unslow.think.adapt.versions import NEWEST, build_number
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Found, Remedy, Suspected, cite
from unslow.think.causes._depths import BEYOND, TRY_IT, fall_with_depth
from unslow.think.causes._routes import if_slow
from unslow.think.predict import Prediction, measured_prefill, predict_prefill
from unslow.think.report import Evidence

FAR_BELOW = 2.0
"""Times below the least that prompts should reach: attention on the CPU slows them 8 to 30 times (issue 27109)."""
OTHER_TYPE = Knob.KV_CACHE_TYPE.to("q8_0", "a type that has kernels, for keys and values alike")


def by_cache(case: Case) -> Found | Absent | Suspected | None:
    """Types of the cache that a usual CUDA build has no kernel for, and a speed that shows it."""
    if not usually_lacks_kernels(case) or not on_cuda(case):
        return None
    if around := way_around(case):
        return Absent(around)
    fact = "runtime.kv_type_k" if isinstance(case.runtime.kv_type_k, Known) else "runtime.kv_type_v"
    types = " and ".join(sorted(set(cache_types(case))))
    because = f"the KV cache is {types}, for which a usual build has no kernel on the GPU"
    return _if_it_falls(case, because, cite(case, fact), Remedy(OTHER_TYPE, None, "answers change slightly"))


def _if_it_falls(case: Case, because: str, evidence: Evidence, remedy: Remedy) -> Found | Absent | Suspected:
    """A cache without kernels costs more with every token in it: the speed at the start of a chat proves nothing."""
    prompt = _slow_prompt(case)
    if prompt:
        return Found(f"{because}: {prompt[0]}", (evidence, prompt[1]), Cure(), (remedy,))
    try:
        fall = fall_with_depth(case)
    except MissingFactError:
        return _by_age(case, because, evidence, remedy)
    if fall.beyond < BEYOND:
        return Absent(f"the speed falls no more with depth than it should: {fall.words}")
    tried = msgspec.structs.replace(cite(case, "run.depths"), value=fall.words)
    return Found(f"{because}: {fall.words}", (evidence, tried), None, (remedy,), speedup=fall.beyond)


def _by_age(case: Case, because: str, evidence: Evidence, remedy: Remedy) -> Found | Suspected:
    """Where nobody tried: a type that surely lacks kernels is the cause of a speed that is too low."""
    aged = isinstance(case.runtime.version, Known) and build_number(case.runtime.version.value) < NEWEST
    if surely_lacks_kernels(case) or (is_report(case) and not aged):
        slow = if_slow(case, evidence, remedy, Suspected(because, "the speed with another type", "{try_kv_type}"))
        if not isinstance(slow, Absent):
            return slow
    return Suspected(because, "run.depths", TRY_IT)


def _slow_prompt(case: Case) -> tuple[str, Evidence] | None:
    """A long prompt that was read far slower than it should be, in words and as evidence."""
    measured, expected = measured_prefill(case), predict_prefill(case)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction) or is_report(case):
        return None
    if measured.value * FAR_BELOW > expected.tokens_per_s.low:
        return None
    fact = "run.long_prompt" if isinstance(case.run.long_prompt, Known) else "run.prefill_tokens_per_s"
    words = f"{measured.value:.0f} tokens of a prompt per second, and it should be {expected.tokens_per_s.mid:.0f}"
    return words, cite(case, fact, f"{expected.tokens_per_s.mid:.0f} tokens per second")
