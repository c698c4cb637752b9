"""What settings send to the CPU by the names of tensors: the output, experts, or other parts of layers.

llama.cpp searches each pattern in the name of each tensor, in their order, and the first that is found decides. So it
is done here, with names that tensors have.
"""

import re
from functools import lru_cache
from math import comb
from typing import NamedTuple

from unslow.facts.snapshot import Case

EXPERTS = tuple(f"ffn_{part}_exps" for part in ("up", "gate", "down"))
OTHERS = ("attn_q", "attn_k", "attn_v", "ffn_up", "ffn_gate", "ffn_down")
"""Of a layer. `attn_output` is not among them: who sends `output` away sends it too, a small part of a layer."""
MOST_LAYERS = 130
"""No common model has more: where their number is unknown, patterns are tried on so many."""
_ALL_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_OF_SWITCH = {"moe": _ALL_EXPERTS, "ffn": r"\.ffn_(up|down|gate)\."}
"""What the switches of llama.cpp stand for, as its source has them."""
_SWITCH = re.compile(r"(?:--n-cpu-|-nc|--cpu-|-c)(moe|ffn)(?:[ =](\d{1,6}))?", re.IGNORECASE)
_HOST = re.compile(r"CPU\b|CPU_|\w+_Host\b", re.IGNORECASE)
_ONE_TENSOR = re.compile(r"blk\.\d+\.\w+\.(?:weight|bias)")
_ENDS = re.compile(r"^\^?(?:\.\*)+|(?<!\\)(?:\.\*)+\$?$")
_NESTED, _UNLIMITED = re.compile(r"\)[*+{?]|[*+}][*+]"), re.compile(r"(?<![\\(])[*+?{]")
LETTERS, MOST_STEPS, LONGEST = 30, 20_000, 400
"""Of a tensor's name; to try all patterns on one; of a pattern. Made-up ones could take for ever: none of use does."""


class SentAway(NamedTuple):
    """What settings place on the CPU; all False where no setting names tensors."""

    output: bool = False
    experts: bool = False
    others: bool = False
    """Attention or feed-forward weights that are no experts; or what can't be made out."""

    @property
    def of_layers(self) -> bool:
        """Whether a layer that counts as on the GPU may lie elsewhere in part."""
        return self.experts or self.others


class _Rule(NamedTuple):
    pattern: str
    to_host: bool
    layers: int | None = None
    """The first so many layers; all that the pattern is found in where nothing is said."""


def sent_away(case: Case) -> SentAway:
    """What the settings of a case send to the CPU; of a model without experts none can leave."""
    away = _sent_away(tuple(case.runtime.tensor_overrides.value_or([])))
    return away._replace(experts=False) if case.model.experts.value_or(None) == 0 else away


def overrides_of(case: Case, kind: str) -> list[str]:
    """The settings, as written, that send away one kind of `SentAway` by themselves."""
    return [o for o in case.runtime.tensor_overrides.value_or([]) if getattr(_sent_away((o,)), kind)]


def layers_without_experts(case: Case, layers: int) -> float | None:
    """Layers whose experts are sent away, in part as a fraction; None where the settings do not tell how many."""
    return _without_experts(tuple(case.runtime.tensor_overrides.value_or([])), layers)


@lru_cache(maxsize=256)
def _sent_away(overrides: tuple[str, ...]) -> SentAway:
    rules = _rules(overrides)
    if rules is None:
        return _by_words(" ".join(overrides))
    layers = range(MOST_LAYERS)
    return SentAway(
        _leaves("output.weight", rules),
        any(_leaves(f"blk.{i}.{part}.weight", rules, i) for i in layers for part in EXPERTS),
        any(_leaves(f"blk.{i}.{part}.weight", rules, i) for i in layers for part in OTHERS),
    )


@lru_cache(maxsize=256)
def _without_experts(overrides: tuple[str, ...], layers: int) -> float | None:
    rules = _rules(overrides)
    # a log shows one tensor of all that left
    if rules is None or any(_ONE_TENSOR.fullmatch(rule.pattern) for rule in rules):
        return None
    names = [(i, f"blk.{i}.{part}.weight") for i in range(min(layers, MOST_LAYERS)) for part in EXPERTS]
    return sum(_leaves(name, rules, i) for i, name in names) / len(EXPERTS)


def _leaves(name: str, rules: tuple[_Rule, ...], layer: int = 0) -> bool:
    """Whether the first rule that is found in a name sends it to the CPU."""
    found = (r for r in rules if (r.layers is None or layer < r.layers) and re.search(r.pattern, name))
    rule = next(found, None)
    return rule is not None and rule.to_host


def _rules(overrides: tuple[str, ...]) -> tuple[_Rule, ...] | None:
    """The settings one by one; None where one of them can't be read."""
    rules: list[_Rule] = []
    for text in (part for override in overrides for part in override.split(",") if part.strip()):
        rule = _rule(text.strip())
        if rule is None:
            return None
        rules.append(rule)
    return tuple(rules) if sum(_steps(rule.pattern) for rule in rules) <= MOST_STEPS else None


def _steps(pattern: str) -> int:
    """In how many ways the open parts of a pattern can share the letters of a name."""
    unlimited = len(_UNLIMITED.findall(pattern))
    return comb(LETTERS + unlimited, unlimited)


def _rule(text: str) -> _Rule | None:
    switch = _SWITCH.fullmatch(text)
    if switch:
        return _Rule(_OF_SWITCH[switch[1].lower()], to_host=True, layers=int(switch[2]) if switch[2] else None)
    pattern, _, device = text.rpartition("=")
    return _Rule(_ENDS.sub("", pattern), bool(_HOST.match(device.strip()))) if _is_plain(pattern) else None


def _is_plain(pattern: str) -> bool:
    """Whether a pattern is one, and can be tried without taking for ever."""
    inner = _ENDS.sub("", pattern)
    if not pattern or len(inner) > LONGEST or _NESTED.search(inner):
        return False
    try:
        re.compile(inner)
    except re.error:
        return False
    return True


def _by_words(text: str) -> SentAway:
    """Where a pattern can't be tried: by what it names; what names nothing known may be anything."""
    experts, output = "exps" in text or "moe" in text.lower(), bool(re.search(r"(?<![\w.])output(?!_norm)", text))
    return SentAway(output, experts, not experts and not output)
