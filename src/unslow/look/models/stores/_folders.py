"""The files below a folder in one bounded look, and the models that they make up in the layouts of the stores."""

import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.facts.stored_model import Kind, StoredFile, StoredModel
from unslow.facts.values import Absence
from unslow.look.models.gguf import part_paths
from unslow.look.models.safetensors import checkpoint_sets
from unslow.look.system import LookError, System, convert_answer, read_text

MOST_ENTRIES = 200_000
DEEPEST = 8
_MAGIC = b"GGUF"
_SKIPPED = re.compile(r"\.git|\.locks|\.no_exist|node_modules|__pycache__|lost\+found|(?:datasets|spaces|kernels)--.*")
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_TAG = re.compile(r"(?i)[-._]((?:I?Q|TQ|MXFP|NVFP|BF|FP|F)\d{1,2}[a-z0-9_]{0,24})$")
_DRAFTS = ("mtp-", "eagle3-", "dflash-", "dspark-")  # llama.cpp, common/download.cpp: what it takes for draft models
_ADAPTERS = ("adapter_model", "adapters")  # PEFT, MLX
_CONFIGS = ("config.json", "adapter_config.json")
_INDEX = ".safetensors.index.json"
_UNFINISHED = (".incomplete", ".part", ".partial", ".downloadInProgress", ".aria2", ".crdownload")
PREFIX = "models--"
_REVISION_BYTES = 256
_SHORT = 7  # letters of a revision that people read
_DEPTH = 3  # repository, `snapshots`, revision


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """A file, by its path below the root; `bytes` is -1 where a link leads nowhere."""

    path: str
    bytes: int
    inode: str
    modified_at: str

    @property
    def folder(self) -> str:
        """The folder that it lies in, below the root; empty for the root itself."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Tree(msgspec.Struct, frozen=True):
    """What lies below a folder."""

    leaves: list[Leaf]
    unreadable: list[str] = []
    cut: bool = False  # Whether there is more than was looked at


class Contents(NamedTuple):
    """The models that a place holds, before their headers are read, and what else is to be said of it."""

    models: list[StoredModel]
    notices: list[str]


class Names(NamedTuple):
    """A model's name, and a longer one for where two would have the same."""

    short: str
    long: str


Naming = Callable[[str, str], Names]
"""From a model's folder below the root and its file's stem; the stem is empty for the folder's own model."""


def read_tree(system: System, root: str, deepest: int = DEEPEST) -> Tree:
    """Every file below `root`, sorted; LookError where it is not a readable folder."""
    raw = system.ask(f"tree {root}", lambda: msgspec.to_builtins(_tree(root, deepest)))
    return convert_answer(raw, Tree, f"{root}: the recorded folder is not valid")


