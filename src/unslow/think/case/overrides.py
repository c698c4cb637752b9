"""What settings send to the CPU by the names of tensors: the output, experts, or other parts of layers.

llama.cpp searches each pattern in the name of each tensor, in their order, and the first that is found decides. So it
is done here, with the names that the model's file has, else with those of common models.
"""

import re
from functools import lru_cache
from itertools import islice
from math import comb, prod
from typing import NamedTuple

from unslow.facts.model import Model, layer_of, unpacked_tensors
from unslow.facts.values import Known
from unslow.think.memo import once

COMMON = (
    *(f"ffn_{part}_exps" for part in ("up", "gate", "down")),
    *(f"attn_{part}" for part in ("q", "k", "v", "qkv", "q_a", "q_b", "kv_a_mqa", "kv_b", "k_b", "v_b", "output")),
    *(f"ffn_{part}{kind}" for part in ("up", "gate", "down") for kind in ("", "_shexp")),
    *("ssm_in", "ssm_out"),
)
"""Matrices of a layer as the usual architectures of llama.cpp call them (its llama-arch.cpp)."""
MOST_LAYERS, MOST_PARTS = 130, 64
"""No common model has more: where their number is unknown, patterns are tried on so many. Of a file, no more kinds."""
_IN_EVERY_LAYER = "blk.*."
_ROUTER = "ffn_gate_inp"  # Which of the experts a token goes to: a matrix that weighs next to nothing
_ALL_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_OF_SWITCH = {"moe": _ALL_EXPERTS, "ffn": r"\.ffn_(up|down|gate)\."}
"""What the switches of llama.cpp stand for, as its source has them."""
_SWITCH = re.compile(r"(?:--n-cpu-|-nc|--cpu-|-c)(moe|ffn)(?:[ =](\d{1,6}))?", re.IGNORECASE)
_HOST = re.compile(r"CPU\b|CPU_|\w+_Host\b", re.IGNORECASE)
_ONE_TENSOR = re.compile(r"blk\.\d+\.\w+\.(?:weight|bias)")
_ENDS = re.compile(r"^\^?(?:\.\*)+|(?<!\\)(?:\.\*)+\$?$")
_NESTED, _UNLIMITED = re.compile(r"\)[*+{?]|[*+}][*+]|\(\?(?!:)"), re.compile(r"(?<![\\(])[*+?{]")
_NO_SYNTAX = re.compile(r"\\.|\[[^\]]{0,400}\]", re.DOTALL)
LETTERS, MOST_STEPS, LONGEST = 30, 20_000_000, 400
"""Of a tensor's name; to try all patterns on all names; of a pattern. Made-up ones could take for ever: none of use
does."""


class SentAway(NamedTuple):
    """What settings place on the CPU; all False where no setting names tensors."""

    output: bool = False
    experts: bool = False
    others: bool = False  # Attention or feed-forward weights that are no experts
    unread: bool = False  # What can't be made out: it may be anything

    @property
    def of_layers(self) -> bool:
        """Whether a layer that counts as on the GPU may lie elsewhere in part."""
        return self.experts or self.others or self.unread


class _Rule(NamedTuple):
    pattern: str
    to_host: bool
    layers: int | None = None  # The first so many layers; all that the pattern is found in where nothing is said


class _Names(NamedTuple):
    """The matrices of a layer, how many layers there are, and the name of the tensor that the output is."""

    parts: tuple[str, ...] = COMMON
    layers: int = MOST_LAYERS
    output: str = "output.weight"


@once
def bytes_on_host(model: Model, overrides: tuple[str, ...], whole: int) -> int | None:
    """Bytes in host memory of the first `whole` layers and of what overrides send there; None where unknown."""
    if not isinstance(model.tensors, Known):
        return None
    try:
        tensors = [(layer_of(tensor.name), tensor) for tensor in unpacked_tensors(model.tensors.value)]
    except ValueError:  # a snapshot that was edited by hand
        return None
    rules = _rules(overrides, len(tensors))
    if rules is None or any(_ONE_TENSOR.fullmatch(rule.pattern) for rule in rules):
        return None
    return sum(t.bytes for layer, t in tensors if layer >= 0 and (layer < whole or _leaves(t.name, rules, layer)))


