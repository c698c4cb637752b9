"""The model that a user means: a file, a folder of safetensors, an address, or one that only the catalog knows."""

import math
import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from unslow.catalog.models import find_model as find_known
from unslow.catalog.quants import EstimatedMix, estimated_mix, quants, split_quant
from unslow.catalog.weight_parts import Part, parts_of_shape, parts_of_tensors, plain_storage, total_bytes
from unslow.commands.models import well_known
from unslow.commands.models.stored import exists, expand_path, find_model, is_folder, obstacle
from unslow.facts.errors import UserError
from unslow.facts.model import Blueprint, HfShape, Tensor
from unslow.facts.stored_model import StoredModel
from unslow.look.models.gguf import Gguf, blueprint, model_facts, read_gguf, read_gguf_pipe, read_gguf_url
from unslow.look.models.hf_config import Config, hf_shape, named_quant, shape_of_config
from unslow.look.models.safetensors import read_checkpoint, read_config_alone
from unslow.look.system import LookError, System
from unslow.show.units import size
from unslow.think.blueprints import made_up, shape_of_blueprint
from unslow.think.quantise import types_of

CATALOGUE = "catalogue"  # The source of a model of which no file was read
OLLAMA = "Ollama"
_FILE_HINT = "give a GGUF file, or a name listed by `unslow models`"
_WEB_HINT = "check the URL and the connection; a local file needs no URL"
_WIDE = 4  # Bytes of a number in float32
_TAGGED = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96}){0,3}:[\w.-]{1,96}")  # A name with a tag, as Ollama has them


