"""What a cause is: the facts that decide it, the routes by which it is found or ruled out, and its answers.

A cause is asked route by route, in the order in which it declares them:

- A route that answers `Found` or `Absent` decides, and no later one is asked.
- `Suspected` is kept: it is the answer only where no later route decides.
- `None` means that this route has nothing to say here. A missing fact (`MissingFactError`) passes to the next route
  too; where nothing decides, the first missing fact is what the person is asked for.

So the order is the order of trust. What was *measured* on this machine (timed, sampled, or tried) comes before what a
*log* or the runtime's own account says, that before what is *counted* (sizes, settings and physics held against each
other), and that before what a person *told*. Three exceptions: a trial that a person
made is an experiment on this very machine and comes first even where it was told; a route that can only find comes
before one that also rules out; and one that only says that the question makes no sense here may come before both.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from unslow.facts.account import Comparison, Remark
from unslow.facts.knob import Change
from unslow.facts.values import Absence, Known, MissingFactError, Unknown
from unslow.think.case.cure import Cure, Remedy
from unslow.think.case.group import Citations
from unslow.think.case.narrative import gain_of
from unslow.think.case.view import CaseView
from unslow.think.report import Cost, Evidence

__all__ = ["Absent", "CannotTell", "Cause", "Citations", "Found", "Remedy", "Route", "Suspected", "all_of", "finding"]
Phase = Literal["client", "queue", "load", "prefill", "decode"]
Need = str | tuple[str, ...]
Kind = Literal["measured", "log", "counted", "told"]  # What a route rests on, see above


class Found(NamedTuple):
    """The cause is there: why, the facts that show it, what is different without it, what to change.

    `explains` narrows or widens what the cause explains in general, where the facts of the case decide that.
    `speedup` is how many times faster it was without the cause, where a user tried: an experiment beats physics.
    `lost` is what the cause costs where that was measured itself, such as the seconds that a request waits.
    """

    because: str
    evidence: Citations
    cure: Cure | None = None
    remedies: tuple[Remedy, ...] = ()
    explains: tuple[str, ...] | None = None
    speedup: float | None = None
    sure: bool = False  # Whether it stands beside other causes, though it is a last resort
    lost: Cost | None = None
    apart: bool = False
    """Whether what it costs is not a part of the measured time of its phase: then nothing else shares it."""
    phase: Phase | None = None
    """The phase that it slows here, where that is not the cause's usual one."""


class Absent(NamedTuple):
    """The cause is not there, and why that is sure."""

    because: str


class Suspected(NamedTuple):
    """Something speaks for the cause, and the fact that would decide it is missing."""

    because: str
    missing: str
    how_to_get: str


class CannotTell(NamedTuple):
    """A fact that decides is missing, and how to get it; `suspected` says what speaks for the cause all the same."""

    missing: str
    why: str
    how_to_get: str
    suspected: str = ""


Answer = Found | Absent | Suspected


class Route(NamedTuple):
    """One way to look at a cause; the docstring of `look` says what it looks at."""

    kind: Kind
    look: Callable[[CaseView], Answer | None]


class Cause(NamedTuple):
    """One reason for slow inference. A need that is a tuple is met by any one of its facts.

    `gpu_only` causes are ruled out on a machine without a GPU before anything else is asked, those of what is `on_gpu`
    where the runtime uses none, and `ggml_only` ones in runtimes that are not built on llama.cpp. Of a load that failed
    only what `fails_load` matters. `ask` is the command that gets what decides, where the fact itself has no advice. A
    `last_resort` stands only where nothing else was found.
    """

    title: str
    phase: Phase
    needs: tuple[Need, ...]
    routes: tuple[Route, ...]
    explains: tuple[str, ...] = ()
    gpu_only: bool = False
    ask: str = ""
    last_resort: bool = False
    on_gpu: bool = False
    fails_load: bool = False
    ggml_only: bool = False
    not_on: tuple[str, ...] = ()
    """Systems that have nothing of the kind, unless it is in a container, which is a Linux of its own."""

    def check(self, case: CaseView) -> Answer:
        """The answer of the first route that decides; else the first suspicion; else the first missing fact raises."""
        suspicion, lacking = None, None
        for route in self.routes:
            try:
                answer = route.look(case)
            except MissingFactError as error:
                lacking = lacking or error
                continue
            if isinstance(answer, Found | Absent):
                return answer
            suspicion = suspicion or answer
        if suspicion:
            return suspicion
        raise lacking or MissingFactError(Unknown("no evidence either way"))


