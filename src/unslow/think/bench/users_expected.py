"""What physics expects of many users at once, for a case as it is set up.

A step reads the weights once for all users, computes for each, and draws a token for each, together or one by one.
"""

from unslow.facts.snapshot import Case
from unslow.facts.values import MissingFactError, Unknown
from unslow.think.adapt.bandwidth import cores_of
from unslow.think.adapt.exact import plan_of
from unslow.think.adapt.gpu_question import gpu_question, samples_at_once
from unslow.think.adapt.placement import read_placement
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.work import LOGITS_S_PER_ENTRY
from unslow.think.physics.chip import Setting
from unslow.think.predict import predict
from unslow.think.speed.chips import host_chip
from unslow.think.speed.load import model_load
from unslow.think.speed.outcome import step_seconds
from unslow.think.speed.question import Host, Question
from unslow.think.speed.totals import totals
from unslow.think.speed.types import class_of_model


def expected_together(case: Case, users: int, depth: float) -> float | None:
    """Tokens per second of so many users together, each at that depth; None where nothing tells.

    It is known for models that lie on GPUs as a whole, or not at all on one: for what is shared nothing was learned.
    """
    if users < 1:
        return None
    try:
        shape = read_shape(case)
        placement = read_placement(case, shape)
        sampling = (1 if samples_at_once(case) else users) * shape.vocabulary * LOGITS_S_PER_ENTRY
        if not placement.gpu_layers:
            return _on_cpu(case, users, depth, sampling)
        found = gpu_question(case, shape, placement, depth) if placement.gpu_layers >= shape.layers else None
    except MissingFactError:
        return None
    return users / (_step_s(found.question, users) + sampling) if found else None


def _on_cpu(case: Case, users: int, depth: float, sampling: float) -> float | None:
    """What one user is expected to get on this very machine, times what more users gain by the physics of CPUs."""
    alone, question = predict(case), _cpu_question(case, depth)
    if isinstance(alone, Unknown) or question is None:
        return None
    gain = users * (_step_s(question, 1) + sampling / users) / (_step_s(question, users) + sampling)
    return alone.tokens_per_s.mid * gain


def _cpu_question(case: Case, depth: float) -> Question | None:
    plan = plan_of(case)
    if plan is None:
        return None
    memory = case.machine.memory
    threads = min(case.runtime.threads.value_or(0) or cores_of(case), cores_of(case))
    rate = memory.read_bytes_per_s.need()
    rate = min(rate, threads * memory.read_one_core_bytes_per_s.value_or(rate))
    chip = host_chip(rate, threads)
    setting = Setting("cpu", types=class_of_model(plan))
    return Question(None, chip, setting, depth=depth, host=Host(totals(model_load(plan)), chip, setting))


def _step_s(question: Question, users: int) -> float:
    return float(step_seconds(question._replace(tokens=float(users))))
