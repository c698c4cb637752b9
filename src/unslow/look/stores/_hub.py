"""The layout of Hugging Face's cache, which newer builds of llama.cpp use too.

`models--org--name` holds `blobs`, `refs` (which revision a branch is at) and `snapshots/<revision>/` with links to the
blobs.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from unslow.facts.stored_model import StoredModel
from unslow.look.stores._contents import Contents, tree_notices
from unslow.look.stores._grouped import grouped
from unslow.look.stores._repositories import names_in
from unslow.look.stores._tree import Leaf, Tree
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

PREFIX = "models--"
_REVISION_BYTES = 256
_SHORT = 7  # letters of a revision that people read
_DEPTH = 3  # repository, `snapshots`, revision


def is_hub(names: Sequence[str]) -> bool:
    """Whether a folder with these names in it is such a cache."""
    return any(name.startswith(PREFIX) for name in names)


def read_hub(system: System, place: str, tree: Tree, tool: str) -> Contents:
    """The models of a cache, from the files below it."""
    repositories: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in tree.leaves:
        folder, slash, rest = leaf.path.partition("/")
        if slash and folder.startswith(PREFIX):
            repositories[folder].append(msgspec.structs.replace(leaf, path=rest))
    models: list[StoredModel] = []
    notices = tree_notices(place, tree)
    for folder, leaves in repositories.items():
        models += _repository(system, place, folder, leaves, tool)
        notices += _unfinished(folder, leaves)
    return Contents(models, notices)


def _repository(system: System, place: str, folder: str, leaves: list[Leaf], tool: str) -> Iterator[StoredModel]:
    revisions: dict[str, list[Leaf]] = defaultdict(list)
    for leaf in leaves:
        steps = leaf.path.split("/", 2)
        if len(steps) == _DEPTH and steps[0] == "snapshots":
            revisions[steps[1]].append(msgspec.structs.replace(leaf, path=steps[2]))
    current = _current(system, f"{place}/{folder}", leaves)
    for revision, inside in revisions.items():
        older = len(revisions) > 1 and revision != current
        name = _name(folder) + (f"@{revision[:_SHORT]}" if older else "")
        for model in grouped(f"{place}/{folder}/snapshots/{revision}", inside, tool, names_in(name)):
            yield msgspec.structs.replace(model, place=place, superseded=older and current in revisions)


def _name(folder: str) -> str:
    return folder.removeprefix(PREFIX).replace("--", "/")


def _current(system: System, repository: str, leaves: list[Leaf]) -> str:
    """The revision that the main branch is at, or any other where there is no main."""
    refs = [leaf.path for leaf in leaves if leaf.path.startswith("refs/")]
    for path in sorted(refs, key=lambda path: path != "refs/main"):
        try:
            return read_text(system, f"{repository}/{path}", _REVISION_BYTES).strip()
        except LookError:
            continue
    return ""


def _unfinished(folder: str, leaves: list[Leaf]) -> Iterator[str]:
    parts = [leaf for leaf in leaves if leaf.path.startswith("blobs/") and leaf.name.endswith(".incomplete")]
    if parts:
        files = "a download is" if len(parts) == 1 else f"{len(parts)} downloads are"
        yield f"{_name(folder)}: {files} not finished"
