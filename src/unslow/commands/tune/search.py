"""What `unslow tune` does: plan, say what it will take, start and measure candidates in turns, and judge."""

import os
import shlex
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._command_lines import commands_for
from unslow.commands._output import Progress, Silent
from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.request import check_writable
from unslow.commands.bench.server import CommandStarter, Own, Place, case_of, place_of
from unslow.commands.diagnose.target import is_live
from unslow.commands.models.find import FoundModel, find_gguf_model
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import make_plan
from unslow.commands.plan.subjects import read_saved
from unslow.commands.tune import TuneRequest
from unslow.commands.verify.comparison import starting_line
from unslow.commands.verify.server import MeasuredServer, Prompt, measure_request, prompts_of_life, warm_up
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.machine import Cpu
from unslow.facts.merge import computing_gpus
from unslow.facts.model import Model
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import GIB, reported_fact
from unslow.facts.verification import Work
from unslow.look.command_line import UNSET
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.launch.command import Command, command_without_secrets, found_file, parse_command, program_of
from unslow.look.system import System
from unslow.show.units import size
from unslow.think.case.view import CaseView
from unslow.think.hardware import usual_threads
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.report import PlanReport
from unslow.think.stats.tuning import CandidateFigures, Halving, TuneContext, TuneReport, judge_tuning
from unslow.think.stats.tuning_candidates import Candidate, Candidates, Hand, as_settings, candidates_of
from unslow.think.stats.verification import work_of

TOO_SLOW = 4.0  # Times the best request so far: whoever takes longer is not waited for
_RUNTIME = "llama.cpp"
_OF_PLANS = ("context", "prompt", "kept", "answer", "draft", "worst_perplexity_increase")
_NOTED = GIB  # Of a GPU's memory: a desktop and its browser hold less, and do not compute for long
_PATIENT_S = 60.0  # A start may take so long even where the whole time is shorter
_LEAST_LIMIT_S = 10.0  # A request is given so long however fast the best one is: a first one may be slow once


class Source(NamedTuple):
    """A plan, the file of its model, and the request to measure with."""

    plan: PlanReport
    found: FoundModel
    work: Work


class Line(NamedTuple):
    """The words of a command line, and why it is not to be used."""

    words: tuple[str, ...]
    why_not: str = ""

    @property
    def text(self) -> str:
        """For a shell."""
        return shlex.join(self.words)


class Limits(NamedTuple):
    """How long a start and a request may take."""

    start_s: float
    request_s: float


def tune(request: TuneRequest, progress: Progress) -> TuneReport:
    """Measure around the plan for about so long; UserError where nothing can be started."""
    check_request(request)
    try:
        server = found_file(Command((request.server,), os.environ))
    except UserError as error:
        raise UserError(error.message, "give the llama-server to start: --server PATH") from error
    place = place_of(None, "", progress)
    notes = company(place.snapshot, allowed=request.yes)
    progress.step("planning", 0.0)
    source = source_of(place.system, request)
    hand = hand_of(place.system, source, place.snapshot.machine.cpu, request.draft)
    candidates = candidates_of(source.plan, hand)
    lines = [line_of(place.system, candidate, source.found.source, server) for candidate in candidates.all]
    work, count = source.work, len(candidates.all)
    progress.say(
        f"trying up to {count} settings around the plan, one server at a time, for about {request.seconds:.0f} s; "
        f"each is asked for {work.answer_tokens} tokens after a prompt of {work.prompt_tokens}. {_memory(source.plan)}"
        "No other server is touched; Ctrl-C gives the best so far"
    )
    tuning = Tuning(source.work, candidates, lines, place, request.seconds)
    interrupted = tuning.run(progress)
    users = source.plan.goal.users
    if users > 1:
        notes += (f"The plan is for {users} concurrent conversations; measured with one",)
    if source.plan.verdict == "cannot_tell":
        notes += (f"The plan has no speeds: {source.plan.reason}",)
    told = TuneContext(
        __version__, source.plan.model, source.plan.machine, server, source.work, source.plan.goal.context,
        notes=notes, interrupted=interrupted,
    )  # fmt: skip
    return judge_tuning(candidates, tuning.results(), tuning.halving, told)


def check_request(request: TuneRequest) -> None:
    """UserError where it names something that runs, or a file that it can't have."""
    check_writable("--output", request.output)
    if is_live(request.target):
        why = f"{request.target} is already running, and tune starts its own servers"
        raise UserError(why, "name its model instead")
    if request.model and not request.is_plan:
        raise UserError("--model is for a plan, and this is already a model", "omit it")


