"""Turns the files of a folder into models: parts of one belong together, and so do a model and what lies beside it."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.stored_model import Kind, StoredFile, StoredModel
from unslow.look.models.gguf import part_paths
from unslow.look.models.safetensors import checkpoint_sets
from unslow.look.stores._tree import Leaf
from unslow.look.system import LookError

_PART = re.compile(r"-\d{5}-of-\d{5}$")
_TAG = re.compile(r"(?i)[-._]((?:I?Q|TQ|MXFP|NVFP|BF|FP|F)\d{1,2}[a-z0-9_]{0,24})$")
_DRAFTS = ("mtp-", "eagle3-", "dflash-", "dspark-")  # llama.cpp, common/download.cpp: what it takes for draft models
_ADAPTERS = ("adapter_model", "adapters")  # PEFT, MLX
_CONFIGS = ("config.json", "adapter_config.json")
_INDEX = ".safetensors.index.json"
_UNFINISHED = (".incomplete", ".part", ".partial", ".downloadInProgress", ".aria2", ".crdownload")


class Names(NamedTuple):
    """A model's name, and a longer one for where two would have the same."""

    short: str
    long: str


Naming = Callable[[str, str], Names]
"""From a model's folder below the root and its file's stem; the stem is empty for the folder's own model."""


def tag(stem: str) -> str:
    """The quant that a file's name ends with, as llama.cpp names it: Q4_K_M; empty where it ends with none."""
    match = _TAG.search(stem)
    return match[1].upper() if match else ""


def grouped(root: str, leaves: Sequence[Leaf], tool: str, naming: Naming) -> list[StoredModel]:
    """The models among the files below a root."""
    folders: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        folders[leaf.folder].append(leaf)
    found = [
        (_names(naming, folder, stem, model.kind), folder, model)
        for folder, inside in folders.items()
        for stem, model in _Folder(root, folder, inside, tool).models()
    ]
    shared = Counter(names.short for names, _, _ in found)
    named = [(folder, _named(model, names, shared)) for names, folder, model in found]
    companions = [(folder, model) for folder, model in named if model.kind in (Kind.PROJECTOR, Kind.DRAFT)]
    return [_with_companions(model, folder, companions) for folder, model in named]


def _names(naming: Naming, folder: str, stem: str, kind: Kind) -> Names:
    names = naming(folder, stem)
    return names if kind is Kind.MODEL else Names(names.long, names.long)  # a projector's quant is not the model's


def _named(model: StoredModel, names: Names, shared: Counter[str]) -> StoredModel:
    return msgspec.structs.replace(model, name=names.short if shared[names.short] == 1 else names.long)


def _with_companions(model: StoredModel, folder: str, companions: list[tuple[str, StoredModel]]) -> StoredModel:
    """The model with the projectors and drafts that lie in its folder or in one above it."""
    if model.kind is not Kind.MODEL or model.format != "gguf" or not companions:
        return model
    near = [m for f, m in companions if not f or folder == f or folder.startswith(f"{f}/")]
    return msgspec.structs.replace(
        model,
        projectors=tuple(m.path for m in near if m.kind is Kind.PROJECTOR),
        drafts=tuple(m.path for m in near if m.kind is Kind.DRAFT),
    )


class _Folder:
    """One folder with files."""

    def __init__(self, root: str, folder: str, leaves: Sequence[Leaf], tool: str) -> None:
        self._root, self._tool = root, tool
        self._here = f"{root}/{folder}" if folder else root
        self._leaves = {leaf.name: leaf for leaf in leaves}

    def models(self) -> Iterator[tuple[str, StoredModel]]:
        """Each model and the stem of its file, which is empty for the folder's own."""
        for parts in self._gguf_parts():
            stem = _PART.sub("", parts[0].removesuffix(".gguf"))
            yield stem, self._model(parts, parts[0], "gguf", _kind(stem))
        sets = self._sets()
        for stem, parts in sets.items():
            own = stem == "model" or (len(sets) == 1 and any(name in self._leaves for name in _CONFIGS))
            kind = Kind.ADAPTER if stem in _ADAPTERS else Kind.MODEL
            yield "" if own else stem, self._model(parts, "" if own else parts[0], "safetensors", kind)
        yield from self._unfinished()

    def _gguf_parts(self) -> list[list[str]]:
        found = {tuple(_parts(name)) for name in self._leaves if name.endswith(".gguf")}
        return [list(parts) for parts in sorted(found)]

    def _sets(self) -> dict[str, list[str]]:
        sets = checkpoint_sets(self._leaves)
        indexed = (name.removesuffix(_INDEX) for name in self._leaves if name.endswith(_INDEX))
        return {**{stem: [f"{stem}.safetensors"] for stem in indexed}, **sets}  # an index alone is a broken model

    def _unfinished(self) -> Iterator[tuple[str, StoredModel]]:
        for name in self._leaves:
            whole = next((name.removesuffix(end) for end in _UNFINISHED if name.endswith(end)), "")
            stem, _, form = whole.rpartition(".")
            if form in ("gguf", "safetensors"):
                model = self._model([name], name, form, Kind.MODEL)
                yield stem, msgspec.structs.replace(model, broken="its download is not finished")

    def _model(self, parts: Sequence[str], name: str, form: str, kind: Kind) -> StoredModel:
        leaves = [self._leaves[p] for p in parts if p in self._leaves]
        return StoredModel(
            name="",
            tool=self._tool,
            kind=kind,
            format=form,
            size_bytes=sum(max(0, leaf.bytes) for leaf in leaves),
            path=f"{self._here}/{name}" if name else self._here,
            place=self._root,
            files=tuple(StoredFile(f"{self._here}/{leaf.name}", max(0, leaf.bytes), leaf.inode) for leaf in leaves),
            modified_at=max((leaf.modified_at for leaf in leaves), default=""),
            broken=self._fault(parts),
        )

    def _fault(self, parts: Sequence[str]) -> str:
        for name in parts:
            if name not in self._leaves:
                return f"{name} is missing"
            if self._leaves[name].bytes < 0:
                return f"{name} is a link that leads nowhere"
        return ""


def _parts(name: str) -> list[str]:
    try:
        return part_paths(name)
    except LookError:  # a number that can't be: reading it will say so
        return [name]


def _kind(stem: str) -> Kind:
    """What the file is by its name; its header has the last word."""
    if "mmproj" in stem.lower():
        return Kind.PROJECTOR
    return Kind.DRAFT if stem.startswith(_DRAFTS) else Kind.MODEL
