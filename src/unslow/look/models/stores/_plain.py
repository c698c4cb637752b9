"""A folder or a file that the user names: whatever models lie there."""

import os
from functools import partial

from unslow.facts.stored_model import StoredFile, StoredModel
from unslow.look.models.stores._folders import Contents, Leaf, Names, grouped_models, read_tree, tree_notices
from unslow.look.system import LookError, System

TOOL = "folder"
_MAGIC = b"GGUF"


def find(system: System, place: str) -> Contents:
    """The models below a folder; those in hidden folders belong to some program."""
    tree = read_tree(system, place)
    seen = [leaf for leaf in tree.leaves if "/." not in f"/{leaf.folder}"]
    models = grouped_models(place, seen, TOOL, partial(_names, place))
    return Contents(models, tree_notices(place, tree))


def _names(place: str, folder: str, stem: str) -> Names:
    long = "/".join(part for part in (folder, stem) if part) or os.path.basename(os.path.abspath(place))  # noqa: PTH100, PTH119 (no path object is needed)
    return Names(stem or long.rpartition("/")[2], long)


class File:
    """One file: a whole model, or a part of one."""

    TOOL = "file"

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def find(self, system: System, place: str) -> Contents:
        tree = read_tree(system, self._folder, deepest=0)
        wanted = f"{self._folder}/{self._name}"
        models = grouped_models(self._folder, tree.leaves, self.TOOL, partial(_names, self._folder))
        found = [m for m in models if any(file.path == wanted for file in m.files)]
        leaf = next((leaf for leaf in tree.leaves if leaf.name == self._name), None)
        if leaf is None:
            raise LookError(f"{place}: not there")
        return Contents(found or [self._nameless(system, leaf)], [])

    def _nameless(self, system: System, leaf: Leaf) -> StoredModel:
        """A model whose name does not tell that it is one, such as a blob of Ollama's."""
        path = f"{self._folder}/{leaf.name}"
        if system.read_head(path, len(_MAGIC)) != _MAGIC:
            raise LookError(f"{path}: is no model; those start with GGUF or end in .safetensors")
        file = StoredFile(path, leaf.bytes, leaf.inode)
        return StoredModel(
            name=leaf.name, tool=self.TOOL, format="gguf", path=path, place=self._folder, files=(file,),
            size_bytes=leaf.bytes, modified_at=leaf.modified_at,
        )  # fmt: skip
