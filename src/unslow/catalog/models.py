"""Well-known models: the numbers that their tensors and their memory follow from.

And the words that people use for them.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

import msgspec

from unslow.catalog import entries, entry, texts
from unslow.catalog.quants import split_quant
from unslow.facts.errors import UserError

PerLayer = int | list[int]
"""One number for all layers, or a list with one for each layer that is repeated where it is shorter."""
_NAMES = re.compile(r"names = \[([^\]]*)\]")
_QUOTED = re.compile(r'"([^"]*)"')


# What says how a model was trained, packed or published, and nothing about its shape.
_TRAINING = {"instruct", "it", "chat", "base", "pt", "sft", "dpo", "qat"}
_PACKING = {"hf", "gguf", "mlx", "latest", "meta", "nvidia", "ai21", "i1", "imatrix", "quantized", "unsloth"}
_NOISE = frozenset(_TRAINING | _PACKING)
_DETAILS = frozenset({"ai", "inst", "thinking", "reasoning", "plus", "exp", "moe", "dense", "world", "terminus"})
_SIZE_OR_DATE = re.compile(r"\b(?:\d+x|a)?\d+(?:\.\d+)?[bmtek]\b|\b\d{2,4}(?= \d{4})|\b\d{3,}\b|c4ai")
_VERSION = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d)?)(?![\d.bmx])")  # of a family; a size ends in b, m or x
_MOST_SHOWN = 12
_LONGEST = 100  # letters of a name that near ones are looked for; finding them takes the square of it


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The numbers of a model by the names that the layouts use; None is what the model does not have."""

    layers: int  # As GGUF counts them: with the layers that guess further tokens, where its files keep them
    width: int  # The length of the hidden state
    vocabulary: int  # As padded in the files
    context_trained: int
    context_original: int | None = None  # Before position scaling
    tied: bool | None = None  # Whether the token table is the output matrix too

    heads: PerLayer | None = None
    kv_heads: PerLayer | None = None  # 0 in layers that attend to nothing; like `heads` where it is not stated
    key_length: int | None = None  # Of one head; the width shared among the heads where it is not stated
    value_length: int | None = None  # Like the key's where it is not stated
    rope_dimensions: int | None = None  # How many numbers of a head are rotated by position; all where it is not stated
    rope_frequencies: bool | None = None
    """Whether the file has a tensor of factors for the frequencies (Llama 3.1 and later)."""
    rope_factors: bool | None = None  # Whether it has two, for short and for long contexts (Phi-3, 128K)
    attention_bias: bool | None = None  # Whether queries, keys and values have biases
    head_norms: bool | None = None
    parallel: bool | None = None  # Whether attention and feed-forward run in parallel (StableLM 2 12B)

    window: int | None = None  # How far back windowed layers see, in tokens
    windowed: list[int] | None = None
    """1 for a windowed layer, 0 for a full one; where it is not stated, the architecture's own rhythm."""
    key_length_window: int | None = None
    keys_are_values: bool | None = None  # Whether full layers take their keys as values (Gemma 4)
    shared_kv_layers: int | None = None  # How many of the last layers use the cache of earlier ones
    per_layer_width: int | None = None  # Of the token table that each layer has a slice of (Gemma 3n and 4)

    feed_forward: PerLayer | None = None
    experts: int | None = None
    experts_used: int | None = None
    experts_shared: int | None = None
    expert_width: int | None = None  # The feed-forward length of one expert; `feed_forward` where it is not stated
    shared_width: int | None = None
    """Of all shared experts together; as many expert widths as there are where it is not stated."""
    expert_step: int | None = None  # One in this many layers has experts
    expert_bias: bool | None = None  # Whether the router's choice has a bias
    expert_norm: bool | None = None
    """Whether the weights of the chosen experts are made to add up to one, where the architecture leaves it open."""
    expert_scale: float | None = None  # What those weights are multiplied with
    expert_groups: int | None = None  # Experts are chosen from the best groups first (DeepSeek-V3)
    expert_groups_used: int | None = None
    leading_dense: int | None = None  # How many of the first layers have no experts
    latent_width: int | None = None  # Of the smaller space that experts work in (Nemotron 3)
    guessing_layers: int | None = None  # Layers at the end that only guess the tokens after the next one
    guessing_tables: bool | None = None  # Whether those have a token table and an output matrix of their own

    query_rank: int | None = None
    kv_rank: int | None = None  # The length of the latent that keys and values are made from (DeepSeek)
    latent_key_length: int | None = None
    latent_value_length: int | None = None
    index_heads: int | None = None  # Of the small attention that picks which positions to attend to (DeepSeek-V3.2)
    index_length: int | None = None
    index_picked: int | None = None

    attention_interval: int | None = None  # One in this many layers attends, the others are recurrent (Qwen3-Next)
    convolution: int | None = None  # The length of the short convolution
    inner: int | None = None
    state: int | None = None
    time_steps: int | None = None  # The time step's rank in Mamba, the number of heads in its successors
    state_groups: int | None = None
    state_norm: bool | None = None
    linear_length: int | None = None  # Of a head of delta attention (Kimi Linear)

    head_size: int | None = None  # Of RWKV, as are the ranks that follow
    time_mix_rank: int | None = None
    decay_rank: int | None = None
    learning_rank: int | None = None
    value_rank: int | None = None
    gate_rank: int | None = None


