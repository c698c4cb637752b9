"""The well-known model that a word means, however people write it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from itertools import accumulate

from unslow.catalog.models import WellKnown, well_known
from unslow.facts.errors import UserError

# What says how a model was trained, packed or published, and nothing about its shape.
_TRAINING = {"instruct", "it", "chat", "base", "pt", "sft", "dpo", "qat"}
_PACKING = {"hf", "gguf", "mlx", "latest", "meta", "nvidia", "ai21"}
_NOISE = frozenset(_TRAINING | _PACKING)
_QUANT = re.compile(
    r"[-_.:]((ud[-_])?(i?q|tq)\d\w*|bf16|f16|fp16|f32|fp8|mxfp4\w*|nvfp4|awq\w*|gptq\w*|int[48]|\d-?bit)(?=$|[-_.])",
    re.IGNORECASE,
)
_MOST_SHOWN = 8
_LONGEST = 100  # letters of a name that near ones are looked for; finding them takes the square of it


def find_model(word: str) -> WellKnown:
    """The model of that name; UserError where there is none or where several could be meant."""
    for text in _readings(word):
        if found := _by_name().get(_key(text)):
            return _only(found, word)
    for text in _readings(word):
        if found := _by_beginning().get("".join(_words(text))):
            return _only(found, word)
    near = get_close_matches(_key(word)[:_LONGEST], _by_name(), n=3, cutoff=0.6)
    names = dict.fromkeys(well_known()[stem].name for key in near for stem in sorted(_by_name()[key]))
    hint = f"Did you mean {' or '.join(names)}?" if names else "Give a file, or a name such as Qwen3-8B"
    raise UserError(f"there is no model {word!r} in the catalogue", hint)


def _only(stems: set[str], word: str) -> WellKnown:
    if len(stems) == 1:
        return well_known()[min(stems)]
    names = [well_known()[stem].name for stem in sorted(stems)]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    raise UserError(f"{word!r} could be {', '.join(names[:_MOST_SHOWN])}{more}", "Say which one")


def _readings(word: str) -> list[str]:
    """The word as it is, then without what publishers put before and after a model's name."""
    bare = _QUANT.sub("", word.strip().removesuffix(".gguf")).rsplit("/", 1)[-1]
    return list(dict.fromkeys((word, bare, bare.split("_", 1)[-1])))


def _words(text: str) -> list[str]:
    """The words that tell models apart; a version such as 3.1 is one."""
    return [word for word in re.findall(r"[a-z0-9]+(?:\.\d+)*", text.lower()) if word not in _NOISE]


def _key(text: str) -> str:
    """The words with nothing between them: some write 3.1, some 31."""
    return "".join(_words(text)).replace(".", "")


def _all_names() -> Iterator[tuple[str, str]]:
    """Every way to write a model's name, and the model's file name."""
    for stem, model in well_known().items():
        yield from ((name, stem) for name in (stem, *model.names))


@cache
def _by_name() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name, stem in _all_names():
        found[_key(name)].add(stem)
    return dict(found)


@cache
def _by_beginning() -> dict[str, set[str]]:
    """By the first words of a name: a family, or a model without its size."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, stem in _all_names():
        for beginning in accumulate(_words(name)):
            found[beginning].add(stem)
    return dict(found)
