"""LM Studio's folder of models: `publisher/repository/file.gguf`, or a folder of safetensors for MLX."""

from collections.abc import Sequence

from unslow.look.command_line import is_absolute_path
from unslow.look.models.hf_config import parse_config
from unslow.look.models.stores import Surroundings
from unslow.look.models.stores._folders import Contents, Names, grouped_models, names_in, read_tree, tree_notices
from unslow.look.system import System, read_text, try_look

TOOL = "LM Studio"
_SMALL = 65536


def places(system: System, around: Surroundings) -> list[str]:
    """The folder that its settings name, in each of the homes that it has had."""
    return [downloads(system, home) for home in homes(system, around)]


def homes(system: System, around: Surroundings) -> list[str]:
    """Where it keeps everything, its logs and settings too: where it says so, and where it did before."""
    pointed = try_look("", read_text, system, f"{around.home}/.lmstudio-home-pointer", _SMALL).strip()
    return ([pointed] if pointed else []) + [f"{around.home}/.lmstudio", f"{around.home}/.cache/lm-studio"]


def claims(names: Sequence[str]) -> bool:  # noqa: ARG001 (one signature for all stores)
    """Never: nothing tells its folder from any other."""
    return False


def find(system: System, place: str) -> Contents:
    """The models below its folder."""
    tree = read_tree(system, place)
    return Contents(grouped_models(place, tree.leaves, TOOL, _names), tree_notices(place, tree))


def _names(folder: str, stem: str) -> Names:
    publisher, _, rest = folder.partition("/")
    name, _, inner = rest.partition("/")
    return names_in(f"{publisher}/{name}" if name else publisher)(inner, stem)


def downloads(system: System, home: str) -> str:
    """The folder of models of a home."""
    settings = try_look({}, lambda: parse_config(system.read_bytes(f"{home}/settings.json"), home))
    folder = settings.get("downloadsFolder")
    return folder if isinstance(folder, str) and is_absolute_path(folder) else f"{home}/models"
