"""What the samplers of a case have to do for each token, and what that costs."""

import re
from functools import cached_property

from unslow.facts.account import Comparison, Topic
from unslow.think.case.cure import Cure
from unslow.think.case.group import Citations, Group
from unslow.think.case.narrative import WORTH_COMPARING, slow_side_has
from unslow.think.case.speed import SLOWEST, Prediction
from unslow.think.physics.token_time import logprobs_s, sorting_s

LEAST_SHARE = 0.1  # Of a token's time: sampling that takes less is not what makes it slow
MOST_SHARE = 0.9  # Of a measured token: an estimate of its sorting must leave some time for the rest
LONGEST_GRAMMAR = 40  # Letters of a grammar in a sentence: it is recognized by its start
_OVERRIDDEN = re.compile(
    r"sampling parameters have been overridden .{0,120}?generation.config.{0,40}?\{([^{}]{1,120})\}"
)
_WORK = (
    "runtime.sampling.top_k", "runtime.sampling.grammar",
    "run.traffic.top_k", "run.traffic.grammar", "run.traffic.logprobs",
)  # fmt: skip


class SamplerView(Group):
    """The settings of the server and of its requests that decide how a token is chosen."""

    @cached_property
    def gain_without(self) -> float | None:
        """How many times faster the measured request is without any sampler; None where that was not measured."""
        turns = self.case.speed.sampling_turns
        return turns.value.plain / turns.value.as_set if turns and turns.value.as_set > SLOWEST else None

    @cached_property
    def on_gpu(self) -> bool:
        """Whether the engine chooses tokens where it computes them, as those do that page their cache."""
        return self.case.engine.runs_paged is True and not self.case.gpus.has_none

    @cached_property
    def set_by_model(self) -> str:
        """The samplers that the model's files set for every request, as vLLM's log warns; empty where it does not."""
        said = (_OVERRIDDEN.search(line) for line in self.runtime.history.warnings.value_or(()))
        found = next((match for match in said if match), None)
        return found[1].replace("'", "") if found else ""

    @cached_property
    def cost_nothing(self) -> bool:
        """Whether a request without samplers was measured as no faster; a server's grammar stays in force in both."""
        gain = self.gain_without
        return gain is not None and gain < WORTH_COMPARING and not self.runtime.sampling.grammar.get()

    @cached_property
    def told_trial(self) -> Comparison | None:
        """Two speeds that a person told, with and without a grammar, a sampler or logprobs."""
        topics = (Topic.GRAMMAR, Topic.SAMPLER, Topic.LOGPROBS)
        trial = self.case.narrative.experiment_on(*topics, Topic.DEPTH, metrics=("decode",))
        named = [topic for topic in trial.differs if topic is not Topic.DEPTH] if trial else []
        return trial if trial and named and slow_side_has(trial, *named) is not False else None

    @cached_property
    def sorts_whole_vocabulary(self) -> bool:
        """Whether the server's top_k is known to be 0, so that nothing cuts the list before it is sorted."""
        return self.runtime.sampling.top_k.value_or(1) <= 0

    @cached_property
    def sort_share(self) -> float | None:
        """The part of a token's time that sorting the whole vocabulary takes; None where that is unknown.

        Of the expected time, so that another cause does not hide it; else of the measured time.
        """
        entries, rate = self.model.vocabulary.get(), self.case.speed.measured_rate.get()
        expected = self._share(sorting_s(entries)) if entries else None
        if expected is not None or not entries or rate is None:
            return expected
        return min(MOST_SHARE, sorting_s(entries) * rate)

    @cached_property
    def requested_share(self) -> float | None:
        """The part of a token's time that sorts and logprobs of the watched requests take; None where unknown."""
        traffic, entries = self.run.traffic.get(), self.model.vocabulary.get()
        if traffic is None or not entries:
            return None
        sort_s = sorting_s(entries) if traffic.top_k.value_or(1) <= 0 else 0.0  # a default top_k cuts the list first
        return self._share(sort_s + logprobs_s(traffic.logprobs.value_or(0), entries))

    def _share(self, seconds: float) -> float | None:
        plain = self.case.speed.predict(Cure(plain_sampling=True))
        return seconds / (seconds + plain.seconds.mid) if isinstance(plain, Prediction) else None

    @cached_property
    def requests_may_cost(self) -> bool:
        """Whether watched requests ask for a grammar, or for a full sort or logprobs that are not known to be cheap."""
        traffic, share = self.run.traffic.get(), self.requested_share
        if traffic is None:
            return False
        listed = traffic.top_k.value_or(1) <= 0 or bool(traffic.logprobs.get())
        return bool(traffic.grammar.get()) or (listed and (share is None or share >= LEAST_SHARE))

    @cached_property
    def work(self) -> tuple[str, Citations]:
        """What they have to do beyond the default, in words, and the facts that show it."""
        paths = dict[str, str]()
        for path in _WORK:
            value, name = self.case.fact(path).get(), path.rpartition(".")[2]
            if name == "top_k" and value is not None and value <= 0:
                paths["a full sort of the vocabulary (top_k 0)"] = path
            elif name == "grammar" and value:
                paths[f"a grammar ({start_of(value)})"] = path
            elif name == "logprobs" and value:
                paths[f"logprobs of {value} tokens"] = path
        return " and ".join(paths) or "the configured samplers", tuple(self.case.cite(path) for path in paths.values())


def start_of(grammar: str) -> str:
    """A grammar on one line, cut short."""
    line = " ".join(grammar.split())
    return line if len(line) <= LONGEST_GRAMMAR else f"{line[:LONGEST_GRAMMAR]}..."
