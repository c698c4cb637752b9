"""List the models on this machine.

Looks in Ollama, LM Studio, the Hugging Face cache, llama.cpp's cache and WHERE. Only headers are read, so even a
terabyte takes a moment. A broken model is listed with the reason.

examples:
  unslow models
  unslow models /mnt/models ~/downloads/model.gguf
  unslow models --json
"""

from typing import TYPE_CHECKING, Annotated

from unslow.commands._output import Progress
from unslow.commands._request import PATH, LongRequest, Option, function_of

if TYPE_CHECKING:
    from unslow.facts.stored_model import Inventory


class ModelsRequest(LongRequest, frozen=True, kw_only=True):
    """The models on this machine, in every tool's store; only their headers are read."""

    where: Annotated[
        tuple[str, ...], Option("more folders or files to search", metavar="WHERE", kind=PATH, positional=True)
    ] = ()
    all: Annotated[bool, Option("also show older revisions, other files, paths and searched places", only="cli")] = (
        False
    )


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