def company(snapshot: Snapshot, *, allowed: bool) -> tuple[str, ...]:
    """What to say of others; UserError where the GPU is not free and nobody said that this is all right."""
    gpus = computing_gpus(snapshot.machine.gpus.value_or(()))
    named = [(s.runtime.name.value_or("a server"), s.runtime.process.url.value_or("")) for s in snapshot.subjects]
    servers = dict.fromkeys(f"{name} at {url}" if url else name for name, url in named)
    programs = {  # that hold much memory of a GPU that computes
        process.pid: f"{process.name.value_or('a program')} ({process.pid})"
        for gpu in gpus
        for process in gpu.processes.value_or([])
        if process.vram_bytes.value_or(0) >= _NOTED
    }
    seen = [*servers, *programs.values()]
    if seen and gpus and not allowed:
        hint = "stop them, or measure anyway with --yes: they take memory and slow it down"
        raise UserError(f"other processes use this machine's GPU: {', '.join(seen)}", hint)
    notes = [f"Measured while other processes ran: {', '.join(seen)}"] if seen else []
    # Settings of llama.cpp in this program's environment, which every server started here inherits
    names = sorted(name for name in os.environ if name.startswith("LLAMA_ARG_"))
    notes += [f"Set by the environment for all candidates: {', '.join(names)}"] if names else []
    return tuple(notes)


def source_of(system: System, request: TuneRequest) -> Source:
    """The plan and its model; UserError where there is nothing that can be started."""
    plan = read_saved(request.target) if request.is_plan else make_plan(system, plan_request(request))
    if plan.verdict == "impossible":
        raise UserError(f"no plan to search around: {plan.reason}", plan.hint)
    if plan.runtime != _RUNTIME:
        raise UserError(f"the plan is for {plan.runtime}, but tune supports only {_RUNTIME}", "plan for llama.cpp")
    found = find_gguf_model(system, _model(plan, request) if request.is_plan else request.target, None)
    if not os.path.isfile(found.source):  # noqa: PTH113 (a word, and no path in itself)
        raise UserError(f"{found.name} is not a local file, so it cannot be started", "give the path of a GGUF file")
    return Source(plan, found, _work(plan, request))


def plan_request(request: TuneRequest) -> PlanRequest:
    """The plan that is searched around, where the target is no plan itself."""
    own = {name: getattr(request, name) for name in _OF_PLANS if name in request.given}
    return PlanRequest(**own, model=request.target, given=frozenset(own))


def _model(plan: PlanReport, request: TuneRequest) -> str:
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
        raise UserError(f"{request.target} does not name the model file", "name it: --model FILE")
    return request.model


def _work(plan: PlanReport, request: TuneRequest) -> Work:
    """The work that the plan is for, or what the flags say; UserError where it does not fit the context."""
    work = work_of(plan.goal)
    if request.is_plan:
        if "context" in request.given and request.context != plan.goal.context:
            raise UserError("the plan is for another context length", "plan again with --context, and tune that")
        asked = {"prompt_tokens": request.prompt, "kept_tokens": request.kept, "answer_tokens": request.answer}
        work = msgspec.structs.replace(work, **{name: count for name, count in asked.items() if count is not None})
    if work.prompt_tokens + work.kept_tokens + work.answer_tokens > plan.goal.context:
        raise UserError("the request does not fit the plan's context", "fewer tokens, or a plan for more context")
    return work


def hand_of(system: System, source: Source, cpu: Cpu, draft: str | None) -> Hand:
    """What is at hand beside the plan: of the file that it recommends, where that is another one."""
    plan = source.plan
    settings = plan.options[plan.recommended].settings if plan.recommended is not None else ()
    file = str(as_settings(settings).get(Knob.MODEL_FILE) or "")
    other = file if os.path.isfile(file) else ""  # noqa: PTH113 (the same)
    found = find_gguf_model(system, other, None) if other else source.found
    if draft and not (draft.lower().endswith(".gguf") and os.path.isfile(draft)):  # noqa: PTH113 (the same)
        raise UserError(f"--draft {draft}: not a GGUF file", "give the path of a small model of the same family")
    return Hand(
        Pieces(found.blueprint),
        found.quant,
        found.parameters,
        usual_threads(cpu),
        cpu.allowed_cpus.value_or(cpu.logical_cpus.value_or(0)),
        os.path.abspath(draft) if draft else "",  # noqa: PTH100 (the same)
        os.path.getsize(draft) if draft else 0,  # noqa: PTH202 (the same)
    )


def line_of(system: System, candidate: Candidate, path: str, server: str) -> Line:
    """How a candidate is started."""
    model = Model(path=reported_fact(path, "given"))
    changes = [Change(knob, value) for knob, value in as_settings(candidate.settings).items()]
    said = commands_for(changes, CaseView(Case(model=model)), system=system, program=server, name=_RUNTIME)
    left = [(change, why) for change, why in said.left_out if change.knob is not Knob.QUANT]
    why_not = f"{left[0][0].knob.value}: {left[0][1]}" if left else ""
    if said.environment:  # a trial is started by its words alone
        why_not = why_not or f"{', '.join(said.environment)}: set by a variable, not on a command line"
    return Line(said.argv or (server, "-m", path), why_not)