def all_of(*needs: str) -> tuple[Need, ...]:
    """The needs of a cause, in the words that people are told: either fact meets `run.turns or run.traffic`."""
    return tuple(tuple(need.split(" or ")) if " or " in need else need for need in needs)


def finding(  # noqa: PLR0913 (the fields of Found)
    case: CaseView,
    because: str,
    *shown_by: str | Evidence | Remark | Iterable[Evidence],
    cure: Cure | None = None,
    fixes: Iterable[Remedy | Change] = (),
    trial: Comparison | None = None,
    explains: tuple[str, ...] | None = None,
    speedup: float | None = None,
    sure: bool = False,
    lost: Cost | None = None,
    apart: bool = False,
    phase: Phase | None = None,
) -> Found:
    """The one way to say that a cause is there.

    `shown_by` are paths of facts, remarks, or evidence made by `case.cite`. A fix that is only a change cures as the
    cause does. A `trial` is cited last, and how much faster its fast side was is the speedup.
    """
    evidence = list[Evidence]()
    for one in shown_by:
        match one:
            case str():
                evidence.append(case.cite(one))
            case Remark():
                evidence.extend(case.narrative.cite_remarks([one]))
            case Evidence():
                evidence.append(one)
            case _:
                evidence.extend(one)
    if trial is not None:
        evidence.append(case.narrative.cite_comparison(trial))
        speedup = gain_of(trial) if speedup is None else speedup
    remedies = tuple(fix if isinstance(fix, Remedy) else Remedy(fix, cure) for fix in fixes)
    return Found(because, tuple(evidence), cure, remedies, explains, speedup, sure, lost, apart, phase)


def ruled_out_at_once(case: CaseView, cause: Cause) -> Absent | None:
    """Why a cause is out of the question here, whatever else is known; None where it is not."""
    if cause.gpu_only and isinstance(case.machine.gpus, Known) and not case.machine.gpus.value:
        return Absent("no GPU in this machine")
    if not case.narrative.is_report:
        if not cause.fails_load and case.runtime.state.get() == "failed":
            return Absent("the model was never loaded, so there is no speed to explain")
        if cause.ggml_only and case.engine.runs_ggml is False:
            return Absent(f"{case.engine.label} does nothing of the kind")
        if case.system.family in cause.not_on and not case.system.container:
            return Absent(f"{case.system.family} has nothing of the kind")
    return Absent("the runtime uses no GPU") if cause.on_gpu and case.placement.uses_no_gpu else None


def missing_need(case: CaseView, needs: tuple[Need, ...]) -> CannotTell | None:
    """The first need that the case does not meet."""
    for need in needs:
        paths = (need,) if isinstance(need, str) else need
        facts = [case.fact(path) for path in paths]
        if all(isinstance(fact, Unknown) for fact in facts):
            # of several, the one with the best advice
            best = max(facts, key=lambda fact: (bool(fact.how_to_get), fact.absence is not Absence.NOT_LOOKED))
            return CannotTell(" or ".join(paths), best.why, best.how_to_get)
    return None


# Routes that several causes have in common


def fast_enough(case: CaseView) -> Absent | None:
    """The measured speed against the expected one."""
    return Absent("decode is as fast as expected with these settings") if case.speed.is_slow is False else None


def threads_have_no_work(case: CaseView) -> Absent | None:
    """Threads matter only where the CPU computes a part of the model."""
    is_idle = case.placement.cpu_computes is False
    return Absent("all layers are on the GPU: the threads have next to nothing to do") if is_idle else None


def weights_failed(case: CaseView) -> Absent | None:
    """The weights themselves could not be allocated."""
    failure = case.runtime.memory.allocation_failure.get()
    return Absent("the weights themselves found no room") if failure and failure.what == "weights" else None
