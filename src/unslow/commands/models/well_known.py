"""The well-known model that a user names, and the quant or format in which a runtime would have it."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from unslow.catalog import models
from unslow.catalog.models import WellKnown
from unslow.catalog.quants import Mix, estimated_mix, file_types, find_mix, split_quant
from unslow.catalog.weight_parts import Scheme, Storage, find_scheme, packed_storage, plain_storage
from unslow.commands.models.stored import exists, expand_path
from unslow.facts.errors import UserError
from unslow.look.system import System

DEFAULT_QUANT = "Q4_K_M"
OTHER_HOMES = {"EXL": "ExLlama (TabbyAPI)", "MLX": "MLX-LM on Apple silicon"}
"""Formats that neither vLLM nor Transformers loads, by how their names begin, and who does
(EXL3: https://github.com/vllm-project/vllm/issues/19896)."""
_NARROW, _WIDE = 2, 4
_PLAIN = {
    "BF16": ("BF16", _NARROW), "BFLOAT16": ("BF16", _NARROW), "F16": ("F16", _NARROW), "FP16": ("F16", _NARROW),
    "FLOAT16": ("F16", _NARROW), "F32": ("F32", _WIDE), "FP32": ("F32", _WIDE), "FLOAT32": ("F32", _WIDE),
}  # fmt: skip
"""Each way to write an unpacked type: its name, and the bytes of a number."""
T = TypeVar("T")


class NamedModel(NamedTuple):
    """A model by name."""

    model: WellKnown
    quant: str  # As the name has it; empty where it has none
    stands_for: str = ""  # The name of another model of the same shape, where that one was named

    def notes(self, *how: str) -> tuple[str, ...]:
        """What a reader must know: the model that was computed, how, and what of it is not counted."""
        same = f"{self.stands_for} has the same shape as {self.model.name}; calculated with that"
        reads = self.model.projector
        apart = f"its projector (mmproj), which reads {reads}, is not included; it needs additional memory"
        return (*([same] if self.stands_for else []), *how, *([apart] if reads else []))


class ModelChoice(NamedTuple):
    """A format: a scheme of quantisation, or None for numbers that are not packed."""

    name: str
    scheme: Scheme | None
    plain_bytes: int = _NARROW  # Of a number that is not packed

    @property
    def storage(self) -> Storage:
        return packed_storage(self.scheme) if self.scheme else plain_storage(self.plain_bytes)

    @property
    def packing(self) -> str:
        return self.scheme.packing.name if self.scheme else ""


def find_well_known(system: System, word: str) -> NamedModel:
    """The model that a name means where no file is here; UserError where it means none or several."""
    try:
        model = models.find_model(word)
    except UserError as error:
        if exists(system, expand_path(word)):
            hint = "model files end in .gguf or .safetensors; `unslow models` lists the local ones"
            raise UserError(f"{word}: no model found in that folder", hint) from error
        raise
    _, quant = split_quant(word.rsplit("/", 1)[-1])
    return NamedModel(model, quant, models.same_shape_as(word, model))


def chosen_mix(meant: NamedModel, asked: str | None) -> tuple[Mix, tuple[str, ...]]:
    """The mix that is asked for, that the name carries, that the publisher ships, or the usual one; and a note."""
    if asked:
        mix = mix_named(asked)
        return mix, _overruled_quant_notes(meant, mix.name, _find_or_none(find_mix, meant.quant))
    if meant.quant:
        return mix_named(meant.quant), ()
    if shipped := _find_or_none(find_mix, meant.model.published):
        return shipped, (f"No quant given; assuming {shipped.name}, as published",)
    return find_mix(DEFAULT_QUANT), (f"No quant given; assuming {DEFAULT_QUANT}",)


def mix_named(word: str) -> Mix:
    """The mix, or the nearest one to a publisher's own; a format of other runtimes is refused with their names."""
    if estimate := estimated_mix(word):
        return estimate.mix
    try:
        return find_mix(word)
    except UserError as error:
        if _find_or_none(find_scheme, word) and word.upper() not in {kind.name for kind, _ in file_types().values()}:
            home = next((home for name, home in OTHER_HOMES.items() if word.upper().startswith(name)), "--runtime vllm")
            hint = f"use {home} for that; for llama.cpp choose a GGUF quant: --quant {DEFAULT_QUANT}"
            raise UserError(f"llama.cpp does not load {word.upper()}, a safetensors format", hint) from error
        raise


def chosen_scheme(meant: NamedModel, asked: str | None, runtime: str) -> tuple[ModelChoice, tuple[str, ...]]:
    """What is asked for, what the name carries, or what the publisher ships; and a note."""
    if asked:
        chosen = named_scheme(asked, runtime)
        carried = _find_or_none(lambda word: named_scheme(word, runtime), meant.quant)
        return chosen, _overruled_quant_notes(meant, chosen.name, carried)
    if meant.quant:
        return named_scheme(meant.quant, runtime), ()
    chosen = named_scheme(meant.model.published or "BF16", runtime)
    return chosen, (f"No quant given; assuming {chosen.name}, as published",)


def named_scheme(word: str, runtime: str) -> ModelChoice:
    """The format that a word means; UserError where there is none, or this runtime does not load it."""
    if plain := _PLAIN.get(word.upper()):
        return ModelChoice(plain[0], None, plain[1])
    if _find_or_none(find_mix, word) and not _find_or_none(find_scheme, word):
        hint = "choose a safetensors format such as --quant BF16, FP8, AWQ or GPTQ-Int4, or try --runtime llama_cpp"
        raise UserError(f"{word} is a GGUF quant; this runtime's memory use for those is unknown", hint)
    scheme = find_scheme(word, without=OTHER_HOMES)
    if home := next((home for name, home in OTHER_HOMES.items() if scheme.packing.name.startswith(name)), None):
        hint = "choose a format that it loads, such as --quant FP8, AWQ or GPTQ-Int4"
        raise UserError(f"{runtime} does not load {scheme.packing.name}: use {home} for that", hint)
    several = len(scheme.packing.bits) > 1 or scheme.packing.bits_between != (0, 0)
    name = f"{scheme.packing.name} {scheme.bits:g}-bit" if several else scheme.packing.name
    return ModelChoice(name, scheme)


def _overruled_quant_notes(meant: NamedModel, used: str, carried: "ModelChoice | Mix | None") -> tuple[str, ...]:
    if not meant.quant or (carried and used == carried.name):
        return ()
    return (f"The name says {meant.quant}; using --quant {used}",)


def _find_or_none(find: Callable[[str], T], word: str) -> T | None:
    try:
        return find(word) if word else None
    except UserError:
        return None
