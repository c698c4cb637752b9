"""Whether the measured speed falls short of what physics expects, also of one of several requests at once."""

import math

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, MissingFactError, Origin, Unknown
from unslow.think.case.bandwidth import computing_threads, copies_of, host_bandwidth
from unslow.think.case.demand import missing, read_shape
from unslow.think.case.narrative import blames, is_report
from unslow.think.case.prediction import MEASURE, Prediction, measured_rate, predict, predict_prefill
from unslow.think.case.questions import (
    chip_of_host,
    element_bytes_of,
    gpu_question,
    host_setting,
    host_work,
    left_on_host,
    samples_at_once,
)
from unslow.think.case.runtime import runs_paged
from unslow.think.case.work import (
    AS_USUAL,
    CROSSINGS,
    FETCHES,
    Cure,
    beside_parts,
    cured_placement,
    depth_of,
    with_settings,
)
from unslow.think.memo import once
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import Interval, interval_around
from unslow.think.physics.token_time import LOGITS_S_PER_ENTRY, Part
from unslow.think.speed.question import Host, SpeedQuestion, step_seconds

# What physics expects of many users at once, for a case as it is set up, or with a cure applied.
# A step reads the weights once for all users, computes for each, and draws a token for each, together or one by one.
# What one user gets is the prediction of this very machine; how many times as long a step for many takes is that of
# physics.


def expected_together(case: Case, users: int, depth: float, cure: Cure | None = None) -> float | None:
    """Tokens per second of so many users together, each at that depth; None where nothing tells."""
    if users < 1:
        return None
    known = Known(int(depth), Origin.MEASURED, "the depth that is asked about")
    case = msgspec.structs.replace(case, run=msgspec.structs.replace(case.run, depth_tokens=known))
    alone, longer = predict(case, cure), times_as_long(case, users, depth, cure)
    return users / (alone.seconds.mid * longer) if isinstance(alone, Prediction) and longer else None


@once
def times_as_long(case: Case, users: int, depth: float, cure: Cure | None = None) -> float | None:
    """How many times as long a step for so many takes as one for a single user; None where nothing tells."""
    cure = cure or Cure()
    case = with_settings(case, cure)
    try:
        shape = read_shape(case)
        placement = cured_placement(case, shape, cure)
        alone_s, step_s = (_step_s(case, shape, placement, depth, n) for n in (1, users))
        crowding_s = host_work(case, shape, placement, depth).crowding_s
    except MissingFactError:
        return None
    beside = beside_parts(case, shape, placement, cure, depth)
    shared = (CROSSINGS, FETCHES)
    for_all = sum(part.seconds for part in beside if part.name in shared) + crowding_s
    for_each = sum(part.seconds for part in beside if part.name not in shared) + shape.vocabulary * LOGITS_S_PER_ENTRY
    times = 1 if samples_at_once(case) else users
    return (step_s + for_all + times * for_each) / (alone_s + for_all + for_each)


@once
def _step_s(case: Case, shape: Shape, placement: Placement, depth: float, users: int) -> float:
    """Seconds of a step for so many, on GPUs and on the host, each with its part of the model."""
    found, totals = gpu_question(case, shape, placement, depth), left_on_host(case, shape, placement)
    host = None
    if totals.dense_bytes + totals.expert_bytes > 0:
        chip = chip_of_host(case, host_bandwidth(case)[0], computing_threads(case))
        host = Host(totals, chip, host_setting(case, placement))
    if found:
        question = found.question._replace(host=host)
    elif host:
        size = element_bytes_of(case)
        question = SpeedQuestion(None, host.chip, host.setting, depth=depth, element_bytes=size, host=host)
    else:
        raise missing("where the weights lie")
    return float(step_seconds(question._replace(tokens=float(users))))


OTHERS = "other requests in the same step"
SPREAD = 2.0
"""Of what a step takes longer for many: kernels for batches differ by half between runtimes, and not every runtime
tells how long the others are, or when a prompt of theirs came in between."""
PROMPTS = "prompts of other requests"
PROMPTS_SPREAD = 2.0
"""Of what prompts take of the steps that answers share with them: physics knows prompts less well than answers."""
MOST_PROMPTS = 0.85  # Of the time: a server that reads prompts for longer is said to, by what it does beside it
OFF = 1.25
"""How far off the share of prompts may well be, in times: near the whole that decides over many times as long a wait
for a token, and of a server that has hardly a moment beside prompts nobody knows how fast its answers should come."""
NEARLY_ALL = 0.99  # Of the time: more for prompts would leave no answers at all
_SEVERAL = 1.5  # Requests on average: fewer are one after the other


