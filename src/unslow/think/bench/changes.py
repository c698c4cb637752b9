"""What of the changes between two benchmarks to suspect, in one sentence, and as a fact for the causes."""

from collections.abc import Sequence

from unslow.facts.bench import DECODE, Bench, Comparison
from unslow.facts.run import Earlier
from unslow.facts.values import Fact, measured, not_found
from unslow.think.bench.what_changed import RUNTIME_VERSION, Change, changed

__all__ = ["Change", "changed", "earlier_of", "only_version", "suspect"]

_FOLLOWS = {
    "runtime.threads_batch": ("runtime.threads",),
    "runtime.kv_type_v": ("runtime.kv_type_k",),
    "runtime.gpu_layers": ("runtime.gpu_layers_set",),
    "runtime.context_per_slot": ("runtime.context_length", "runtime.slots"),
    "runtime.output_on_gpu": ("runtime.gpu_layers_set", "runtime.gpu_layers"),
}
"""What changes along with another setting, and so is no second change."""


def suspect(comparison: Comparison, changes: Sequence[Change]) -> str:
    """One sentence on what may lie behind the difference; empty where there is none to explain."""
    if comparison.verdict in ("same", "cannot_tell"):
        return ""
    if found := _not_comparable(changes):
        return found
    made = _made(changes)
    slower = comparison.verdict == "slower"
    also = [change for change in changes if change.worse is slower]
    if not made:
        return _unmade(also)
    if len(made) > 1:
        names = _listed([change.name for change in made])
        return f"Several things changed at once ({names}), and can't be told apart: put them back one at a time."
    return _alone(made[0], also, slower=slower)


def only_version(changes: Sequence[Change]) -> bool:
    """Whether the version of the runtime changed, and nothing else that could explain a slower one."""
    told = [change for change in changes if change.kind != "condition" or change.worse]
    return [change.fact for change in told] == [RUNTIME_VERSION]


def _made(changes: Sequence[Change]) -> list[Change]:
    """What somebody changed, without what follows from it."""
    facts = {change.fact for change in changes}
    own = [change for change in changes if change.kind in ("version", "setting")]
    return [change for change in own if not facts.intersection(_FOLLOWS.get(change.fact, ()))]


def _not_comparable(changes: Sequence[Change]) -> str:
    method = [change for change in changes if change.kind == "method"]
    if method:
        one = method[0]
        return f"They were not measured in the same way ({one.name}: {one.before}, then {one.after}): {one.why}."
    subject = [change for change in changes if change.kind == "subject"]
    if subject:
        one = subject[0]
        return f"It is not the same thing that was measured ({one.name}: {one.before}, then {one.after})."
    return ""


def _alone(change: Change, also: Sequence[Change], *, slower: bool) -> str:
    what = f"{change.name} changed, from {change.before} to {change.after}"
    if also:
        return f"The {what}, but the machine was different too ({_then(also)}): measure again when it is as before."
    if change.fact == RUNTIME_VERSION:
        verdict = "it is the one to suspect" if slower else "it is what helped"
        return f"Only the {what}: {verdict}; measure {change.before} once more to be sure."
    return f"Only the {what}: {change.why or 'look there first'}."


def _unmade(also: Sequence[Change]) -> str:
    if also:
        return f"No version or setting that is known changed, but the machine was different: {_then(also)}."
    return "No version or setting that is known changed, and nothing that was seen of the machine explains it."


def _then(changes: Sequence[Change]) -> str:
    return _listed([f"{one.name} {one.before}, now {one.after}" for one in changes])


def _listed(words: Sequence[str]) -> str:
    most = 4
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def earlier_of(before: Bench, after: Bench, comparison: Comparison, changes: Sequence[Change]) -> Fact[Earlier]:
    """The earlier benchmark as a fact of the later one's run, for the causes; unknown where decoding is not in both."""
    decode = next((one for one in comparison.differences if one.metric == DECODE), None)
    if decode is None:
        return not_found("the earlier benchmark has no speed of decoding")
    also = [change.name for change in changes if change.fact != RUNTIME_VERSION and change.worse is not False]
    earlier = Earlier(
        bench=before.id,
        taken_at=before.taken_at,
        decode_tokens_per_s=decode.before,
        now_tokens_per_s=decode.after,
        slower=decode.verdict == "slower",
        version=before.runtime_version,
        version_now=after.runtime_version,
        also_changed=tuple(also),
    )
    return measured(earlier, f"history of benchmarks: {before.id}")
