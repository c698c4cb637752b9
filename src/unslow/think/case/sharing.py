"""Requests that share a server: how fast one of them is, and what physics expects of many at once.

A step reads the weights once for all users, computes for each, and samples for each, together or one by one. What one
user gets is the prediction of this very machine; how many times as long a step for many takes is that of physics.
"""

from functools import cached_property

from unslow.facts.values import NOT_LOOKED, Known, MissingFactError, Unknown, first_known
from unslow.think.case.cure import Cure
from unslow.think.case.group import Group, missing, remember
from unslow.think.case.physics import CROSSINGS, FETCHES
from unslow.think.case.speed import MEASURE, Prediction
from unslow.think.physics.placement import Placement, Shape
from unslow.think.physics.terms import Interval, interval_around
from unslow.think.physics.token_time import LOGITS_S_PER_ENTRY, Part
from unslow.think.speed.question import Host, SpeedQuestion, step_seconds

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


class SharingView(Group):
    """The speed of a request among others, as measured and as expected."""

    @remember
    def predict_among_others(self, cure: Cure | None = None) -> Prediction | Unknown:
        """The prediction for one of as many requests as were answered at once while it was watched."""
        alone = self.case.speed.predict(cure)
        if not isinstance(alone, Prediction):
            return alone
        # A person's text may have the speed of requests that ran together: their caches may be as long as any
        untimed = not isinstance(self.run.decode_tokens_per_s, Known) and not isinstance(self.run.traffic, Known)
        if untimed and self.case.narrative.is_report and self.runtime.scheduling.running_requests.value_or(0) > 1:
            return Unknown("several requests shared it, and the text does not tell how long they were", MEASURE)
        together = _with(alone, Part(OTHERS, (self.times_longer(cure) - 1) * alone.seconds.mid, SPREAD))
        share = self.prompts_share(cure)
        most = NEARLY_ALL if share >= MOST_PROMPTS else min(NEARLY_ALL, OFF * share)
        spread = max(PROMPTS_SPREAD, _longer(most) / _longer(share)) if share else PROMPTS_SPREAD
        return _with(together, Part(PROMPTS, together.seconds.mid * _longer(share), spread))

    @cached_property
    def rate_among_others(self) -> Known[float] | Unknown:
        """The speed of a request: alone, else as it was seen among others."""
        each = self.each_rate
        return each if isinstance(each, Known) else self.case.speed.measured_rate

    @cached_property
    def each_rate(self) -> Known[float] | Unknown:
        """The speed of each of the requests that went on together; unknown where one alone was timed."""
        traffic = self.run.traffic
        if isinstance(traffic, Known) and isinstance(self.run.decode_tokens_per_s, Unknown):
            return traffic.value.each_tokens_per_s
        return NOT_LOOKED

    @cached_property
    def requests_at_once(self) -> float:
        """How many requests shared a step while the speed of one was seen; 0 where nobody watched."""
        traffic = self.run.traffic
        if isinstance(traffic, Known):
            among = traffic.value.each_among if isinstance(self.each_rate, Known) else traffic.value.running
            return among / self.case.gpus.model_copies
        # a log tells how many shared the steps whose speed it gives
        logged = not isinstance(self.run.decode_tokens_per_s, Known) and self.case.engine.runs_paged
        if not logged or self.case.narrative.is_report:
            return 0.0
        return float(self.runtime.scheduling.running_requests.value_or(0)) / self.case.gpus.model_copies

    def times_longer(self, cure: Cure | None = None) -> float:
        """How many times as long as alone a token takes; 1 for a single request, or where nothing says.

        With a cure it is that of the cured server: on a GPU many share a step for little more than one has it.
        """
        running = self.requests_at_once
        if running < _SEVERAL:
            return 1.0
        return max(1.0, self.times_as_long(round(running), self.case.speed.depth, cure) or 1.0)

    def prompts_share(self, cure: Cure | None = None) -> float:
        """The part of the time in which a server computes prompts while answers wait, by those that it read meanwhile.

        A request does not wait for its own prompt once it is being answered: those of the others are what is left.
        """
        traffic = self.run.traffic
        in_all = 0.0
        if isinstance(traffic, Known):  # prompts often come in waves, between which the speed of each was seen
            meanwhile = first_known(traffic.value.each_prompt_tokens_per_s, traffic.value.prompt_tokens_per_s)
            in_all = meanwhile.value_or(0.0)
        read = in_all / self.case.gpus.model_copies
        able = self.case.speed.predict_prefill(cure) if read and isinstance(self.each_rate, Known) else None
        if not isinstance(able, Prediction):
            return 0.0
        of_others = 1 - 1 / max(1.0, self.requests_at_once)
        return min(MOST_PROMPTS, of_others * read / able.tokens_per_s.mid)

    def expected_together(self, users: int, depth: float, cure: Cure | None = None) -> float | None:
        """Tokens per second of this many users together, each at that depth; None where nothing tells."""
        if users < 1:
            return None
        case = self.case.at_depth(int(depth))
        alone, longer = case.speed.predict(cure), case.sharing.times_as_long(users, depth, cure)
        return users / (alone.seconds.mid * longer) if isinstance(alone, Prediction) and longer else None

    @remember
    def times_as_long(self, users: int, depth: float, cure: Cure | None = None) -> float | None:
        """How many times as long a step for `users` takes as one for a single user; None where nothing tells."""
        cure = cure or Cure()
        case = self.case.with_cure(cure)
        try:
            shape = case.memory.shape
            placement = case.placement.with_cure(shape, cure)
            alone_s, step_s = (case.sharing.step_s(shape, placement, depth, n) for n in (1, users))
            crowding_s = case.physics.host_work(shape, placement, depth).crowding_s
        except MissingFactError:
            return None
        beside = case.physics.beside_parts(shape, placement, cure, depth)
        shared = (CROSSINGS, FETCHES)
        for_all = sum(part.seconds for part in beside if part.name in shared) + crowding_s
        for_each = sum(part.seconds for part in beside if part.name not in shared)
        for_each += shape.vocabulary * LOGITS_S_PER_ENTRY
        times = 1 if case.physics.learned_runtime else users  # llama.cpp samples the tokens of users one by one
        return (step_s + for_all + times * for_each) / (alone_s + for_all + for_each)

    @remember
    def step_s(self, shape: Shape, placement: Placement, depth: float, users: int) -> float:
        """Seconds of a step for `users`, on GPUs and on the host, each with its part of the model."""
        physics, host = self.case.physics, None
        found, totals = physics.gpu_question(shape, placement, depth), physics.left_on_host(shape, placement)
        if totals.dense_bytes + totals.expert_bytes > 0:
            chip = physics.host_chip(self.case.host.bandwidth[0], self.case.host.computing_threads())
            host = Host(totals, chip, physics.host_setting(placement))
        if found:
            question = found.question._replace(host=host)
        elif host:
            size = physics.cache_element_bytes
            question = SpeedQuestion(None, host.chip, host.setting, depth=depth, element_bytes=size, host=host)
        else:
            raise missing("where the weights are")
        return float(step_seconds(question._replace(tokens=float(users))))


def _longer(share: float) -> float:
    """How much longer steps take, as a share of them, where prompts take this share of the time."""
    return share / (1 - share)


def _with(prediction: Prediction, part: Part) -> Prediction:
    if part.seconds <= 0:
        return prediction
    longer = interval_around(part.seconds, part.spread)
    seconds = Interval(*(s + m for s, m in zip(prediction.seconds, longer, strict=True)))
    return prediction._replace(seconds=seconds, parts=[*prediction.parts, part])
