"""The draft model that a user names for a plan of llama.cpp, or why it can't be one."""

from unslow.app.fit.models import CATALOGUE, find_gguf_model
from unslow.commands.plan import PlanRequest
from unslow.facts.blueprint import Blueprint
from unslow.facts.errors import UserError
from unslow.look.system import System
from unslow.think.plan.llama_cpp.drafting import why_no_draft
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.question import Draft

DRAFTING = ("llama.cpp", "lm_studio")
"""Runtimes that take a draft model, and whose gain by one is planned."""
GUESSED = 3
"""Tokens that llama-server lets a draft guess at a time where nobody says (`--spec-draft-n-max`)."""
_FAMILY = "name a small model of the same family, such as llama-3.2-1b for llama-3.3-70b"


def check_drafting(request: PlanRequest) -> None:
    """UserError where a draft is named for a runtime that has no use for it."""
    if request.draft and request.runtime not in DRAFTING:
        raise UserError(f"a draft model is not planned for {request.runtime}", "leave out --draft")


def find_draft(system: System, request: PlanRequest, model: Blueprint, *, here: bool = True) -> Draft | None:
    """The draft model that the user named; UserError where there is none of that name, or it can't guess for the model.

    A file of this machine is no file of the one that the plan is for, unless that is here.
    """
    if not request.draft:
        return None
    found = find_gguf_model(system, request.draft, None)
    if found.incomplete:
        raise UserError(f"--draft {request.draft}: {found.incomplete}", "download it again")
    why = why_no_draft(model, found.blueprint)
    if why:
        raise UserError(f"{found.name} can't guess for this model: {why}", _FAMILY)
    file = "" if found.source == CATALOGUE or not here else found.source
    return Draft(f"{found.name} {found.quant}", Pieces(found.blueprint), file, GUESSED)
