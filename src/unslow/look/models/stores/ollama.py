"""Ollama's store: `manifests/host/namespace/model/tag` names the blobs that make up a model."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec

from unslow.facts.stored_model import Kind, StoredFile, StoredModel
from unslow.look.models.hf_config import Config, parse_config
from unslow.look.models.stores import Surroundings
from unslow.look.models.stores._folders import Contents, Leaf, read_tree, tree_notices
from unslow.look.system import LookError, System, read_text, try_look

MOST_MANIFEST_BYTES = 4 * 1024**2  # a model in MLX's format has one layer for each tensor
_MEDIA = "application/vnd.ollama.image."
_DIGEST = re.compile(r"sha256[:-]([0-9a-fA-F]{64})")
_HOST, _NAMESPACE = "registry.ollama.ai", "library"
_STEPS = 4  # host, namespace, model, tag
_UNITS = "/etc/systemd/system"
_SET = re.compile(r"^\s*Environment=(.*)$", re.MULTILINE)
_SMALL_UNIT = 65536
TOOL = "Ollama"
SERVICE_PLACE = "/usr/share/ollama/.ollama/models"  # the installer's user has its home in /usr/share/ollama
MOST_MANIFESTS = 5000
_WEIGHTS = ("model", "tensor", "projector", "adapter", "draft")
_SMALL_CONFIG = 1024**2


class Layer(msgspec.Struct, frozen=True):
    """One blob, and what it is."""

    digest: str
    size: Annotated[int, msgspec.Meta(ge=0, le=2**60)] = 0
    media_type: str = msgspec.field(name="mediaType", default="")
    name: str = ""

    @property
    def blob(self) -> str:
        """The name of its file; empty where the digest is none."""
        match = _DIGEST.fullmatch(self.digest)
        return f"sha256-{match[1]}" if match else ""


class Manifest(msgspec.Struct, frozen=True):
    """A model as a list of blobs."""

    layers: list[Layer]
    config: Layer | None = None

    def of(self, *roles: str) -> list[Layer]:
        """The blobs with these roles: model, projector, adapter, draft, tensor, params, template, system, json ..."""
        return [layer for layer in self.layers if layer.media_type.removeprefix(_MEDIA) in roles]


def places(system: System, around: Surroundings) -> list[str]:
    """Where the variable says, where a server says, and the usual places of a user and of the service."""
    usual = (f"{around.home}/.ollama/models", SERVICE_PLACE)
    return [place for place in (around.variable("OLLAMA_MODELS"), *served_places(system), *usual) if place]


def claims(names: Sequence[str]) -> bool:
    """Whether a folder with these names in it is such a store."""
    return {"manifests", "blobs"} <= set(names)


def find(system: System, place: str) -> Contents:
    """The models that the store has manifests for."""
    if not claims(system.list_dir(place)):
        raise LookError(f"{place}: has no manifests")
    tree = read_tree(system, f"{place}/manifests")
    blobs = read_tree(system, f"{place}/blobs", deepest=0)
    store = _Store(system, place, {leaf.path: leaf for leaf in blobs.leaves})
    manifests = [leaf for leaf in tree.leaves if parse_name(leaf.path)]
    models = [store.model(leaf) for leaf in manifests[:MOST_MANIFESTS]]
    notices = tree_notices(place, tree) + store.left_over()
    if len(manifests) > MOST_MANIFESTS:
        notices.append(f"{place} has {len(manifests)} models; {MOST_MANIFESTS} were read")
    return Contents(models, notices)


class _Store:
    def __init__(self, system: System, place: str, blobs: dict[str, Leaf]) -> None:
        self._system, self._place, self._blobs = system, place, blobs
        self._used: set[str] = set()

    def model(self, leaf: Leaf) -> StoredModel:
        name, path = parse_name(leaf.path), f"{self._place}/manifests/{leaf.path}"
        try:
            manifest = msgspec.json.decode(self._system.read_bytes(path, MOST_MANIFEST_BYTES), type=Manifest)
        except (LookError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            why = error.why if isinstance(error, LookError) else f"its manifest can't be read: {str(error)[:80]}"
            return StoredModel(name=name, tool=TOOL, path=path, place=self._place, broken=why)
        self._used |= {layer.blob for layer in (*manifest.layers, *filter(None, [manifest.config]))}
        weights, main = manifest.of(*_WEIGHTS), manifest.of("model", "tensor")
        config = self._json([manifest.config] if manifest.config else [])
        remote = bool(config.get("remote_host")) and not main
        tensors = bool(manifest.of("tensor"))
        return StoredModel(
            name=name,
            tool=TOOL,
            kind=Kind.REMOTE if remote else Kind.MODEL,
            format="" if remote else "safetensors" if tensors else "gguf",
            path=path if tensors or not main else self._path(main[0]),
            place=self._place,
            size_bytes=sum(max(0, self._bytes(layer)) for layer in weights),
            files=tuple(
                StoredFile(self._path(layer), max(0, self._bytes(layer)), self._blobs[layer.blob].inode)
                for layer in weights
                if layer.blob in self._blobs
            ),
            projectors=tuple(self._path(layer) for layer in manifest.of("projector")),
            adapters=tuple(self._path(layer) for layer in manifest.of("adapter")),
            drafts=tuple(self._path(layer) for layer in manifest.of("draft")),
            config=next((self._path(layer) for layer in manifest.of("json") if layer.name == "config.json"), ""),
            settings=self._json(manifest.of("params")),
            modified_at=leaf.modified_at,
            broken="" if remote else self._fault(weights, main),
        )

    def left_over(self) -> list[str]:
        """What no manifest speaks of: downloads that broke off, and models that were replaced."""
        left = [leaf for name, leaf in self._blobs.items() if name.startswith("sha256-") and name not in self._used]
        size = sum(leaf.bytes for leaf in left)
        return [f"{self._place}: {size} bytes are in blobs that belong to no model"] if left else []

    def _path(self, layer: Layer) -> str:
        return f"{self._place}/blobs/{layer.blob}"

    def _bytes(self, layer: Layer) -> int:
        leaf = self._blobs.get(layer.blob)
        return leaf.bytes if leaf else -1

    def _fault(self, weights: Sequence[Layer], main: Sequence[Layer]) -> str:
        if not main:
            return "its manifest names no model"
        for layer in weights:
            short, there = layer.blob[:19] or layer.digest[:40], self._bytes(layer)
            if there < 0:
                return f"its blob {short} is missing"
            if there != layer.size:
                return f"its blob {short} has {there} bytes instead of {layer.size}"
        return ""

    def _json(self, layers: Sequence[Layer]) -> Config:
        read = self._system.read_bytes
        return try_look({}, lambda: parse_config(read(self._path(layers[0]), _SMALL_CONFIG), "")) if layers else {}


def parse_name(path: str) -> str:
    """The name that Ollama shows for a manifest at `host/namespace/model/tag`; empty where that is not such a path."""
    steps = path.split("/")
    if len(steps) != _STEPS or steps[3].startswith("."):
        return ""
    host, namespace, model, tag = steps
    if host != _HOST:
        return f"{host}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace == _NAMESPACE else f"{namespace}/{model}:{tag}"


def served_places(system: System) -> list[str]:
    """The folders of models of Ollama's servers, as far as they can be told."""
    folder = f"{_UNITS}/ollama.service.d"
    extra = [f"{folder}/{name}" for name in try_look([], system.list_dir, folder) if name.endswith(".conf")]
    units = (f"{_UNITS}/ollama.service", *extra)
    found = [place for path in units if (place := parse_ollama_unit(_text(system, path)))]
    for pid in (name for name in try_look([], system.list_dir, "/proc") if name.isdecimal()):
        if _text(system, f"/proc/{pid}/comm").strip() == "ollama":
            words = _text(system, f"/proc/{pid}/environ").split("\0")
            variables = {name: value for name, _, value in (word.partition("=") for word in words)}
            home = variables.get("HOME")
            if not home:
                user = re.search(r"^Uid:\s+(\d+)", _text(system, f"/proc/{pid}/status"), re.MULTILINE)
                lines = (line.split(":") for line in _text(system, "/etc/passwd").splitlines())
                fields = 7  # passwd(5)
                home = next((line[5] for line in lines if user and len(line) == fields and line[2] == user[1]), "")
            if place := variables.get("OLLAMA_MODELS") or (home and f"{home}/.ollama/models"):
                found.append(place)
    return found


def parse_ollama_unit(text: str) -> str:
    """The folder that a unit of systemd sets; the last one counts."""
    place = ""
    for line in _SET.findall(text):
        with suppress(ValueError):  # a quote without its partner
            variables = (word.partition("=") for word in shlex.split(line))
            place = {name: value for name, _, value in variables}.get("OLLAMA_MODELS", place)
    return place


def _text(system: System, path: str) -> str:
    return try_look("", read_text, system, path, _SMALL_UNIT)
