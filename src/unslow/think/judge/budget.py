"""Where the time goes: of a token, of a prompt token, of a request, each with what nothing explains as a part."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import FULLY_BUSY, gpu_samples
from unslow.think.case.prediction import Prediction
from unslow.think.case.slowness import OTHERS, PROMPTS
from unslow.think.case.waits import detour_s, preparing_s, waiting_s
from unslow.think.case.work import COPIES, CROSSINGS, FETCHES, LOGPROBS, SORTING
from unslow.think.causes import all_causes
from unslow.think.causes._evidence import host_at_work
from unslow.think.judge.phases import PER, Outlook, Pace, losing_phases
from unslow.think.physics import decode
from unslow.think.physics.links import LINK
from unslow.think.physics.token_time import CROWD, QUOTA, SAMPLING, Part
from unslow.think.report import BudgetPart

READING, SWAPPING, SHARED = "reading weights from disk", "memory coming back from swap", "another process on the GPU"
UNEXPLAINED, WAITING = "unexplained", "waiting for a CPU"
DETOUR, PREPARING, CLIENT = "finding the server", "making ready for a request", "the client, or what lies between"
SAMPLERS = "samplers, as tried"
WHOLE = {"queue": "waiting for its turn", "load": "loading the model"}
"""What a phase is as a whole: nothing in it is left to explain."""
OTHER = "other"  # What a part is called that has none of these names
CALIBRATED = ("weights", "operations", "experts", "rows", "vocabulary", "attention", "step")
"""The parts of a calibrated machine, by the rates that were measured."""
NAMES = frozenset({
    *CALIBRATED,
    decode.COMPUTE, decode.HOST_ATTENTION, decode.HOST_COMPUTE, decode.HOST_LAYERS, decode.HOST_READS,
    decode.LAUNCHED_ONE_BY_ONE, decode.LAUNCHES, LINK, decode.READS, decode.ROUND_TRIP,
    CLIENT, COPIES, CROSSINGS, CROWD, DETOUR, FETCHES, LOGPROBS, OTHERS, PREPARING, PROMPTS, QUOTA, READING,
    SAMPLERS, SAMPLING, SHARED, SORTING, SWAPPING, UNEXPLAINED, WAITING, *WHOLE.values(),
})  # fmt: skip
OF_ANY_WORK = frozenset({"gpu_shared_with_other_work"})  # What slows the reading of prompts just as it slows answers
_ROUNDING = 1e-9  # what sums of floats leave over of a time that is explained whole


def budget(
    case: Case, outlook: Outlook, found: Collection[str], beyond_physics: Mapping[str, float]
) -> tuple[BudgetPart, ...]:
    """Every measured phase that costs time, in the order of a request; each sums to what was measured of it.

    `beyond_physics` is what causes take of a token that were found and have no other part, in seconds by name.
    """
    # What the server does not compute; the computed phases have budgets of their own
    outside = list[BudgetPart]()
    for phase, seconds in ((t.phase, t.seconds) for t in losing_phases(outlook.times) if t.phase not in PER):
        if phase in WHOLE:
            named = {PREPARING if phase == "queue" and preparing_s(case) == seconds else WHOLE[phase]: seconds}
        else:
            detour = min(seconds, detour_s(case) or 0.0)
            named = {DETOUR: detour, CLIENT: seconds - detour if "client_overhead" in found else 0.0}
        outside += _split(phase, [Part(name, s, 1.0) for name, s in named.items() if s], seconds, {})
    prompt, token = outlook.prefill, outlook.decode
    # what else was watched, was watched while tokens were generated
    with_others = dict(found_parts(case, OF_ANY_WORK.intersection(found), prompt).values())
    parts = prompt.now.parts if isinstance(prompt.now, Prediction) else []
    reading = _split("prefill", parts, prompt.measured_s, with_others) if prompt.measured_s else ()
    beyond = {**dict(found_parts(case, found, token).values()), **beyond_physics}
    known = token.now if isinstance(token.now, Prediction) else None
    answering = decode_budget(case, known, token.measured_s, beyond) if token.measured_s else ()
    return (*outside, *reading, *answering)


def decode_budget(
    case: Case, prediction: Prediction | None, measured_s: float, beyond: Mapping[str, float]
) -> tuple[BudgetPart, ...]:
    """The measured time of a token, split as physics splits it; where it was faster, all parts shrink together.

    `beyond` is what was found of which physics knows nothing, in seconds by name.
    """
    # beyond what its own threads cost each other by physics, the kernel's count tells whatever else they waited for
    waiting = waiting_s(case, measured_s, prediction)
    parts = prediction.parts if prediction else []
    if isinstance(case.run.plain_sampling, Known):  # what samplers take by a trial is more than a sort
        parts = [part._replace(name=SAMPLERS) if part.name == SORTING else part for part in parts]
    return _split("decode", parts, measured_s, {WAITING: waiting, **beyond} if waiting else beyond)


def _split(phase: str, parts: Sequence[Part], measured_s: float, beyond: Mapping[str, float]) -> tuple[BudgetPart, ...]:
    predicted = sum(p.seconds for p in parts)
    scale = min(1.0, measured_s / predicted) if predicted else 0.0
    left, asked = max(0.0, measured_s - predicted * scale), sum(beyond.values())
    fair = min(1.0, left / asked) if asked else 0.0  # threads also wait while a disk reads: nothing is counted twice
    split = [(p.name, p.seconds * scale) for p in parts]
    split += [(name, seconds * fair) for name, seconds in beyond.items()]
    rest = left - asked * fair
    split.append((UNEXPLAINED, rest if rest > _ROUNDING * measured_s else 0.0))
    longest_first, per = sorted(split, key=lambda part: -part[1]), PER.get(phase, "request")
    return tuple(BudgetPart(phase=phase, part=name, seconds=seconds, per=per) for name, seconds in longest_first)


def found_parts(case: Case, found: Collection[str], pace: Pace) -> dict[str, tuple[str, float]]:
    """By cause: the name of its part, and its seconds of a token by itself; none where nothing tells.

    Physics has no part for these causes: it reckons with weights that stay in memory, and with a GPU that nobody else
    uses. Only what physics leaves unexplained is theirs, and never a cause's that was not found.
    """
    if not pace.measured_s or not isinstance(pace.now, Prediction):
        return {}
    left = max(0.0, pace.measured_s - pace.now.seconds.mid)
    told: dict[str, tuple[str, Callable[[Case], float | None]]] = {
        "weights_streamed_from_disk": (READING, _reading),
        "swapping": (SWAPPING, _swapping),
        "gpu_shared_with_other_work": (SHARED, _shared),
    }
    shares = {cause: (name, share(case)) for cause, (name, share) in told.items() if cause in found}
    seconds = {cause: (name, min(left, s * pace.measured_s)) for cause, (name, s) in shares.items() if s}
    return {cause: part for cause, part in seconds.items() if part[1] > 0}


def _reading(case: Case) -> float | None:
    """The share of the time in which the disk gives weights: what it gave on average over the most it was seen give."""
    read, back = host_at_work(case, "disk_read_bytes_per_s"), host_at_work(case, "swap_in_bytes_per_s")
    if read is None or read.high <= 0:
        return None
    return max(0.0, read.mean - (back.mean if back else 0.0)) / read.high


def _swapping(case: Case) -> float | None:
    back = host_at_work(case, "swap_in_bytes_per_s")
    return back.mean / back.high if back and back.high > 0 else None


def _shared(case: Case) -> float | None:
    """All that is left where the GPU never pauses, else the share of the time that kernels of others run.

    The driver counts a process in few and coarse samples: 9 % of a GPU that a second server slowed by a quarter.
    """
    gpus = [gpu for _, gpu in gpu_samples(case)]
    if any(gpu.busy.value_or(0.0) >= FULLY_BUSY for gpu in gpus):
        return 1.0
    return max((gpu.others_busy.value for gpu in gpus if isinstance(gpu.others_busy, Known)), default=None)


def part_name(part: str) -> str:
    """The part by its fixed name: a cause that has no part in physics goes by its id, which outlives its title."""
    return part if part in NAMES else _causes().get(part, OTHER)


@cache
def _causes() -> dict[str, str]:
    return {f"{cause.title[0].lower()}{cause.title[1:]}": name for name, cause in all_causes().items()}
