"""How fast a server works, by the last looks at it, and what it did over the last minute."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.values import Known
from unslow.live.tick import PhaseNow, PhasesNow, RequestNow, RequestsNow
from unslow.look.bench.trials.observations import Look, speed_of_each
from unslow.look.bench.trials.server_work import Work

MINUTE_S = 60.0
_MOST = 1000  # Stretches that are kept: more than a minute has at the shortest interval
WINDOW_S = 3.0  # Over which a speed is taken: of a slow server's few tokens, one more or less must not look like news
LONGEST_WINDOW_S = 15.0
MOST_REQUESTS = 256  # That are told one by one


class Rates(NamedTuple):
    """What two and more looks tell; None where they don't."""

    tokens_per_s: float | None = None
    each_tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    requests: RequestsNow = RequestsNow()
    phase: PhaseNow = "unknown"

    @property
    def needs_second_look(self) -> bool:
        """Whether there is an answer that was seen once only: one look more, soon, tells its speed."""
        return any(request.phase == "decode" and request.tokens_per_s is None for request in self.requests.each)


def rates_of(looks: Sequence[Look]) -> Rates:
    """The newest look, and how fast things grew in the last seconds before it."""
    if not looks:
        return Rates()
    now = looks[-1]
    before_s = looks[-2].at_s if len(looks) > 1 else now.at_s
    # a server that was busy answers late, and then the look before it is all there is
    window_s = max(WINDOW_S, min(LONGEST_WINDOW_S, now.at_s - before_s))
    recent = [look for look in looks if now.at_s - look.at_s <= window_s]
    requests = _requests(recent)
    phase = phase_of(now.work)
    if now.work.decoding is not None:
        speeds = [request.tokens_per_s for request in requests.each if request.tokens_per_s is not None]
        waits_for_second = not speeds and any(request.phase == "decode" for request in requests.each)
        summed = None if waits_for_second or len(recent) < 2 else sum(speeds)  # noqa: PLR2004 (growth has two ends)
        mean = sum(speeds) / len(speeds) if speeds else None
        rates = Rates(summed, mean, _prefill_rate(recent), requests, phase)
        if rates.tokens_per_s is not None:
            return rates
        # Answers that are over before a second look: as fast as those just before, where as many ran beside each other
        known = speed_of_each([look for look in looks if now.at_s - look.at_s <= LONGEST_WINDOW_S])
        answered = sum(request.phase == "decode" for request in requests.each)
        if not isinstance(known.speed, Known) or round(known.among) != answered:
            return rates
        return rates._replace(tokens_per_s=known.speed.value * answered, each_tokens_per_s=known.speed.value)
    total = _counter_rate(recent, [look.work.tokens for look in recent])
    if total is None:
        total = now.work.tokens_per_s
    each = total / now.work.running if total is not None and now.work.running else None
    prompts = _counter_rate(recent, [look.work.prompt_tokens for look in recent])
    if phase == "busy" and total is not None:
        phase = "decode" if total > 0 else "prefill" if prompts else phase
    return Rates(total, each, prompts, requests, phase)


def phase_of(work: Work) -> PhaseNow:
    """What the server does; a prompt that is read holds up the answers beside it, so it comes first."""
    if work.decoding is not None and work.decoding:
        return "decode" if all(decoding.tokens for decoding in work.decoding.values()) else "prefill"
    if work.running:
        return "busy"
    if work.waiting:
        return "queue"
    return "unknown" if work.running is None else "idle"


def _requests(recent: Sequence[Look]) -> RequestsNow:
    work = recent[-1].work
    prompts = {prompt.slot: prompt for prompt in work.prompts or ()}
    each = []
    for slot, decoding in sorted((work.decoding or {}).items())[:MOST_REQUESTS]:
        prompt = prompts.get(slot)
        read = None
        if prompt and prompt.computed_tokens is not None and prompt.tokens:
            read = min(1.0, (prompt.cached_tokens + prompt.computed_tokens) / prompt.tokens)
        each.append(
            RequestNow(
                slot=slot,
                phase="decode" if decoding.tokens else "prefill",
                tokens=decoding.tokens,
                tokens_per_s=_slot_speed(recent, slot),
                prompt_tokens=prompt.tokens if prompt else None,
                prompt_read=read,
            )
        )
    return RequestsNow(running=work.running, waiting=work.waiting, each=tuple(each))


def _slot_speed(recent: Sequence[Look], slot: int) -> float | None:
    """Since the first look at this response."""
    last = recent[-1]
    now = (last.work.decoding or {})[slot]
    for look in recent[:-1]:
        before = (look.work.decoding or {}).get(slot)
        if before and before.task == now.task and before.tokens and now.tokens >= before.tokens:
            seconds = last.at_s - look.at_s
            return (now.tokens - before.tokens) / seconds if seconds > 0 else None
    return None


def _prefill_rate(recent: Sequence[Look]) -> float | None:
    """Prefill tok/s; None if no prompt is being read, or that is not reported."""
    speeds = []
    last = recent[-1]
    for prompt in last.work.prompts or ():
        decoding = (last.work.decoding or {}).get(prompt.slot)
        if prompt.computed_tokens is None or (decoding and decoding.tokens):
            continue
        for look in recent[:-1]:
            same = next((p for p in look.work.prompts or () if p.task == prompt.task), None)
            if same and same.computed_tokens is not None and last.at_s > look.at_s:
                speeds.append(max(0, prompt.computed_tokens - same.computed_tokens) / (last.at_s - look.at_s))
                break
    return sum(speeds) if speeds else None


def _counter_rate(recent: Sequence[Look], counts: Sequence[float | None]) -> float | None:
    """Growth per second; None if not reported, or the counter restarted."""
    known = [(look.at_s, count) for look, count in zip(recent, counts, strict=True) if count is not None]
    if len(known) < 2:  # noqa: PLR2004 (growth has two ends)
        return None
    (start, before), (end, after) = known[0], known[-1]
    return (after - before) / (end - start) if end > start and after >= before else None


class Minute:
    """Stretches of time, each with its phase, as far back as a minute."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, float, PhaseNow, bool]] = deque(maxlen=_MOST)

    def add(self, start_s: float, end_s: float, phase: PhaseNow, *, queued: bool = False) -> None:
        """One stretch more; what is over a minute old is let go."""
        if end_s > start_s:
            self._pieces.append((start_s, end_s, phase, queued))
        while self._pieces and self._pieces[0][1] < end_s - MINUTE_S:
            self._pieces.popleft()

    def phases(self, now: PhaseNow) -> PhasesNow:
        total = sum(end - start for start, end, *_ in self._pieces)
        shares: dict[str, float] = {}
        for start, end, phase, _ in self._pieces:
            shares[phase] = shares.get(phase, 0.0) + (end - start) / total
        queued = sum(end - start for start, end, _, waits in self._pieces if waits) / total if total else 0.0
        return PhasesNow(now=now, minute=dict(sorted(shares.items(), key=lambda pair: -pair[1])), queued=queued)