@once
def names_in(model: Model) -> _Names:
    """The names of a model's matrices: as its file has them, else the common ones."""
    output = "token_embd.weight" if model.output_tied.value_or(default=False) else "output.weight"
    layers = min(model.layers.value_or(MOST_LAYERS), MOST_LAYERS)
    kinds = model.tensors.value.kinds if isinstance(model.tensors, Known) else ()
    # Matrices alone: norms and biases, which have one row, weigh nothing
    tensors = (t for kind in kinds for t in kind if t.name.startswith(_IN_EVERY_LAYER) and len(t.shape) > 1)
    names = dict.fromkeys(t.name.removeprefix(_IN_EVERY_LAYER).rpartition(".")[0] for t in tensors)
    own = tuple(islice((name for name in names if name and name != _ROUTER), MOST_PARTS))
    return _Names(own or COMMON, layers or MOST_LAYERS, output)


@lru_cache(maxsize=256)
def tensors_sent_to_cpu(overrides: tuple[str, ...], names: _Names) -> SentAway:
    """What these overrides send to the CPU."""
    rules = _rules(overrides, names.layers * len(names.parts))
    if rules is None:
        # Where a pattern can't be tried: by what it names; what names nothing known may be anything
        text = " ".join(overrides)
        experts, output = "exps" in text or "moe" in text.lower(), bool(re.search(r"(?<![\w.])output(?!_norm)", text))
        return SentAway(output, experts, unread=not experts and not output)
    output, layers = _leaves(names.output, rules), range(names.layers)
    leaving = [part for part in names.parts if any(_leaves(f"blk.{n}.{part}.weight", rules, n) for n in layers)]
    # who sends `output` away sends a part of attention too, which has that word in its name
    others = [part for part in leaving if not is_expert(part) and not (output and part == "attn_output")]
    return SentAway(output, any(is_expert(part) for part in leaving), bool(others))


def is_expert(part: str) -> bool:
    """Whether a matrix of a layer, by its name, holds the experts of a mixture."""
    return part.endswith("exps")


@lru_cache(maxsize=256)
def layers_without_experts(overrides: tuple[str, ...], names: _Names) -> float | None:
    """Layers whose experts leave, in part as a fraction; None where the overrides don't say how many."""
    experts, layers = [part for part in names.parts if is_expert(part)], min(names.layers, MOST_LAYERS)
    rules = _rules(overrides, layers * len(experts))
    # a log shows one tensor of all that left
    if rules is None or not experts or any(_ONE_TENSOR.fullmatch(rule.pattern) for rule in rules):
        return None
    return sum(_leaves(f"blk.{i}.{part}.weight", rules, i) for i in range(layers) for part in experts) / len(experts)


def _leaves(name: str, rules: tuple[_Rule, ...], layer: int = 0) -> bool:
    """Whether the first rule that is found in a name sends it to the CPU."""
    found = (r for r in rules if (r.layers is None or layer < r.layers) and re.search(r.pattern, name))
    rule = next(found, None)
    return rule is not None and rule.to_host


def _rules(overrides: tuple[str, ...], names: int) -> tuple[_Rule, ...] | None:
    """The settings one by one; None where one of them can't be read, or to try them on so many names takes too long."""
    parts = (part.strip() for override in overrides for part in override.split(","))
    read = [_rule(part) for part in parts if part]
    rules = tuple(rule for rule in read if rule)
    feasible = names * sum(_steps(rule.pattern) for rule in rules) <= MOST_STEPS
    return rules if feasible and len(rules) == len(read) else None


def _steps(pattern: str) -> int:
    """In how many ways the open parts of a pattern can share the letters of a name, and its alternatives be chosen."""
    unlimited = len(_UNLIMITED.findall(pattern))
    closed, still_open = 1, [1]
    for letter in _NO_SYNTAX.sub("", pattern):
        if letter == "(":
            still_open.append(1)
        elif letter == "|":
            still_open[-1] += 1
        elif letter == ")" and len(still_open) > 1:
            closed *= still_open.pop()
    return comb(LETTERS + unlimited, unlimited) * closed * prod(still_open)


def _rule(text: str) -> _Rule | None:
    """None of a pattern that is none, or that could take for ever."""
    switch = _SWITCH.fullmatch(text)
    if switch:
        return _Rule(_OF_SWITCH[switch[1].lower()], to_host=True, layers=int(switch[2]) if switch[2] else None)
    pattern, _, device = text.rpartition("=")
    inner = _ENDS.sub("", pattern)
    if not pattern or len(inner) > LONGEST or _NESTED.search(inner):
        return None
    try:
        re.compile(inner)
    except (re.error, OverflowError, RecursionError):  # of counts and brackets beyond reason
        return None
    return _Rule(inner, bool(_HOST.match(device.strip())))
