"""llama.cpp's own cache: flat until early 2026 (`org_repo_file.gguf`), then as Hugging Face lays it out."""

import re
from collections.abc import Sequence

from unslow.look.models.stores import Surroundings
from unslow.look.models.stores._folders import PREFIX, Contents, Names, grouped_models, names_in, read_hub, read_tree
from unslow.look.system import System

TOOL = "llama.cpp"
_MANIFEST = re.compile(r"manifest=([^=]+)=([^=]+)=[^=]+\.json")


def places(system: System, around: Surroundings) -> list[str]:  # noqa: ARG001 (one signature for all stores)
    """Where LLAMA_CACHE says, and the usual places on Linux, macOS and Windows."""
    named, local = around.variable("LLAMA_CACHE"), around.variable("LOCALAPPDATA")
    usual = (f"{around.cache}/llama.cpp", f"{around.home}/Library/Caches/llama.cpp", local and f"{local}/llama.cpp")
    return [place for place in (named, *usual) if place]


def claims(names: Sequence[str]) -> bool:
    """Whether a folder with these names in it is a flat cache."""
    return any(_MANIFEST.fullmatch(name) for name in names)


def find(system: System, place: str) -> Contents:
    """The models of the cache, in either layout."""
    tree = read_tree(system, place)
    flat = [leaf for leaf in tree.leaves if not leaf.path.startswith(PREFIX)]
    repositories = [match for leaf in flat if (match := _MANIFEST.fullmatch(leaf.path))]
    known = [f"{match[1]}/{match[2]}" for match in repositories]
    hub = read_hub(system, place, tree, TOOL)
    return Contents([*hub.models, *grouped_models(place, flat, TOOL, lambda _, stem: _names(stem, known))], hub.notices)


def _names(stem: str, known: Sequence[str]) -> Names:
    """A manifest beside the file names its repository; the file name alone does not separate it."""
    for repository in known:
        start = repository.replace("/", "_") + "_"
        if stem.startswith(start):
            return names_in(repository)("", stem.removeprefix(start))
    return Names(stem, stem)
