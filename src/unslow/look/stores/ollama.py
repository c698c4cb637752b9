"""Ollama's store: `manifests/host/namespace/model/tag` names the blobs that make up a model."""

from collections.abc import Sequence

from unslow.facts.stored_model import Kind, StoredFile, StoredModel
from unslow.look.models.hf_config import Config, parse_config
from unslow.look.stores._contents import Contents, tree_notices
from unslow.look.stores._ollama_manifest import MOST_MANIFEST_BYTES, Layer, Manifest, parse_manifest, parse_name
from unslow.look.stores._ollama_server import served_places
from unslow.look.stores._surroundings import Surroundings
from unslow.look.stores._tree import Leaf, read_tree
from unslow.look.system import LookError, System

TOOL = "Ollama"
SERVICE_PLACE = "/usr/share/ollama/.ollama/models"  # the installer's user has its home in /usr/share/ollama
MOST_MANIFESTS = 5000
_WEIGHTS = ("model", "tensor", "projector", "adapter", "draft")
_SMALL = 1024**2


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
        notices.append(f"{place} has {len(manifests)} models; {MOST_MANIFESTS} were looked at")
    return Contents(models, notices)


class _Store:
    """One store, with the blobs that it has."""

    def __init__(self, system: System, place: str, blobs: dict[str, Leaf]) -> None:
        self._system, self._place, self._blobs = system, place, blobs
        self._used: set[str] = set()

    def model(self, leaf: Leaf) -> StoredModel:
        """The model of a manifest."""
        name, path = parse_name(leaf.path), f"{self._place}/manifests/{leaf.path}"
        try:
            manifest = parse_manifest(self._system.read_bytes(path, MOST_MANIFEST_BYTES))
        except LookError as error:
            return StoredModel(name=name, tool=TOOL, path=path, place=self._place, broken=error.why)
        self._used |= {layer.blob for layer in (*manifest.layers, *filter(None, [manifest.config]))}
        return self._described(name, path, leaf, manifest)

    def _described(self, name: str, path: str, leaf: Leaf, manifest: Manifest) -> StoredModel:
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
            files=tuple(self._file(layer) for layer in weights if layer.blob in self._blobs),
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
        return [f"{self._place}: {size} bytes lie in blobs that belong to no model"] if left else []

    def _path(self, layer: Layer) -> str:
        return f"{self._place}/blobs/{layer.blob}"

    def _bytes(self, layer: Layer) -> int:
        leaf = self._blobs.get(layer.blob)
        return leaf.bytes if leaf else -1

    def _file(self, layer: Layer) -> StoredFile:
        return StoredFile(self._path(layer), max(0, self._bytes(layer)), self._blobs[layer.blob].inode)

    def _fault(self, weights: Sequence[Layer], main: Sequence[Layer]) -> str:
        if not main:
            return "its manifest names no model"
        for layer in weights:
            short, there = layer.blob[:19] or layer.digest[:40], self._bytes(layer)
            if there < 0:
                return f"its blob {short} is missing"
            if there != layer.size:
                return f"its blob {short} has {there} bytes where {layer.size} are due"
        return ""

    def _json(self, layers: Sequence[Layer]) -> Config:
        """The JSON object in the first of these blobs; nothing where there is none."""
        try:
            return parse_config(self._system.read_bytes(self._path(layers[0]), _SMALL), "") if layers else {}
        except LookError:
            return {}