def _memory(plan: PlanReport) -> str:
    known = [option for option in (*plan.options, *filter(None, [plan.current])) if option.host]
    if not known:
        return ""
    host = max(option.host.total_bytes for option in known if option.host)
    gpu = max((sum(device.total_bytes for device in option.devices) for option in known), default=0)
    on_gpu = f"{size(gpu)} of VRAM and " if gpu else ""
    return f"A server takes up to {on_gpu}{size(host)} of host memory. "


class Tuning:
    """The candidates while they are measured."""

    def __init__(self, work: Work, candidates: Candidates, lines: Sequence[Line], place: Place, seconds: float) -> None:
        self.halving = Halving(len(candidates.all), seconds, candidates.references)
        self._work, self._candidates, self._lines, self._place = work, candidates, lines, place
        self._trials = [Trial(line, place) for line in lines]
        self._prompts: dict[int, list[Prompt]] = {}
        for index, line in enumerate(lines):
            if line.why_not:
                self.halving.fail(index, 0.0, f"cannot be started: {line.why_not}")

    def run(self, progress: Progress) -> bool:
        """Turns until it is over; whether the user stopped it."""
        try:
            while turn := self.halving.next():
                self._turn(turn.candidate, turn.round, progress)
        except KeyboardInterrupt:
            self.halving.finish("stopped")
            return True
        return False

    def results(self) -> list[CandidateFigures]:
        """What was measured of each."""
        return [
            CandidateFigures(command_without_secrets(line.words), tuple(trial.party.samples), tuple(trial.starts_s))
            for line, trial in zip(self._lines, self._trials, strict=True)
        ]

    def _turn(self, index: int, number: int, progress: Progress) -> None:
        trial, halving, system = self._trials[index], self.halving, self._place.system
        name, left_s = self._candidates.all[index].name, halving.budget_s - halving.spent_s
        words = f"round {number}, {len(halving.alive)} left, {max(0.0, left_s):.0f} s: {name}"
        progress.step(words, min(1.0, halving.spent_s / halving.budget_s))
        known = [s.request_s for trial in self._trials for s in trial.party.samples if s.request_s]
        is_new = index not in halving.references and not halving.levels[index]
        limits = limits_of(halving.budget_s, left_s, min(known, default=None), is_new=is_new)
        start = system.clock()
        prompts = self._prompts.setdefault(number, [])
        # What happens in one turn is too short to be told
        why = trial.turn(number, self._work, prompts, limits, Silent())
        took = system.clock() - start
        if why:
            halving.fail(index, took, why)
        else:
            halving.note(index, took, trial.requests_s(number))


class Trial:
    """One candidate through all its turns."""

    def __init__(self, line: Line, place: Place) -> None:
        self.party = MeasuredServer(line.text, place)
        self.starts_s: list[float] = []
        self._starter, self._place = CommandStarter(parse_command(line.text)), place

    def turn(self, number: int, work: Work, prompts: list[Prompt], limits: Limits, progress: Progress) -> str:
        """Measure one life, into the party's samples; why it did not run, or was too slow."""
        own = Own(self._place.system, self._place.snapshot.machine, progress, self._starter)
        own.timeout_s = limits.start_s
        try:
            with own.start({}) as bencher:
                self.starts_s.append(own.load_s)
                bencher.case = case_of(self._place.snapshot, bencher.subject)
                bencher.deadline_s = limits.request_s
                if why := warm_up(bencher, self.party, work):
                    return _reason(bencher) or why
                for prompt in prompts_of_life(bencher, work, prompts, own.load_s):
                    measure_request(bencher, self.party, work, prompt, number)
                    if bencher.failures:
                        return _reason(bencher)
                return "" if self.requests_s(number) else "its responses were too short to time"
        except UserError as error:
            return error.message

    def requests_s(self, number: int) -> list[float]:
        """What the requests of a round took."""
        return [s.request_s for s in self.party.samples if s.round == number and s.request_s is not None]


def limits_of(budget_s: float, left_s: float, best_s: float | None, *, is_new: bool) -> Limits:
    """Whoever was never measured is waited for only as long as it may still be of interest, and as there is time."""
    patient = max(_PATIENT_S, budget_s)
    if not is_new or best_s is None:
        return Limits(patient, patient)
    return Limits(max(_LEAST_LIMIT_S, left_s), max(_LEAST_LIMIT_S, min(TOO_SLOW * best_s, left_s)))


def _reason(bencher: Bencher) -> str:
    if not bencher.failures:
        return ""
    first = bencher.failures[0]
    if first.lasted_s >= bencher.deadline_s:
        return f"too slow: a request took longer than {bencher.deadline_s:.0f} s"
    return f"a request failed: {first.why}"
