"""What a token takes while a server answers several requests: each waits for the step that all of them share."""

from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Unknown
from unslow.think.adapt.experiments import is_report
from unslow.think.adapt.remembered import remembered
from unslow.think.adapt.runtime_family import runs_paged
from unslow.think.adapt.several_gpus import copies_of
from unslow.think.adapt.work import Cure, depth_of
from unslow.think.bench.users_expected import times_as_long
from unslow.think.physics.decode import Part
from unslow.think.physics.interval import Interval, around
from unslow.think.predict import MEASURE, Prediction, measured_rate, predict, predict_prefill

OTHERS = "other requests in the same step"
SPREAD = 2.0
"""Of what a step takes longer for many: kernels for batches differ by half between runtimes, and not every runtime
tells how long the others are, or when a prompt of theirs came in between."""
PROMPTS = "prompts of other requests"
PROMPTS_SPREAD = 2.0
"""Of what prompts take of the steps that answers share with them: physics knows prompts less well than answers."""
MOST_PROMPTS = 0.85
"""Of the time: a server that reads prompts for longer is said to, by what it does beside it."""
OFF = 1.25
"""How far off the share of prompts may well be, in times: near the whole that decides over many times as long a wait
for a token, and of a server that has hardly a moment beside prompts nobody knows how fast its answers should come."""
NEARLY_ALL = 0.99
"""Of the time: more for prompts would leave no answers at all."""
_SEVERAL = 1.5
"""Requests on average: fewer are one after the other."""


def predict_among_others(case: Case, cure: Cure | None = None) -> Prediction | Unknown:
    """The prediction for one of as many requests as were answered at once while it was watched."""
    return remembered(case, ("among others", cure), lambda: _predicted_among_others(case, cure))


def _predicted_among_others(case: Case, cure: Cure | None) -> Prediction | Unknown:
    alone = predict(case, cure)
    if not isinstance(alone, Prediction):
        return alone
    if _is_told_of_many(case):
        return Unknown("several requests shared it, and the text does not tell how long they were", MEASURE)
    together = _with(alone, Part(OTHERS, (times_longer(case, cure) - 1) * alone.seconds.mid, SPREAD))
    share = prompts_share(case, cure)
    return _with(together, Part(PROMPTS, together.seconds.mid * _longer(share), _spread(share)))


def _longer(share: float) -> float:
    """How much longer steps take, as a share of them, where prompts take this share of the time."""
    return share / (1 - share)


def _spread(share: float) -> float:
    most = NEARLY_ALL if share >= MOST_PROMPTS else min(NEARLY_ALL, OFF * share)
    return max(PROMPTS_SPREAD, _longer(most) / _longer(share)) if share else PROMPTS_SPREAD


def _with(prediction: Prediction, part: Part) -> Prediction:
    """The prediction with one part more, where that takes any time."""
    if part.seconds <= 0:
        return prediction
    longer = around(part.seconds, part.spread)
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
    return _answered_at_once(case) / copies_of(case)


def _answered_at_once(case: Case) -> float:
    traffic = case.run.traffic
    if isinstance(traffic, Known):
        return traffic.value.each_among if isinstance(each_rate(case), Known) else traffic.value.running
    # a log tells how many shared the steps whose speed it gives
    logged = not isinstance(case.run.decode_tokens_per_s, Known) and runs_paged(case)
    return float(case.runtime.running_requests.value_or(0)) if logged and not is_report(case) else 0.0


def _is_told_of_many(case: Case) -> bool:
    """Whether a person's text has the speed of requests that ran together: their caches may be as long as any."""
    untimed = not isinstance(case.run.decode_tokens_per_s, Known) and not isinstance(case.run.traffic, Known)
    return untimed and is_report(case) and case.runtime.running_requests.value_or(0) > 1


def times_longer(case: Case, cure: Cure | None = None) -> float:
    """How many times as long as alone a token takes; 1 where one request had the server for itself, or nothing tells.

    With a cure it is that of the cured server: on a GPU many share a step for little more than one has it.
    """
    running = requests_at_once(case)
    if running < _SEVERAL:
        return 1.0
    longer = remembered(case, ("times longer", cure), lambda: times_as_long(case, round(running), depth_of(case), cure))
    return max(1.0, longer or 1.0)