def _tree(root: str, deepest: int) -> Tree:
    walk = _Walk()
    try:
        leaves = sorted(walk.below(root, "", deepest), key=lambda leaf: leaf.path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LookError(f"{root}: not there", Absence.NOT_FOUND) from error
    except PermissionError as error:
        raise LookError(f"{root}: permission denied", Absence.FAILED, "run as the user who owns it") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte
        raise LookError(f"{root}: {getattr(error, 'strerror', None) or error}") from error
    return Tree(leaves, walk.unreadable, walk.left < 0)


class _Walk:
    def __init__(self) -> None:
        self.left = MOST_ENTRIES
        self.unreadable: list[str] = []
        self._seen: set[str] = set()

    def below(self, root: str, path: str, depth: int) -> Iterator[Leaf]:
        folder = f"{root}/{path}" if path else root
        status = Path(folder).stat()
        inode = f"{status.st_dev}:{status.st_ino}"
        if inode in self._seen:
            return
        self._seen.add(inode)
        inner = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.left -= 1
                if self.left < 0:
                    return
                below = f"{path}/{entry.name}" if path else entry.name
                is_folder = False
                with suppress(OSError):  # a link into a place that can't be read
                    is_folder = entry.is_dir()
                if is_folder and not _SKIPPED.fullmatch(entry.name):
                    inner.append(below)
                elif not is_folder and (leaf := _leaf(entry, below)):
                    yield leaf
        for name in inner if depth > 0 else ():
            try:
                yield from self.below(root, name, depth - 1)
            except OSError as error:
                self.unreadable.append(f"{root}/{name}: {error.strerror or error}")


def _leaf(entry: os.DirEntry[str], path: str) -> Leaf | None:
    """The file; None for pipes, devices and names that are no text."""
    try:
        path.encode()
        status = entry.stat()
    except UnicodeEncodeError:
        return None
    except OSError:
        return Leaf(path, -1, "", "") if entry.is_symlink() else None
    if not stat.S_ISREG(status.st_mode):
        return None
    modified_at = ""
    with suppress(OverflowError, ValueError, OSError):  # a clock that was off by an age
        modified_at = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
    return Leaf(path, status.st_size, f"{status.st_dev}:{status.st_ino}", modified_at)


def tree_notices(place: str, tree: Tree) -> list[str]:
    """What could not be seen below a place."""
    cut = [f"{place} has more than {MOST_ENTRIES} files; the rest was skipped"] if tree.cut else []
    return cut + [f"skipped: {path}" for path in tree.unreadable]


def grouped_models(root: str, leaves: Sequence[Leaf], tool: str, naming: Naming) -> list[StoredModel]:
    """The models among the files below a root."""
    folders: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        folders[leaf.folder].append(leaf)
    found = []
    for folder, inside in folders.items():
        for stem, model in _Folder(root, folder, inside, tool).models():
            names = naming(folder, stem)
            if model.kind is not Kind.MODEL:  # a projector's quant is not the model's
                names = Names(names.long, names.long)
            found.append((names, folder, model))
    shared = Counter(names.short for names, _, _ in found)
    named = [
        (folder, msgspec.structs.replace(model, name=names.short if shared[names.short] == 1 else names.long))
        for names, folder, model in found
    ]
    companions = [(folder, model) for folder, model in named if model.kind in (Kind.PROJECTOR, Kind.DRAFT)]
    models = []
    for folder, model in named:
        if model.kind is Kind.MODEL and model.format == "gguf" and companions:
            near = [m for f, m in companions if not f or folder == f or folder.startswith(f"{f}/")]
            projectors, drafts = (
                tuple(m.path for m in near if m.kind is kind) for kind in (Kind.PROJECTOR, Kind.DRAFT)
            )
            models.append(msgspec.structs.replace(model, projectors=projectors, drafts=drafts))
        else:
            models.append(model)
    return models


class _Folder:
    def __init__(self, root: str, folder: str, leaves: Sequence[Leaf], tool: str) -> None:
        self._root, self._tool = root, tool
        self._here = f"{root}/{folder}" if folder else root
        self._leaves = {leaf.name: leaf for leaf in leaves}

    def models(self) -> Iterator[tuple[str, StoredModel]]:
        """Each model and the stem of its file, which is empty for the folder's own."""
        wholes = set[tuple[str, ...]]()
        for name in (name for name in self._leaves if name.endswith(".gguf")):
            try:
                wholes.add(tuple(part_paths(name)))
            except LookError:  # a part number out of range: reading it will say so
                wholes.add((name,))
        for parts in map(list, sorted(wholes)):
            stem = _PART.sub("", parts[0].removesuffix(".gguf"))
            # What the file is by its name; its header has the last word
            kind = Kind.DRAFT if stem.startswith(_DRAFTS) else Kind.MODEL
            kind = Kind.PROJECTOR if "mmproj" in stem.lower() else kind
            yield stem, self._model(parts, parts[0], "gguf", kind)
        sets = checkpoint_sets(self._leaves)
        indexed = (name.removesuffix(_INDEX) for name in self._leaves if name.endswith(_INDEX))
        sets = {**{stem: [f"{stem}.safetensors"] for stem in indexed}, **sets}  # an index alone is a broken model
        for stem, parts in sets.items():
            own = stem == "model" or (len(sets) == 1 and any(name in self._leaves for name in _CONFIGS))
            kind = Kind.ADAPTER if stem in _ADAPTERS else Kind.MODEL
            yield "" if own else stem, self._model(parts, "" if own else parts[0], "safetensors", kind)
        for name in self._leaves:
            whole = next((name.removesuffix(end) for end in _UNFINISHED if name.endswith(end)), "")
            stem, _, form = whole.rpartition(".")
            if form in ("gguf", "safetensors"):
                model = self._model([name], name, form, Kind.MODEL)
                yield stem, msgspec.structs.replace(model, broken="its download is not finished")

    def _model(self, parts: Sequence[str], name: str, form: str, kind: Kind) -> StoredModel:
        leaves = [self._leaves[p] for p in parts if p in self._leaves]
        faults = (
            f"{p} is a broken link" if p in self._leaves else f"{p} is missing"
            for p in parts
            if p not in self._leaves or self._leaves[p].bytes < 0
        )
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
            broken=next(faults, ""),
        )


