"""The plan to search around, made now or read from a file, and the model that it is for."""

import os
from typing import NamedTuple

import msgspec

from unslow.app.fit.models import Found, find_gguf_model
from unslow.app.plan.answer import planned
from unslow.app.plan.saved import read_saved
from unslow.app.tune.request import Request
from unslow.app.verify.plans import starting_line
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.machine import Cpu
from unslow.facts.verified import Work
from unslow.look.command_line import UNSET
from unslow.look.launch.command import parse_command
from unslow.look.launch.settings import program_of
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.system import System
from unslow.think.hardware import usual_threads
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.report import PlanReport
from unslow.think.tune.candidate import Hand, as_settings
from unslow.think.verify.predicted import work_of

_RUNTIME = "llama.cpp"


class Source(NamedTuple):
    """A plan, the file of its model, and the request to measure with."""

    plan: PlanReport
    found: Found
    work: Work

    @property
    def path(self) -> str:
        """The file of the model."""
        return self.found.source


def source_of(system: System, request: Request) -> Source:
    """The plan and its model; UserError where there is nothing that can be started."""
    plan = read_saved(request.target) if request.is_plan else planned(system, request.plan)
    if plan.verdict == "impossible":
        raise UserError(f"there is no plan to search around: {plan.reason}", plan.hint)
    if plan.runtime != _RUNTIME:
        raise UserError(f"the plan is for {plan.runtime}, and only {_RUNTIME} can be tuned", "plan for llama.cpp")
    found = find_gguf_model(system, _model(plan, request) if request.is_plan else request.target, None)
    if not os.path.isfile(found.source):  # noqa: PTH113 (a word, and no path in itself)
        raise UserError(f"{found.name} is no file here, so it can't be started", "give the path of a GGUF file")
    return Source(plan, found, _work(plan, request))


def hand_of(system: System, source: Source, cpu: Cpu, draft: str | None) -> Hand:
    """What is at hand beside the plan: of the file that it recommends, where that is another one."""
    other = _recommended_file(source.plan)
    found = find_gguf_model(system, other, None) if other else source.found
    return Hand(
        Pieces(found.blueprint),
        found.quant,
        found.parameters,
        usual_threads(cpu),
        cpu.allowed_cpus.value_or(cpu.logical_cpus.value_or(0)),
        *_draft(draft),
    )


def _recommended_file(plan: PlanReport) -> str:
    settings = plan.options[plan.recommended].settings if plan.recommended is not None else ()
    file = str(as_settings(settings).get(Knob.MODEL_FILE) or "")
    return file if os.path.isfile(file) else ""  # noqa: PTH113 (the same)


def _draft(path: str | None) -> tuple[str, int]:
    if not path:
        return "", 0
    if not path.lower().endswith(".gguf") or not os.path.isfile(path):  # noqa: PTH113 (the same)
        raise UserError(f"--draft {path}: no GGUF file", "give the path of a small model of the same family")
    return os.path.abspath(path), os.path.getsize(path)  # noqa: PTH100, PTH202 (the same)


def _work(plan: PlanReport, request: Request) -> Work:
    """The work that the plan is for, or what the flags say; UserError where it does not fit the context."""
    work = work_of(plan.goal)
    if request.is_plan:
        asked, given = request.plan, request.plan.given
        if "context" in given and asked.context != plan.goal.context:
            raise UserError("the plan in the file is for another context", "plan again with --context, and tune that")
        new = {"prompt": ("prompt_tokens", asked.prompt), "kept": ("kept_tokens", asked.kept),
               "answer": ("answer_tokens", asked.answer)}  # fmt: skip
        work = msgspec.structs.replace(work, **{name: value for key, (name, value) in new.items() if key in given})
    if work.prompt_tokens + work.kept_tokens + work.answer_tokens > plan.goal.context:
        raise UserError("the request does not fit the plan's context", "fewer tokens, or a plan for more context")
    return work


def _model(plan: PlanReport, request: Request) -> str:
    """The file that the plan is for: what the user names, else what its command lines load."""
    options = [plan.options[plan.recommended]] if plan.recommended is not None else []
    for option in (*options, *filter(None, [plan.current])) if not request.model else ():
        if line := starting_line(option):
            command = parse_command(line)
            _, at = program_of(command.words)
            path = parse_settings(command.words[at:], command.variables).get("model", UNSET).value
            if path:
                return path
    if not request.model:
        raise UserError(f"{request.target} does not say which file the model is in", "name it: --model FILE")
    return request.model