class WellKnown(msgspec.Struct, frozen=True, kw_only=True):
    """A model that people know by name."""

    names: tuple[str, ...]  # The usual one first; then how else people write it
    architecture: str  # The name that GGUF has for it
    parameters: int  # As published, or as llama.cpp counts a file's; of the language model alone
    source: str  # Where the numbers are published
    checked: str = ""  # What they were compared with here; empty where only the number of parameters vouches for them
    published: str = ""
    """The format in which its publisher ships the weights, where that is not plain 16 bits: MXFP4, FP8 block."""
    projector: str = ""
    """What a part beside the language model reads, which is not counted here: images, images and sound."""
    shape: Shape

    @property
    def name(self) -> str:
        return self.names[0]


class UnlistedFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Models of one kind, by how their names begin."""

    names: tuple[str, ...]
    why: str  # What they are, and why nothing can be said of their memory by name
    hint: str


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: whole, or like another one but for what it states; how it is published it states itself."""

    names: tuple[str, ...]
    source: str
    parameters: int = 0
    checked: str = ""
    published: str = ""
    projector: str = ""
    architecture: str = ""
    like: str = ""
    shape: dict[str, Any] = {}


def find_model(word: str) -> WellKnown:
    """The model of that name; UserError where there is none or where several could be meant."""
    readings = _readings(word)
    for beginnings, written in ((False, _key), (True, _join_words)):
        for text in readings:
            if found := _stems_by_key(beginnings=beginnings).get(written(text)):
                models = _sort_models(found)
                if len(models) == 1:
                    return models[0]
                raise _several(models, word)
    keys = [key for text in readings if (key := _key(text))]
    for kind in entries("unlisted", UnlistedFamily).values():
        if any(key.startswith(_key(name)) for name in kind.names for key in keys):
            raise UserError(f"{word}: {kind.why}", kind.hint)
    raise _NoSuchModelError(word)


def same_shape_as(word: str, model: WellKnown) -> str:
    """The name by which a word means another model than the entry's own, of the same shape; empty for spellings."""
    keys = {_key(text) for text in _readings(word)}
    named = next((name for name in model.names if _key(name) in keys), "")
    (words, versions), (own_words, own_versions) = (_words_and_versions(name) for name in (named, model.name))
    newer = bool(own_versions) and not versions <= own_versions
    return named if newer or not words <= own_words else ""


def _words_and_versions(name: str) -> tuple[set[str], set[float]]:
    """What tells a model from others: its words, and its versions; not its size and the date of a release."""
    bare = _SIZE_OR_DATE.sub(" ", re.sub(r"[-_:/]", " ", name.lower()))
    words = set(re.findall("[a-z]{2,}", bare)) - _NOISE - _DETAILS
    return words, {float(number) for number in re.findall(r"\d+(?:\.\d+)?", bare)}


def listed_models(word: str) -> list[WellKnown]:
    """The models in whose name all parts of the word are, a family's newest first and its sizes in order; all for ''.

    Parts of letters may be the beginning of a word (qwen), those with digits are whole (70b).
    """
    wanted = _words(word[:_LONGEST])
    if word.strip() and not wanted:
        return []

    def is_meant(name: str) -> bool:
        words = _words(name)
        return all(any(w == one or (one.isalpha() and w.startswith(one)) for w in words) for one in wanted)

    found = [stem for stem, names in all_names().items() if any(map(is_meant, names))]
    first = "".join(wanted[:1])
    return sorted(_sort_models(found), key=lambda model: not _join_words(model.name).startswith(first))