class FoundShape(NamedTuple):
    """A model by its numbers and the sizes of its weights."""

    name: str
    architecture: str
    shape: HfShape
    parts: list[Part]
    quant: str
    packing: str
    source: str
    parameters: int
    dtype_bytes: int = 2
    notes: tuple[str, ...] = ()
    stands_for: str = ""  # The model that was named, where this one was computed because it has the same shape
    checkpoint: str = "MODEL"
    """What a runtime is told to load: a folder, or a word that stands for a model in this format."""

    def loaded_by_vllm(self) -> "FoundShape":
        """As vLLM loads it by itself: float32 as 16 bits (`--dtype auto`)."""
        if self.dtype_bytes != _WIDE or self.packing:
            return self
        return self._replace(parts=[part._replace(bytes=part.bytes // 2) for part in self.parts], dtype_bytes=2)


class FoundModel(NamedTuple):
    """A model down to its tensors, and where that is known from."""

    name: str
    blueprint: Blueprint
    quant: str
    source: str
    parameters: int
    notes: tuple[str, ...] = ()
    incomplete: str = ""
    """Why it would not load as it is; empty for a whole file, and for a header that is a header on purpose."""
    requantised: bool = False  # Whether it is in another quant than the file that it was read from
    estimate: EstimatedMix | None = None  # Where the sizes of its tensors are those of the nearest mix
    stands_for: str = ""  # The model that was named, where this one was computed because it has the same shape
    tool: str = ""  # Whose store it is in, which then has the name for it; empty of a file by its path
    settings: Mapping[str, Any] = {}  # What the store has set for it, such as `num_ctx`
    shape: FoundShape | None = None  # As engines that load safetensors have it; its blueprint then has no tensors

    @property
    def weights_bytes(self) -> int:
        """All weights together."""
        return total_bytes(self.shape.parts) if self.shape else self.blueprint.weights_bytes

    def name_in_ollama(self, word: str) -> str:
        """What Ollama calls it: by its store, or by a tag that the user typed; empty where neither tells."""
        if self.requantised:
            return ""
        if self.tool == OLLAMA:
            return self.name
        return word if self.source == CATALOGUE and _TAGGED.fullmatch(word) else ""


def find_gguf_model(system: System, word: str, quant: str | None) -> FoundModel:
    """A model as llama.cpp would load it; UserError where the word means none or several."""
    word = model_of_address(word)
    if word == "-":
        found: FoundModel | None = _read(lambda: read_gguf_pipe(system), "standard input", _FILE_HINT)
    elif is_address(word):
        found = _read(lambda: read_gguf_url(system, word), word, _WEB_HINT)
    else:
        found = _on_this_machine(system, word)
    if not found:
        meant = well_known.find_well_known(system, word)
        model, (chosen, why) = meant.model, well_known.chosen_mix(meant, quant)
        how = f"No file read; tensors from {model.source}, types as llama-quantize chooses them"
        notes = meant.notes(*why, how)
        made = FoundModel(model.name, made_up(model, chosen.name), chosen.name, CATALOGUE, model.parameters, notes)
        return _with_estimated_sizes(made._replace(stands_for=meant.stands_for), quant or meant.quant)
    mix = well_known.mix_named(quant).name if quant else found.quant
    if found.quant in (mix, (quant or "").upper()):
        return found
    estimate = estimated_mix(quant or "")
    note = f"The file is {found.quant}; these are the numbers for {estimate.word if estimate else mix}"
    plan, notes = as_quant(found.blueprint, mix), (*found.notes, note)
    other = found._replace(blueprint=plan, quant=mix, notes=notes, requantised=True)
    return _with_estimated_sizes(other, quant or "")


def _on_this_machine(system: System, word: str) -> FoundModel | None:
    path = expand_path(word)
    is_file = "\0" not in word and not is_folder(system, path) and exists(system, path)
    # what stands in the way of reading one is told where models are looked for
    if is_file and not obstacle(system, path) and not path.endswith(".safetensors"):
        return _read(lambda: read_gguf(system, path), path, _FILE_HINT)
    tool, _, name = word.partition(":")
    in_ollama = name if tool.lower() == "ollama" else ""  # ollama:NAME, as other programs write it
    stored = find_model(system, in_ollama or word)
    if in_ollama and stored is None:
        raise UserError(f"Ollama has no model {in_ollama} on this machine", _FILE_HINT)
    if not stored:
        return None
    if stored.format != "gguf":
        hint = "try --runtime transformers, --runtime vllm, or the model name with --quant"
        raise UserError(f"{stored.name} is in safetensors format, which llama.cpp does not load", hint)
    found = _read(lambda: read_gguf(system, stored.path), stored.path, _FILE_HINT)
    extras = [f"{len(stored.projectors)} projector(s)"] * bool(stored.projectors)
    extras += [f"{len(stored.adapters)} adapter(s)"] * bool(stored.adapters)
    without = (f"without its {' and '.join(extras)}, which need additional memory",) if extras else ()
    notes = (*found.notes, *without)
    return found._replace(name=one_line(stored.name), notes=notes, tool=stored.tool, settings=stored.settings)


def _read(read: Callable[[], Gguf], source: str, hint: str) -> FoundModel:
    try:
        gguf = read()
        facts, plan = model_facts(gguf, source), blueprint(gguf)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or hint) from error
    missing, incomplete = gguf.missing_bytes, ""
    notes: tuple[str, ...] = ()
    if missing >= gguf.tensors.bytes and missing:  # one that ends before its first tensor is a header on purpose
        notes = ("only the header was read, which is enough to calculate memory",)
    elif missing:
        incomplete = f"{size(max(missing, 2**20))} are missing: the download is incomplete and will not load"
        notes = (incomplete,)
    return FoundModel(
        name=model_title(facts.name.value_or(""), source),
        blueprint=plan,
        quant=facts.quant.value_or("?"),
        source=source,
        parameters=facts.parameters.value_or(0),
        notes=notes,
        incomplete=incomplete,
    )


def _with_estimated_sizes(found: FoundModel, quant: str) -> FoundModel:
    """The model with sizes by the nearest mix, where the quant is none that follows from its name."""
    estimate = estimated_mix(quant)
    if estimate is None:
        return found
    tensors = [t._replace(bytes=int(t.bytes * estimate.factor)) for t in found.blueprint.tensors]
    scaled = msgspec.structs.replace(found.blueprint, tensors=tensors, file_bytes=0)
    return found._replace(blueprint=scaled, quant=estimate.word, estimate=estimate, notes=(estimate.note, *found.notes))


def as_quant(plan: Blueprint, quant: str) -> Blueprint:
    """A model with the types that llama-quantize would give its tensors."""
    named = [(t.name, t.shape) for t in plan.tensors]
    types = types_of(plan.architecture, plan.metadata, named, quant)
    tensors = [
        Tensor(name, kind, shape, quants()[kind].bytes_of(shape[0]) * math.prod(shape[1:]))
        for (name, shape), kind in zip(named, types, strict=True)
    ]
    return msgspec.structs.replace(plan, tensors=tensors, file_bytes=0)


def find_shape(system: System, word: str, quant: str | None, runtime: str = "vllm") -> FoundShape:
    """The model; UserError where the word means none, or a file or a format of another runtime."""
    word = model_of_address(word)
    if word == "-" or is_address(word):
        hint = "give a folder with safetensors, or the model name"
        why = "only GGUF files can be read from there, and this runtime's memory use for those is unknown"
        raise UserError(f"{word}: {why}", hint)
    if config := read_config_alone(system, expand_path(word)):
        return _from_config(expand_path(word), config, quant, runtime)
    stored = find_model(system, word)
    if stored is None:
        return _shape_from_catalogue(well_known.find_well_known(system, word), quant, runtime)
    if stored.format == "gguf":
        hint = "give a folder with safetensors, or the model name"
        raise UserError(f"{stored.name} is a GGUF file; this runtime's memory use for those is unknown", hint)
    return _from_files(system, stored)


def _from_config(folder: str, config: Config, quant: str | None, runtime: str) -> FoundShape:
    """A model whose weights are counted from the numbers of its config, in the type that it names."""
    shape = _shape_of(folder, config)
    own = well_known.named_scheme(named_quant(config), runtime)
    chosen = well_known.named_scheme(quant, runtime) if quant else own
    return FoundShape(
        name=one_line(folder.rstrip("/").rpartition("/")[2]),
        architecture=str(config.get("model_type", "")),
        shape=shape,
        parts=parts_of_shape(shape, chosen.storage),
        quant=chosen.name,
        packing=chosen.packing,
        source=folder,
        parameters=total_bytes(parts_of_shape(shape, plain_storage(1))),
        dtype_bytes=chosen.plain_bytes,
        checkpoint=folder if chosen.scheme == own.scheme else f"MODEL-{quant}",
        notes=("No safetensors in the folder; weight sizes calculated from config.json",),
    )


def _shape_of(name: str, config: Config) -> HfShape:
    try:
        shape = shape_of_config(hf_shape(config))
    except LookError as error:
        raise UserError(error.why, error.how_to_get) from error
    if not shape.layers or not shape.width or not shape.heads:
        raise UserError(f"the config of {name} does not give layers and heads", "is it a language model?")
    return shape


def _from_files(system: System, stored: StoredModel) -> FoundShape:
    try:
        checkpoint = read_checkpoint(system, stored.path)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or "give a folder with config.json and safetensors") from error
    if not checkpoint.config:
        raise UserError(f"{stored.name} has no config.json", "the model's shape is in it; give the folder that has it")
    shape = _shape_of(stored.name, checkpoint.config)
    return FoundShape(
        name=one_line(stored.name),
        architecture=stored.architecture or "",
        shape=shape,
        parts=parts_of_tensors(checkpoint.tensors, shape.layers),
        quant=stored.quant or "?",
        packing=checkpoint.quantization.method if checkpoint.quantization else "",
        source=stored.path,
        parameters=stored.parameters or 0,
        dtype_bytes=_WIDE if next(iter(checkpoint.type_bytes), "") == "F32" else 2,
        checkpoint=stored.path,
    )


def _shape_from_catalogue(meant: well_known.NamedModel, asked: str | None, runtime: str = "vllm") -> FoundShape:
    model = meant.model
    chosen, why = well_known.chosen_scheme(meant, asked, runtime)
    published = well_known.named_scheme(model.published or "BF16", runtime)
    shape = shape_of_blueprint(made_up(model, "F16"))
    return FoundShape(
        name=model.name,
        architecture=model.architecture,
        shape=shape,
        parts=parts_of_shape(shape, chosen.storage),
        quant=chosen.name,
        packing=chosen.packing,
        source="catalogue",
        parameters=model.parameters,
        dtype_bytes=chosen.plain_bytes,
        stands_for=meant.stands_for,
        checkpoint="MODEL" if chosen.scheme == published.scheme else f"MODEL-{asked or meant.quant}",
        notes=meant.notes(*why, f"No file read; numbers from {model.source}"),
    )


def shape_by_name(word: str, quant: str) -> FoundShape | None:
    """A well-known model by a name alone, where its machine is not this one; None where nobody knows it."""
    try:
        model = find_known(word)
        _, carried = split_quant(word.rsplit("/", 1)[-1])
        return _shape_from_catalogue(well_known.NamedModel(model, carried), None if carried else quant or None)
    except UserError:
        return None


_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_NAMES = ("hf", "huggingface", "ollama")  # Schemes with which some tools name a model that they fetch
_HUB_PAGE = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([^/?#]+/[^/?#]+)(?:/tree/[^?#]*)?/?(?:[?#].*)?")
_HUB_FILE = re.compile(r"(https?://(?:www\.)?(?:huggingface\.co|hf\.co)/[^/?#]+/[^/?#]+)/blob/([^?#]+)")
_OLLAMA_PAGE = re.compile(r"https?://(?:www\.)?ollama\.com/(?:library/)?([^?#]+?)/?(?:[?#].*)?")


def model_of_address(word: str) -> str:
    """The name that a page is about, and any other word as it is; UserError for addresses of nothing to be read."""
    scheme = _SCHEME.match(word)
    if not scheme:
        return word
    if scheme[1].lower() in _NAMES:
        return word[scheme.end() :]
    if not is_address(word):
        hint = "give an https:// URL, a file, or a name such as Qwen3-8B"
        raise UserError(f"{word}: cannot read models over {scheme[1]}://", hint)
    if page := _HUB_FILE.match(word):
        raise UserError(f"{word}: this is a web page about the file, not the file", f"give {page[1]}/resolve/{page[2]}")
    about = _HUB_PAGE.fullmatch(word) or _OLLAMA_PAGE.fullmatch(word)
    return about[1] if about else word


def is_address(word: str) -> bool:
    """Whether a word is a web address."""
    return word.lower().startswith(("http://", "https://"))


_LONGEST = 80
_LIKE = 0.5
_MEANINGLESS = re.compile(r"sha256[-_:]?[0-9a-f]{12,}|[0-9a-f]{32,}|(?:ggml-)?model(?:[-_.].*)?|standard input|")
_PART = re.compile(r"-\d{5}-of-\d{5}$")


def model_title(stated: str, source: str) -> str:
    """One line: the name in the header where the file's name is like it or tells nothing, else the file's."""
    path = unquote(urlsplit(source).path) if source.lower().startswith(("http://", "https://")) else source
    name = PurePosixPath(path).name
    ending = re.search(r"\.(?:gguf|safetensors|bin)(?:[-.]\w+)?$", name, re.IGNORECASE)
    stated, stem = one_line(stated), one_line(_PART.sub("", name[: ending.start()] if ending else name))
    one, other = (re.sub(r"[^a-z0-9]", "", text.lower()) for text in (stated, stem))
    alike = one and other and (one in other or other in one or SequenceMatcher(None, one, other).ratio() > _LIKE)
    if stated and (alike or _MEANINGLESS.fullmatch(stem.lower())):
        return stated
    return stem or stated or "a model"


def one_line(text: str) -> str:
    """Text without line breaks and what else is not to be seen, and not longer than a line."""
    seen = "".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST])
    short = " ".join(seen.split())
    return short if len(short) <= _LONGEST else short[: _LONGEST - 1] + "…"
