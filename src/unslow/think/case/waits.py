"""What a request waits for while nothing is computed for it."""

import re
import statistics
from functools import cached_property

from unslow.facts.run import Completion, Traffic
from unslow.facts.values import Known, Origin, first_known
from unslow.think.case.engine import EACH
from unslow.think.case.group import Group
from unslow.think.case.speed import SLOWEST
from unslow.think.report import Cost, Evidence

# What a request waits for while nothing is computed for it: the way to the server, its turn, a load.
# Between a request's arrival and the reading of its prompt a server works too: llama.cpp first saves the prompt that
# the slot held before. On one machine, by the server's number, nobody else can take that time, so it is the server's.

NOTICED_S = 0.5  # Seconds of every request that nobody overlooks
SOMEBODY = 0.5  # Requests that wait on average: fewer are those that come a moment too early
USUAL_ANSWER = 256
"""Tokens of an answer where none was measured: it only weighs phases against each other. Answers in two collections of
people's questions have 58 (Alpaca) and 338 (ShareGPT) on average: Kwon et al. 2023, "Efficient Memory Management for
Large Language Model Serving with PagedAttention", figure 11."""
LEAST_HELD_S = 1.0  # Before a first piece, beyond what the server itself took: people notice a second
MOST_OF_IT, AT_ONCE = 0.8, 0.2
"""Of the time that the server took for an answer: waited for without a token, and in which all tokens then came."""
IN_BURSTS = 0.3  # Of the same: a stream that stands still for so long is no stream
LONGEST_PREPARING_S = 1.0
"""Copying a prompt's cache within RAM takes less: a longer pause has somebody else in between, such as a proxy."""
ALIKE = 0.9  # Of the longest delay before a first token: waiting for a CPU varies more than this
_BY_NUMBER = re.compile(r"^https?://(?:127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)")


