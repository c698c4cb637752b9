"""Claims of the size of a KV cache."""

from collections.abc import Iterator

from unslow.facts.units import KIB
from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.models_in_text import ModelSaid
from unslow.think.claims.readings import Reading, readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.settings_in_text import contexts_said
from unslow.think.claims.sizes import right_unit, spelled
from unslow.think.claims.verdicts import Finding, best, cannot_tell, judged

_TOLERANCE = 0.1
_UNNAMED_TYPES = ("Q8_0", "Q4_0", "F32")


def judge_cache(said: Said, claim: Amount) -> Judged:
    """What keys and values take, at any of the contexts that are named."""
    model, what, contexts = said.model_at(claim.start), f"{spelled(claim)} of KV cache", contexts_said(said.rest)
    if not model or not contexts:
        missing = ["which model"] * (not model) + ["at which context"] * (not contexts)
        return cannot_tell(said, what, "kv_cache", missing)
    found = list(_findings(said, claim, model, contexts))
    if not found:
        return cannot_tell(said, what, "kv_cache", [f"which {model.label} model: the catalogue has none of that size"])
    return judged(said, what, "kv_cache", best(found))


def _findings(said: Said, claim: Amount, model: ModelSaid, contexts: list[int]) -> Iterator[Finding]:
    """In the named type, else in F16; other types are guesses."""
    kinds = [said.cache_type] if said.cache_type else ["F16", *_UNNAMED_TYPES]
    models = {r.model: r for r in readings(model, None) if r.shaped}
    for n, kind in enumerate(kinds):
        for reading in models.values():
            yield from (_held(reading, claim, context, kind)._replace(assumed=n > 0) for context in contexts)


def _held(reading: Reading, claim: Amount, context: int, kind: str) -> Finding:
    size = max(1.0, reading.cache_bytes(context, kind) or 0.0)
    lines = (
        f"{reading.model} keeps {size / context / KIB:,.4g} KiB for each token in {kind}, in {reading.layers} layers",
        f"{w.tokens(context)} tokens: {w.both(size)}",
        f"claimed {spelled(claim)}: {w.digits(claim.low / size)} times as much",
    )
    subject = Subject(model=reading.model, quant=f"{kind} KV cache", context=context)
    found = Finding("possible", "keys and values add up to that", lines, subject, nearness=-abs(claim.low / size - 1))
    if right_unit(claim, size, _TOLERANCE):
        return found
    because = f"keys and values of {w.tokens(context)} tokens are {w.both(size)}"
    return found._replace(verdict="impossible", because=because)