@once
def predict_among_others(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction for one of as many requests as were answered at once while it was watched."""
    alone = predict(case, cure)
    if not isinstance(alone, Prediction):
        return alone
    # A person's text may have the speed of requests that ran together: their caches may be as long as any
    untimed = not isinstance(case.run.decode_tokens_per_s, Known) and not isinstance(case.run.traffic, Known)
    if untimed and is_report(case) and case.runtime.running_requests.value_or(0) > 1:
        return Unknown("several requests shared it, and the text does not tell how long they were", MEASURE)
    together = _with(alone, Part(OTHERS, (times_longer(case, cure) - 1) * alone.seconds.mid, SPREAD))
    share = prompts_share(case, cure)
    most = NEARLY_ALL if share >= MOST_PROMPTS else min(NEARLY_ALL, OFF * share)
    spread = max(PROMPTS_SPREAD, _longer(most) / _longer(share)) if share else PROMPTS_SPREAD
    return _with(together, Part(PROMPTS, together.seconds.mid * _longer(share), spread))


def _longer(share: float) -> float:
    """How much longer steps take, as a share of them, where prompts take this share of the time."""
    return share / (1 - share)


def _with(prediction: Prediction, part: Part) -> Prediction:
    if part.seconds <= 0:
        return prediction
    longer = interval_around(part.seconds, part.spread)
    seconds = Interval(*(s + m for s, m in zip(prediction.seconds, longer, strict=True)))
    return prediction._replace(seconds=seconds, parts=[*prediction.parts, part])


def prompts_share(case: Case, cure: Cure | None = None) -> float:
    """The part of the time in which a server computes prompts while answers wait, by those that it read meanwhile.

    A request does not wait for its own prompt once it is being answered: those of the others are what is left.
    """
    traffic = case.run.traffic
    read = traffic.value.prompt_tokens_per_s.value_or(0.0) / copies_of(case) if isinstance(traffic, Known) else 0.0
    able = predict_prefill(case, cure) if read and isinstance(each_rate(case), Known) else None
    if not isinstance(able, Prediction):
        return 0.0
    of_others = 1 - 1 / max(1.0, requests_at_once(case))
    return min(MOST_PROMPTS, of_others * read / able.tokens_per_s.mid)


def rate_among_others(case: Case) -> Known[float] | Unknown:
    """The speed of a request: alone, else as it was seen among others."""
    each = each_rate(case)
    return each if isinstance(each, Known) else measured_rate(case)


def each_rate(case: Case) -> Known[float] | Unknown:
    """The speed of each of the requests that went on together; unknown where one alone was timed."""
    traffic, alone = case.run.traffic, case.run.decode_tokens_per_s
    return traffic.value.each_tokens_per_s if isinstance(traffic, Known) and isinstance(alone, Unknown) else NOT_LOOKED


def requests_at_once(case: Case) -> float:
    """How many requests shared a step while the speed of one was seen; 0 where nobody watched."""
    traffic = case.run.traffic
    if isinstance(traffic, Known):
        among = traffic.value.each_among if isinstance(each_rate(case), Known) else traffic.value.running
        return among / copies_of(case)
    # a log tells how many shared the steps whose speed it gives
    logged = not isinstance(case.run.decode_tokens_per_s, Known) and runs_paged(case)
    running = float(case.runtime.running_requests.value_or(0)) if logged and not is_report(case) else 0.0
    return running / copies_of(case)


def times_longer(case: Case, cure: Cure | None = None) -> float:
    """How many times as long as alone a token takes; 1 where one request had the server for itself, or nothing tells.

    With a cure it is that of the cured server: on a GPU many share a step for little more than one has it.
    """
    running = requests_at_once(case)
    if running < _SEVERAL:
        return 1.0
    return max(1.0, times_as_long(case, round(running), depth_of(case), cure) or 1.0)


WORTH_NAMING = 1.15  # A gain below this is no reason to call a system slow, nor to touch it


def shortfall(case: Case) -> float | None:
    """How many times slower than expected; 1 where the speed lies within the interval, None where it can't be told."""
    return lost_against(case, AS_USUAL)


def lost_against(case: Case, cure: Cure) -> float | None:
    """How many times slower than with a cure; 1 where it lies within that interval, None where it can't be told."""
    measured, expected = rate_among_others(case), predict_among_others(case, cure)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    rate = expected.tokens_per_s
    return 1.0 if measured.value >= rate.low else rate.mid / measured.value


def times_slower(case: Case, cure: Cure) -> float | None:
    """How many times slower than the middle of what is expected with a cure; None where it can't be told.

    For a cause whose presence was seen: then the interval's width, which all set-ups share, is no argument against it.
    """
    measured, expected = rate_among_others(case), predict_among_others(case, cure)
    if not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    return expected.tokens_per_s.mid / measured.value


def behaves_as_set_up(case: Case, cure: Cure) -> bool:
    """Whether a cure is worth naming by physics, and the measured speed is nearer to that without it than with it.

    Both predictions share their errors, so that their ratio is sharper than either interval.
    """
    now, slower = predict_among_others(case), times_slower(case, cure)
    then = predict_among_others(case, cure)
    if slower is None or not isinstance(now, Prediction) or not isinstance(then, Prediction):
        return False
    gain = now.seconds.mid / then.seconds.mid
    return gain >= WORTH_NAMING and slower >= math.sqrt(gain)


def generates_slowly(case: Case) -> bool | None:
    """Whether tokens come slower than they should: by physics, else by what a person says; None where neither tells."""
    lost = shortfall(case)
    if lost is not None:
        return lost > 1
    return True if blames(case, "decode") else None
