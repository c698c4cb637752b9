"""The well-known model that a word means, however people write it."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import accumulate
from typing import NamedTuple

from unslow.catalog.models import WellKnown, all_names, model_at
from unslow.catalog.quant_in_name import split_quant
from unslow.catalog.unlisted import Unlisted, unlisted
from unslow.facts.errors import UserError

# What says how a model was trained, packed or published, and nothing about its shape.
_TRAINING = {"instruct", "it", "chat", "base", "pt", "sft", "dpo", "qat"}
_PACKING = {"hf", "gguf", "mlx", "latest", "meta", "nvidia", "ai21", "i1", "imatrix", "quantized", "unsloth"}
_NOISE = frozenset(_TRAINING | _PACKING)
_DETAILS = frozenset({"ai", "inst", "thinking", "reasoning", "plus", "exp", "moe", "dense", "world", "terminus"})
_SIZE_OR_DATE = re.compile(r"\b(?:\d+x|a)?\d+(?:\.\d+)?[bmtek]\b|\b\d{2,4}(?= \d{4})|\b\d{3,}\b|c4ai")
_VERSION = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d)?)(?![\d.bmx])")  # of a family; a size ends in b, m or x
_MOST_SHOWN = 12
_LONGEST = 100  # letters of a name that near ones are looked for; finding them takes the square of it


def find_model(word: str) -> WellKnown:
    """The model of that name; UserError where there is none or where several could be meant."""
    readings = _readings(word)
    for index, written in ((_by_name, _key), (_by_beginning, _joined)):
        for text in readings:
            if found := index().get(written(text)):
                return _only(found, word)
    if kind := _kind_unlisted(readings):
        raise UserError(f"{word}: {kind.why}", kind.hint)
    raise _NoSuchModelError(word)


def same_shape_as(word: str, model: WellKnown) -> str:
    """The name by which a word means another model than the entry's own, of the same shape; empty for spellings."""
    keys = {_key(text) for text in _readings(word)}
    named = next((name for name in model.names if _key(name) in keys), "")
    other, own = (_parted(name) for name in (named, model.name))
    newer = bool(own.versions) and not other.versions <= own.versions
    return named if newer or not other.words <= own.words else ""


class _Parted(NamedTuple):
    """What tells a model from others: its words, and its versions; not its size and the date of a release."""

    words: set[str]
    versions: set[float]


def _parted(name: str) -> _Parted:
    bare = _SIZE_OR_DATE.sub(" ", re.sub(r"[-_:/]", " ", name.lower()))
    words = set(re.findall("[a-z]{2,}", bare)) - _NOISE - _DETAILS
    return _Parted(words, {float(number) for number in re.findall(r"\d+(?:\.\d+)?", bare)})


class _NoSuchModelError(UserError):
    """No model has that name. What is like it is looked for when somebody asks: callers that try names drop most."""

    def __init__(self, word: str) -> None:
        Exception.__init__(self, word)  # the message of a UserError is known at once
        self.word = word

    @property
    def message(self) -> str:  # type: ignore[override]  # found when asked for
        """What to say of it."""
        return self._said.message

    @property
    def hint(self) -> str:  # type: ignore[override]
        """What to try."""
        return self._said.hint

    def __str__(self) -> str:
        return self.message

    @cached_property
    def _said(self) -> UserError:
        if (bare := _bare(self.word)) and len(choice := listed(bare)) > 1:
            return _several(choice, self.word)
        return UserError(f"there is no model {self.word[:_LONGEST]!r} in the catalogue", _near(self.word))


def listed(word: str) -> list[WellKnown]:
    """The models in whose name all parts of the word are, a family's newest first and its sizes in order; all for ''.

    Parts of letters may be the beginning of a word (qwen), those with digits are whole (70b).
    """
    wanted = _words(word[:_LONGEST])
    if word.strip() and not wanted:
        return []
    found = [stem for stem, names in _words_of_names().items() if any(_has(words, wanted) for words in names)]
    first = "".join(wanted[:1])
    return sorted(_ordered(found), key=lambda model: not _joined(model.name).startswith(first))


def _has(words: list[str], wanted: list[str]) -> bool:
    return all(any(w == one or (one.isalpha() and w.startswith(one)) for w in words) for one in wanted)


def _ordered(stems: Iterable[str]) -> list[WellKnown]:
    return sorted((model_at(stem) for stem in stems), key=_place)


def _place(model: WellKnown) -> tuple[str, float, list[str], int]:
    """Where a model stands in a list: by family, the newest first, the plain ones first, by size."""
    words = _words(model.name)
    family = re.match("[a-z]*", words[0])
    version = _VERSION.search(model.name.lower())
    kind = [word for word in words[1:] if word.isalpha() and word not in ("b", "m")]
    return family[0] if family else "", -float(version[1]) if version else 0.0, kind, model.parameters


def _only(stems: Iterable[str], word: str) -> WellKnown:
    models = _ordered(stems)
    if len(models) == 1:
        return models[0]
    raise _several(models, word)


def _several(models: list[WellKnown], word: str) -> UserError:
    names = [model.name for model in models]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    hint = f"Say which one; `unslow fit --list {shlex.quote(word)}` shows all" if more else "Say which one"
    return UserError(f"{word!r} could be {', '.join(names[:_MOST_SHOWN])}{more}", hint)


def _near(word: str) -> str:
    near = get_close_matches(_key(_bare(word))[:_LONGEST], _by_name(), n=3, cutoff=0.6)
    names = dict.fromkeys(all_names()[stem][0] for key in near for stem in sorted(_by_name()[key]))
    return f"Did you mean {' or '.join(names)}?" if names else "Give a file, or a name such as Qwen3-8B"


def _kind_unlisted(readings: list[str]) -> Unlisted | None:
    keys = [key for text in readings if (key := _key(text))]
    return next((k for k in unlisted() for name in k.names if any(key.startswith(_key(name)) for key in keys)), None)


def _readings(word: str) -> list[str]:
    """The word as it is, then without what publishers put before and after a model's name."""
    bare = _bare(word)
    return list(dict.fromkeys((word, bare, bare.split("_", 1)[-1])))


def _bare(word: str) -> str:
    """Without publisher, quant and the ending of a file."""
    return split_quant(word.strip().removesuffix(".gguf").removesuffix(".safetensors").rsplit("/", 1)[-1])[0]


def _words(text: str) -> list[str]:
    """The words that tell models apart; a version such as 3.1 is one."""
    return [word for word in re.findall(r"[a-z0-9]+(?:\.\d+)*", text.lower()) if word not in _NOISE]


def _joined(text: str) -> str:
    return "".join(_words(text))


def _key(text: str) -> str:
    """The words with nothing between them: some write 3.1, some 31."""
    return _joined(text).replace(".", "")


@cache
def _words_of_names() -> dict[str, list[list[str]]]:
    """The words of every name of every model, by its file name."""
    return {stem: [_words(name) for name in names] for stem, names in all_names().items()}


@cache
def _by_name() -> dict[str, set[str]]:
    """The models' file names by every way to write their names."""
    found: dict[str, set[str]] = defaultdict(set)
    for stem, names in all_names().items():
        for name in (stem, *names):
            found[_key(name)].add(stem)
    return dict(found)


@cache
def _by_beginning() -> dict[str, set[str]]:
    """By the first words of a name: a family, or a model without its size."""
    found: dict[str, set[str]] = defaultdict(set)
    for stem, names in all_names().items():
        for name in (stem, *names):
            for beginning in accumulate(_words(name)):
                found[beginning].add(stem)
    return dict(found)