def names_in(repository: str) -> Naming:
    """Names of models in a repository: itself, or itself with the quant of a file (`org/repo:Q4_K_M`)."""

    def naming(folder: str, stem: str) -> Names:
        long = "/".join(part for part in (repository, folder, stem) if part)
        if not stem:
            return Names(long, long)
        quant = _TAG.search(stem)  # that its name ends with, as llama.cpp names it
        return Names(f"{repository}:{quant[1].upper()}" if quant else long, long)

    return naming


def is_hub(names: Sequence[str]) -> bool:
    """Whether a folder with these names in it is such a cache."""
    return any(name.startswith(PREFIX) for name in names)


def read_hub(system: System, place: str, tree: Tree, tool: str) -> Contents:
    """The models of a cache, from the files below it."""
    # The layout of Hugging Face's cache, which newer builds of llama.cpp use too. `models--org--name` holds `blobs`,
    # `refs` (which revision a branch is at) and `snapshots/<revision>/` with links to the blobs.
    repositories: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in tree.leaves:
        folder, slash, rest = leaf.path.partition("/")
        if slash and folder.startswith(PREFIX):
            repositories[folder].append(msgspec.structs.replace(leaf, path=rest))
    models: list[StoredModel] = []
    notices = tree_notices(place, tree)
    for folder, leaves in repositories.items():
        models += _repository(system, place, folder, leaves, tool)
        parts = [leaf for leaf in leaves if leaf.path.startswith("blobs/") and leaf.name.endswith(".incomplete")]
        if parts:
            files = "a download is" if len(parts) == 1 else f"{len(parts)} downloads are"
            notices.append(f"{_name(folder)}: {files} not finished")
    return Contents(models, notices)


def _repository(system: System, place: str, folder: str, leaves: list[Leaf], tool: str) -> Iterator[StoredModel]:
    revisions: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        steps = leaf.path.split("/", 2)
        if len(steps) == _DEPTH and steps[0] == "snapshots":
            revisions[steps[1]].append(msgspec.structs.replace(leaf, path=steps[2]))
    current = ""  # the revision that the main branch is at, or any other where there is no main
    refs = [leaf.path for leaf in leaves if leaf.path.startswith("refs/")]
    for path in sorted(refs, key=lambda path: path != "refs/main"):
        with suppress(LookError):
            current = read_text(system, f"{place}/{folder}/{path}", _REVISION_BYTES).strip()
            break
    for revision, inside in revisions.items():
        older = len(revisions) > 1 and revision != current
        name = _name(folder) + (f"@{revision[:_SHORT]}" if older else "")
        for model in grouped_models(f"{place}/{folder}/snapshots/{revision}", inside, tool, names_in(name)):
            yield msgspec.structs.replace(model, place=place, superseded=older and current in revisions)


def _name(folder: str) -> str:
    return folder.removeprefix(PREFIX).replace("--", "/")


class NamedFolder:
    """A folder that the user names: whatever models lie there; those in hidden folders belong to some program."""

    TOOL = "folder"

    def find(self, system: System, place: str) -> Contents:
        tree = read_tree(system, place)
        seen = [leaf for leaf in tree.leaves if "/." not in f"/{leaf.folder}"]
        return Contents(grouped_models(place, seen, self.TOOL, partial(_names_below, place)), tree_notices(place, tree))


class NamedFile:
    """A file that the user names: a whole model, or a part of one."""

    TOOL = "file"

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def find(self, system: System, place: str) -> Contents:
        tree = read_tree(system, self._folder, deepest=0)
        wanted = f"{self._folder}/{self._name}"
        models = grouped_models(self._folder, tree.leaves, self.TOOL, partial(_names_below, self._folder))
        found = [m for m in models if any(file.path == wanted for file in m.files)]
        leaf = next((leaf for leaf in tree.leaves if leaf.name == self._name), None)
        if leaf is None:
            raise LookError(f"{place}: not there")
        if found:
            return Contents(found, [])
        # A model whose name does not tell that it is one, such as a blob of Ollama's
        if system.read_head(wanted, len(_MAGIC)) != _MAGIC:
            raise LookError(f"{wanted}: not a model (a model starts with GGUF or ends in .safetensors)")
        file = StoredFile(wanted, leaf.bytes, leaf.inode)
        nameless = StoredModel(
            name=leaf.name, tool=self.TOOL, format="gguf", path=wanted, place=self._folder, files=(file,),
            size_bytes=leaf.bytes, modified_at=leaf.modified_at,
        )  # fmt: skip
        return Contents([nameless], [])


def _names_below(place: str, folder: str, stem: str) -> Names:
    long = "/".join(part for part in (folder, stem) if part) or os.path.basename(os.path.abspath(place))  # noqa: PTH100, PTH119 (no path object is needed)
    return Names(stem or long.rpartition("/")[2], long)
