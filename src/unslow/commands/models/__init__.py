"""List the models on this machine: in Ollama, LM Studio, the Hugging Face cache, llama.cpp's cache, and in WHERE.

Only headers are read, so that a terabyte takes a moment. A broken model is listed with the reason.

examples:
  unslow models
  unslow models /mnt/models ~/downloads/model.gguf
  unslow models --json
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._output import Progress
from unslow.commands._request import PATH, Option, Told, function_of

if TYPE_CHECKING:
    from unslow.facts.stored_model import Inventory


class ModelsRequest(Told, frozen=True, kw_only=True):
    """The models on this machine, in every tool's store; only their headers are read."""

    where: Annotated[
        tuple[str, ...], Option("further folders or files to look at", metavar="WHERE", kind=PATH, positional=True)
    ] = ()
    all: Annotated[
        bool, Option("also older revisions, files that are no models, paths, and where was looked", only="cli")
    ] = False


def answer(request: ModelsRequest, progress: Progress) -> "Inventory":
    """The inventory."""
    from unslow.commands.models.stored import list_models
    from unslow.look.system.live import LiveSystem

    return list_models(LiveSystem(), request.where, progress)


def run(request: ModelsRequest) -> int:
    """List and show."""
    from unslow.commands._output import show_answer
    from unslow.show.models import render_models

    show_answer(request, render_models, answer, everything=request.all)
    return 0


models = function_of(ModelsRequest, answer)