class WaitView(Group):
    """Time in which a request is not computed."""

    @cached_property
    def completions(self) -> tuple[Completion, ...]:
        """The requests that were timed."""
        done: tuple[Completion, ...] = self.run.completions.value_or(())
        return done

    @cached_property
    def server_timed(self) -> tuple[Completion, ...]:
        """Those of which the server told its own times: of others nothing lies between its time and the client's."""
        return tuple(c for c in self.completions if not c.timed_by_client)

    @cached_property
    def answer_tokens(self) -> float:
        """How long an answer is here."""
        lengths = [c.generated_tokens for c in self.completions if c.generated_tokens]
        return statistics.fmean(lengths) if lengths else USUAL_ANSWER

    @cached_property
    def client_s(self) -> float | None:
        """Seconds of a request that the server does not account for: by the requests, and by the route to it."""
        whole = [c.client_total_s - c.prefill_s - c.decode_s for c in self.server_timed if c.client_total_s is not None]
        beside = (self.queue_s or 0.0) + (self.reload_s or 0.0)
        by_requests = max(0.0, statistics.median(whole) - beside) if whole else None
        known = (by_requests, self.detour_s, self.held_up_s or None)
        return max((seconds for seconds in known if seconds is not None), default=None)

    @cached_property
    def held_back_s(self) -> float:
        """Seconds for which something holds back what the server generates, entirely or in bursts; else 0."""
        runs = [c for c in self.completions if c.client_first_token_s is not None and c.decode_s > 0]
        if runs and all(is_held_back(c) for c in runs):
            return statistics.median((c.client_first_token_s or 0.0) - c.prefill_s for c in runs)
        paused = [c.held_back_s for c in runs if not c.drafted_tokens]
        pauses = statistics.median(paused) if paused else 0.0
        usual = statistics.median([c.decode_s for c in runs] or [0.0])
        return pauses if pauses >= max(NOTICED_S, IN_BURSTS * usual) else 0.0

    @cached_property
    def held_up_s(self) -> float:
        """The same as a price: a server that generates too slowly holds the answer up as well, by its part."""
        return self.held_back_s / max(1.0, self.case.speed.shortfall or 1.0)

    @cached_property
    def detour_s(self) -> float | None:
        """How much longer the slowest name of the server takes to answer than the quickest."""
        routes = [r.seconds for r in self.run.routes.value_or(()) if r.seconds is not None]
        return max(routes) - min(routes) if len(routes) > 1 else None

    @cached_property
    def is_mean_of_past(self) -> bool:
        """Whether the wait for a turn is a mean of all requests so far, of which none waits now."""
        known, crowd = self.run.queue_s, self.run.traffic
        if not isinstance(known, Known) or known.origin is not Origin.ESTIMATED:
            return False
        if isinstance(crowd, Known) and crowd.value.counts_waiting:
            return crowd.value.waiting < SOMEBODY
        return self.runtime.scheduling.deferred_requests.value_or(1) == 0

    @cached_property
    def queue_s(self) -> float | None:
        """Seconds that a request waits in the server before its prompt is read."""
        known = self.run.queue_s
        if isinstance(known, Known) and not self.is_mean_of_past:
            return known.value
        crowd = self.run.traffic
        if not isinstance(crowd, Known) or not crowd.value.running:
            return self.preparing_s
        return self.watched_queue_s

    @cached_property
    def watched_queue_s(self) -> float | None:
        """The same by those that were seen to wait; None where nobody watched, or no speed is known.

        Little's law: as many wait as come in while one waits, and what runs now takes as long as an answer does.
        """
        crowd, rate = self.run.traffic, self.case.speed.measured_rate
        if not isinstance(crowd, Known) or not crowd.value.running or not isinstance(rate, Known):
            return None
        return crowd.value.waiting / crowd.value.running * self.answer_tokens / max(rate.value, SLOWEST)

    @cached_property
    def longest_queue_s(self) -> float | None:
        """How long a request waits: as timed while it was watched, else the longest that anything suggests.

        A mean since the server started may be one of quieter times.
        """
        timed, cost = self.run.queue_s, self.turn_cost
        if isinstance(timed, Known) and timed.origin is not Origin.ESTIMATED:
            return timed.value
        known = (timed.get(), self.watched_queue_s, cost.seconds if cost else None)
        return max((seconds for seconds in known if seconds is not None), default=None)

    @cached_property
    def preparing_s(self) -> float | None:
        """Seconds that an idle local server takes to prepare for a request; None where others may take them."""
        gaps = [c.client_first_token_s - c.prefill_s for c in self.server_timed if c.client_first_token_s is not None]
        if not gaps or not _BY_NUMBER.match(self.runtime.process.url.value_or("")):
            return None
        gap = max(0.0, statistics.median(gaps))
        return gap if (self.detour_s or 0.0) < gap < LONGEST_PREPARING_S else None

    @cached_property
    def reload_s(self) -> float | None:
        """Seconds of loading that every request waits for, where the reason for the reload is known; else None."""
        again, crowd = self.case.engine.reloads, self.run.traffic
        watched = crowd.value.loads.value_or(0) if isinstance(crowd, Known) else 0
        each = again is not None and again.reason != "unknown" and (again.requests_per_load or 0.0) <= EACH
        return self.case.engine.load_time_s if each or watched > 1 or self.case.engine.keep_alive_s == 0 else None

    def cite_traffic(self, traffic: Traffic, words: str) -> Evidence:
        """What was watched, as evidence."""
        return self.case.cite("run.traffic", f"{traffic.looks} looks in {traffic.seconds:.0f} s", words)

    @cached_property
    def counts_waiting(self) -> bool:
        """Whether the server was watched and tells how many wait: one that does not is not without a queue."""
        traffic = self.run.traffic
        return isinstance(traffic, Known) and traffic.value.counts_waiting

    @cached_property
    def is_alone(self) -> bool:
        """Whether the server was idle when it was looked at and answered nobody else while it was measured."""
        runtime = self.runtime
        in_work = first_known(runtime.scheduling.busy_slots, runtime.scheduling.running_requests).value_or(1)
        is_asked = isinstance(runtime.process.url, Known) and isinstance(self.run.completions, Known)
        return is_asked and not in_work and not runtime.scheduling.deferred_requests.value_or(0)

    @cached_property
    def turn_cost(self) -> Cost | None:
        """How long a request waits for its place; None where nobody timed one.

        As many begin as end: each waits for as long as those before it take, a place of theirs after the other.
        """
        if isinstance(self.run.queue_s, Known):
            return Cost(seconds=self.run.queue_s.value, per="request")
        traffic, took = self.run.traffic, self.run.request_s.value_or(())
        if not isinstance(traffic, Known) or not took or traffic.value.running <= 0:
            return None
        whole_s = statistics.median(took)  # what waiting and being answered take together
        present = traffic.value.running + traffic.value.waiting
        return Cost(seconds=whole_s * traffic.value.waiting / present, per="request")

    @cached_property
    def client_loss_is_constant(self) -> bool:
        """Whether most of what a client loses comes before the first token and is the same in every request."""
        lost, runs = self.client_s, self.completions
        before = [c.client_first_token_s - c.prefill_s for c in runs if c.client_first_token_s is not None]
        is_alike = len(before) > 1 and min(before) > ALIKE * max(before)
        return is_alike and lost is not None and min(before) > lost / 2

    @cached_property
    def requests_running(self) -> float | None:
        """Requests that ran at a time: the mean while it was watched, else the server's count; None where unknown."""
        traffic = self.run.traffic.get()
        return traffic.running if traffic else self.runtime.scheduling.running_requests.get()

    @cached_property
    def unaccounted_delay_s(self) -> float:
        """Seconds before every first token that the server does not account for: the least of all timed requests."""
        gaps = [c.client_first_token_s - c.prefill_s for c in self.completions if c.client_first_token_s is not None]
        queued = self.run.queue_s.value_or(0.0)  # without a measured queue, all of the delay is the client's
        return max(0.0, min(gaps, default=0.0) - queued)


def is_held_back(completion: Completion) -> bool:
    """Whether an answer that took the server a while came all at once at its end."""
    first, total = completion.client_first_token_s or 0.0, completion.client_total_s or 0.0
    waited = first - completion.prefill_s
    late = waited >= max(LEAST_HELD_S, MOST_OF_IT * completion.decode_s)
    return late and total - first < AT_ONCE * completion.decode_s