def _sort_models(stems: Iterable[str]) -> list[WellKnown]:
    """By family, the newest first, the plain ones first, by size."""

    def place(model: WellKnown) -> tuple[str, float, list[str], int]:
        words = _words(model.name)
        family = re.match("[a-z]*", words[0])
        version = _VERSION.search(model.name.lower())
        kind = [word for word in words[1:] if word.isalpha() and word not in ("b", "m")]
        return family[0] if family else "", -float(version[1]) if version else 0.0, kind, model.parameters

    return sorted(map(model_at, stems), key=place)


class _NoSuchModelError(UserError):
    """No model has that name. Similar names are looked up only when shown: callers that try names drop most."""

    def __init__(self, word: str) -> None:
        Exception.__init__(self, word)  # the message of a UserError is known at once
        self.word = word

    @property
    def message(self) -> str:  # type: ignore[override]  # found when asked for
        return self._user_error.message

    @property
    def hint(self) -> str:  # type: ignore[override]
        return self._user_error.hint

    def __str__(self) -> str:
        return self.message

    @cached_property
    def _user_error(self) -> UserError:
        if (bare := _bare(self.word)) and len(choice := listed_models(bare)) > 1:
            return _several(choice, self.word)
        known = _stems_by_key(beginnings=False)
        near = get_close_matches(_key(bare)[:_LONGEST], known, n=3, cutoff=0.6)
        names = dict.fromkeys(all_names()[stem][0] for key in near for stem in sorted(known[key]))
        hint = f"did you mean {' or '.join(names)}?" if names else "give a file, or a name such as Qwen3-8B"
        return UserError(f"no model {self.word[:_LONGEST]!r} in the catalog", hint)


def _several(models: list[WellKnown], word: str) -> UserError:
    names = [model.name for model in models]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    hint = f"say which one; `unslow fit --list {shlex.quote(word)}` shows all" if more else "say which one"
    return UserError(f"{word!r} could be {', '.join(names[:_MOST_SHOWN])}{more}", hint)


def _readings(word: str) -> list[str]:
    """The word as it is, then without what publishers put before and after a model's name."""
    bare = _bare(word)
    return list(dict.fromkeys((word, bare, bare.split("_", 1)[-1])))


def _bare(word: str) -> str:
    return split_quant(word.strip().removesuffix(".gguf").removesuffix(".safetensors").rsplit("/", 1)[-1])[0]


def _words(text: str) -> list[str]:
    """The words that tell models apart; a version such as 3.1 is one."""
    return [word for word in re.findall(r"[a-z0-9]+(?:\.\d+)*", text.lower()) if word not in _NOISE]


def _join_words(text: str) -> str:
    return "".join(_words(text))


def _key(text: str) -> str:
    """The words with nothing between them: some write 3.1, some 31."""
    return _join_words(text).replace(".", "")


@cache
def _stems_by_key(*, beginnings: bool) -> dict[str, set[str]]:
    """The files of models by every name of theirs, or by every beginning of one."""
    found: dict[str, set[str]] = defaultdict(set)
    for stem, names in all_names().items():
        for name in (stem, *names):
            for key in accumulate(_words(name)) if beginnings else (_key(name),):
                found[key].add(stem)
    return dict(found)


@cache
def all_names() -> dict[str, tuple[str, ...]]:
    """The names of every model by its file name; they stand first in a file, and the numbers are not read for them."""
    found = {stem: _NAMES.match(text) for stem, text in texts("models").items()}
    return {stem: tuple(_QUOTED.findall(match[1])) for stem, match in found.items() if match}


@cache
def well_known() -> dict[str, WellKnown]:
    """Every model by its file name."""
    return {stem: model_at(stem) for stem in texts("models")}


@cache
def model_at(stem: str) -> WellKnown:
    """The model of a file name."""
    one = entry("models", stem, _Entry)
    return _complete_entry(one, entry("models", one.like, _Entry) if one.like else one)


def _complete_entry(one: _Entry, base: _Entry) -> WellKnown:
    return WellKnown(
        names=one.names,
        architecture=one.architecture or base.architecture,
        parameters=one.parameters or base.parameters,
        source=one.source,
        checked=one.checked,
        published=one.published,
        projector=one.projector,
        shape=msgspec.convert({**base.shape, **one.shape}, Shape),
    )
