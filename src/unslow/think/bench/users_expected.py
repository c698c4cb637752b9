"""What physics expects of many users at once, for a case as it is set up, or with a cure applied.

A step reads the weights once for all users, computes for each, and draws a token for each, together or one by one. What
one user gets is the prediction of this very machine; how many times as long a step for many takes is that of physics.
"""

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Origin
from unslow.think.adapt.bandwidth import computing_threads, host_bandwidth
from unslow.think.adapt.beside import CROSSINGS, FETCHES, beside_parts
from unslow.think.adapt.cure import Cure, with_settings
from unslow.think.adapt.cured_placement import cured_placement
from unslow.think.adapt.gpu_question import element_bytes_of, gpu_question, samples_at_once
from unslow.think.adapt.host_question import chip_of_host, host_setting, host_work, left_on_host
from unslow.think.adapt.remembered import once
from unslow.think.adapt.shape import missing, read_shape
from unslow.think.adapt.work import LOGITS_S_PER_ENTRY
from unslow.think.physics.placement import Placement, Shape
from unslow.think.predict import Prediction, predict
from unslow.think.speed.outcome import step_seconds
from unslow.think.speed.question import Host, Question


def expected_together(case: Case, users: int, depth: float, cure: Cure | None = None) -> float | None:
    """Tokens per second of so many users together, each at that depth; None where nothing tells."""
    if users < 1:
        return None
    case = _at(case, depth)
    alone, longer = predict(case, cure), times_as_long(case, users, depth, cure)
    return users / (alone.seconds.mid * longer) if isinstance(alone, Prediction) and longer else None


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


def _at(case: Case, depth: float) -> Case:
    known = Known(int(depth), Origin.MEASURED, "the depth that is asked about")
    return msgspec.structs.replace(case, run=msgspec.structs.replace(case.run, depth_tokens=known))


def _question(case: Case, shape: Shape, placement: Placement, depth: float) -> Question:
    """What a step asks of GPUs and of the host, each for its part of the model."""
    found, host = gpu_question(case, shape, placement, depth), _host(case, shape, placement)
    if found:
        return found.question._replace(host=host)
    if host is None:
        raise missing("where the weights lie")
    return Question(None, host.chip, host.setting, depth=depth, element_bytes=element_bytes_of(case), host=host)


def _host(case: Case, shape: Shape, placement: Placement) -> Host | None:
    totals = left_on_host(case, shape, placement)
    if totals.dense_bytes + totals.expert_bytes <= 0:
        return None
    chip = chip_of_host(case, host_bandwidth(case)[0], computing_threads(case))
    return Host(totals, chip, host_setting(case, placement))


@once
def _step_s(case: Case, shape: Shape, placement: Placement, depth: float, users: int) -> float:
    question = _question(case, shape, placement, depth)
    return float(step_seconds(question._replace(tokens=float(users))))
