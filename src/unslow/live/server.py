"""One server while it is watched: the looks at its work, its rates, and its state of this moment."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from unslow.commands._fix_commands import spelled_subject
from unslow.commands.diagnose.permission import target_of
from unslow.facts.errors import UserError
from unslow.facts.merge import bounded
from unslow.facts.run import Phase, Span
from unslow.facts.snapshot import Case, Snapshot, Subject
from unslow.facts.values import Known, MissingFactError, Unknown, measured
from unslow.live.tick import (
    Judgement,
    PhaseNow,
    PhasesNow,
    RequestNow,
    RequestsNow,
    ServerNow,
    SpeedNow,
    State,
    judgement,
)
from unslow.look.bench.trials.observations import Look, speed_alone, speed_of_each, traffic_of
from unslow.look.bench.trials.server_work import Work, read_work
from unslow.look.bench.watching import joined_telemetry
from unslow.look.logs.llama_cpp import parse_log
from unslow.look.sampler import Sampler
from unslow.look.sampler.timeline import UNDER_LOAD
from unslow.look.system import ExchangeError, LookError, System
from unslow.page.view import MemoryBar, Missing
from unslow.think.judge.judge import subject_name

TAIL_BYTES = 64 * 1024  # Room for some hundred requests; only the last one is asked about


def read_last_logged(system: System, subject: Subject) -> float | None:
    """Tokens per second of the last answer that the log tells of; None where it tells of none."""
    path = subject.runtime.log_path
    if not isinstance(path, Known) or not subject.runtime.name.value_or("").endswith("llama.cpp"):
        return None
    try:
        text = system.read_tail(path.value, TAIL_BYTES).decode("utf-8", "replace")
    except LookError:
        return None
    done = parse_log(text.split("\n")[1:], path.value).run.completions.value_or(())
    last = done[-1] if done else None
    return last.generated_tokens / last.decode_s if last and last.decode_s > 0 else None


MINUTE_S = 60.0
_MOST = 1000  # Stretches that are kept: more than a minute has at the shortest interval


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
    def is_half_seen(self) -> bool:
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
        rates = Rates(summed, mean, _prompts_read(recent), requests, phase)
        if rates.tokens_per_s is not None:
            return rates
        # Answers that are over before a second look: as fast as those just before, where as many ran beside each other
        known = speed_of_each([look for look in looks if now.at_s - look.at_s <= LONGEST_WINDOW_S])
        answered = sum(request.phase == "decode" for request in requests.each)
        if not isinstance(known.speed, Known) or round(known.among) != answered:
            return rates
        return rates._replace(tokens_per_s=known.speed.value * answered, each_tokens_per_s=known.speed.value)
    total = _counted(recent, [look.work.tokens for look in recent])
    if total is None:
        total = now.work.tokens_per_s
    each = total / now.work.running if total is not None and now.work.running else None
    prompts = _counted(recent, [look.work.prompt_tokens for look in recent])
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
    """Since the first look in which this answer had begun."""
    last = recent[-1]
    now = (last.work.decoding or {})[slot]
    for look in recent[:-1]:
        before = (look.work.decoding or {}).get(slot)
        if before and before.task == now.task and before.tokens and now.tokens >= before.tokens:
            seconds = last.at_s - look.at_s
            return (now.tokens - before.tokens) / seconds if seconds > 0 else None
    return None


def _prompts_read(recent: Sequence[Look]) -> float | None:
    """Tokens of prompts a second while they are read; None where none is, or where that is not told."""
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


def _counted(recent: Sequence[Look], counts: Sequence[float | None]) -> float | None:
    """Growth of a counter a second; None where it is not told, or began anew."""
    known = [(look.at_s, count) for look, count in zip(recent, counts, strict=True) if count is not None]
    if len(known) < 2:  # noqa: PLR2004 (growth has two ends)
        return None
    (start, before), (end, after) = known[0], known[-1]
    return (after - before) / (end - start) if end > start and after >= before else None


_HOW = {
    "llama.cpp": ("it hides its slots", "restart llama-server without --no-slots"),
    "Ollama": (
        "this Ollama shows what is loaded, and no tokens",
        "Ollama 0.30 or later shows them, to a user who may see its processes",
    ),
    "vLLM": ("its /metrics counts no tokens", "restart vLLM without --disable-log-stats"),
    "SGLang": ("its /metrics is switched off", "restart SGLang with --enable-metrics"),
    "TGI": ("it counts requests, and tokens only once an answer is whole", "`unslow bench` measures it"),
    "KoboldCpp": ("it tells whether it works, and no tokens", "`unslow bench` measures it"),
}
_OTHERS = ("this server shows nothing of its work", "`unslow bench` measures it; its own log may tell more")
WAITING = "how many requests wait is not told: restart llama-server with --metrics"


def missing_of(subject: Subject, work: Work | None, error: LookError | None) -> Missing | None:
    """Why there is no speed of this moment; None where there is one."""
    if work is not None and (work.decoding, work.tokens, work.tokens_per_s) != (None, None, None):
        return None
    if error is not None and error.how_to_get and "API key" in error.why:
        return Missing(why=error.why, how_to_get=error.how_to_get)
    runtime = subject.runtime.name.value_or("")
    why, how = next((told for name, told in _HOW.items() if runtime.endswith(name)), _OTHERS)
    return Missing(why=why, how_to_get=how)


def notes_on(subject: Subject, work: Work | None) -> tuple[str, ...]:
    """What else is not told."""
    is_llama = subject.runtime.name.value_or("").endswith("llama.cpp")
    return (WAITING,) if work is not None and is_llama and work.waiting is None else ()


MOST_LOOKS = 400  # More than a minute has at the shortest interval
GUESS_S, BUSY_CPUS = 3.0, 0.2
"""A server that shows nothing is taken for busy where it used so many processors over the last seconds: also while a
GPU computes, a thread waits for it at full speed, or starts the next kernels."""
_NOTED: dict[PhaseNow, Phase] = {"queue": "queue", "load": "load", "prefill": "prefill", "decode": "decode"}
"""Phases that the sampler counts its rows to."""


class Watched:
    """Written by the thread that looks; what others read of it is replaced as a whole."""

    def __init__(
        self, system: System, seen: Snapshot, subject: Subject, api_key: str | None, samples_per_s: float
    ) -> None:
        pid = subject.runtime.pid.value_or(None)
        self.subject, self.sampler = subject, Sampler(system, [] if pid is None else [pid], samples_per_s)
        self.looks: deque[Look] = deque(maxlen=MOST_LOOKS)
        self.minute = Minute()
        self.error: LookError | None = None
        self.judgement: Judgement | None = None
        self.laid: tuple[MemoryBar, ...] = ()
        """What its model asks of each memory, where it does not say itself what it allocated."""
        self.rates = Rates()
        self.last_logged: float | None = None
        self.asking_since: float | None = None
        self.is_lost = False
        self.case = _case(seen, subject)
        self._system, self._target = system, target_of(system, subject, api_key)
        self._worked = self._is_laid_out = False
        self._before_s: float | None = None

    @property
    def work(self) -> Work | None:
        """What the last look showed; None where it failed."""
        return self.looks[-1].work if self.looks and self.error is None else None

    def is_same(self, subject: Subject) -> bool:
        """Whether this is the very process with the very model that is watched."""
        both = (self.subject, subject)
        return len({(one.runtime.pid.value_or(None), one.model.name.value_or("")) for one in both}) == 1

    def refresh(self, seen: Snapshot, subject: Subject) -> None:
        self.subject, self.case = subject, _case(seen, subject)

    def ask(self) -> None:
        clock = self._system.clock
        self.asking_since = clock()
        try:
            work = read_work(self._system, self._target)
            self.looks.append(Look(clock(), work))
            self.error = None
        except LookError as error:
            self.error = error
            if self.state == "answers":  # it shows nothing, so its log may
                self.last_logged = read_last_logged(self._system, self.subject)
        self.asking_since = None
        rates = rates_of(tuple(self.looks)) if self.error is None else Rates()
        self.rates = rates._replace(phase=self._phase_without()) if rates.phase == "unknown" else rates
        # The time since the last look counts to the phase that this one shows
        start_s, self._before_s = self._before_s, clock()
        if start_s is None:
            return
        phase = self.rates.phase
        self._worked = self._worked or phase in ("prefill", "decode", "busy")
        self.minute.add(start_s, self._before_s, phase, queued=bool(self.rates.requests.waiting))
        if phase in _NOTED:
            self.sampler.note(Span(phase=_NOTED[phase], start_s=start_s, end_s=self._before_s))

    def _phase_without(self) -> PhaseNow:
        """What it does, where it does not say so: by its state, else by the processors that it uses."""
        if self.state == "loading":
            return "load"
        if self.state == "silent":
            return self.rates.phase
        own = self.sampler.seen(self._system.clock() - GUESS_S).get("own_cpus")
        if own is None or self.state == "gone":
            return "unknown"
        return "busy" if own >= BUSY_CPUS else "idle"

    def lose(self) -> None:
        self.is_lost, self.rates, self.last_logged = True, Rates(), None
        self.looks.clear()

    @property
    def state(self) -> State:
        """What a failed look says of the server."""
        if isinstance(self.error, ExchangeError):
            return "gone" if self.error.kind == "refused" else "silent"
        return "loading" if self.error is not None and self.error.why.endswith("answered 503") else "answers"

    def judge(self) -> None:
        """Judge what was seen over the last minute, where anything happened since the last time."""
        if self.judgement is None or self._worked:
            self._worked = False
            shares = self.minute.phases(self.rates.phase).minute
            self.judgement = judgement(self.seen_case(), self._system.now(), shares, spelled_subject)

    def seen_case(self) -> Case:
        """The server on its machine, with what was seen of its work over the last minute."""
        start_s = self._system.clock() - MINUTE_S
        looks = [look for look in tuple(self.looks) if look.at_s >= start_s and look.work.running is not None]
        run = self.subject.run
        if len(looks) > 1 and any(look.work.running for look in looks):
            source = f"{len(looks)} looks at {looks[-1].work.source}"
            speed = speed_alone(looks, source)
            run = msgspec.structs.replace(run, traffic=measured(traffic_of(looks), source))
            if isinstance(speed, Known):
                run = msgspec.structs.replace(run, decode_tokens_per_s=speed)
            run = bounded(run)
        telemetry = self.sampler.recent(MINUTE_S)
        if telemetry.samples:
            run = joined_telemetry(run, measured(telemetry, UNDER_LOAD))
        return msgspec.structs.replace(self.case, run=run)

    def lay_out(self, system: System | None) -> None:
        """Reckon once what lies on its GPUs, where its log does not tell; `system` is the machine that it runs on."""
        if self._is_laid_out:
            return
        self._is_laid_out = True
        if isinstance(self.case.runtime.buffers, Known) or not self.case.machine.gpus.value_or(()):
            return
        from unslow.page.what_if import memory_of  # noqa: PLC0415 (the layouts take a while to import)

        with suppress(UserError, MissingFactError, ValueError, ArithmeticError):  # what a server claims may be anything
            memory = memory_of(system, self.case)
            self.laid = () if isinstance(memory, Unknown) else memory.view().now.bars

    def is_there(self) -> bool:
        """Whether the process that was found still lives; taken for granted where none is known."""
        pid = self.subject.runtime.pid.value_or(None)
        try:
            if pid is not None:
                self._system.read_bytes(f"/proc/{pid}/comm", 64)
        except LookError:
            return False
        return self.state != "gone"


def _case(seen: Snapshot, subject: Subject) -> Case:
    return next(msgspec.structs.replace(seen, subjects=(subject,)).cases())


SILENT_S = 1.5  # A server that has not answered for so long is said to be silent; the screen goes on meanwhile
GONE = "the server went away; looking for it"


def server_now(watched: Watched, now_s: float) -> ServerNow:
    """Which server it is, and whether it answers."""
    runtime, model = subject_name(watched.case)
    state, because = watched.state, watched.error.why if watched.error and watched.state != "answers" else ""
    since = watched.asking_since
    if since is not None and now_s - since > SILENT_S:
        state, because = "silent", f"it has not answered for {now_s - since:.0f} s; it may be reading a long prompt"
    if watched.is_lost:
        state, because = "gone", GONE
    facts = watched.subject.runtime
    return ServerNow(
        runtime=runtime, model=model, url=facts.url.value_or(""), pid=facts.pid.value_or(None), state=state,
        because=because,
    )  # fmt: skip


def speed_now(watched: Watched) -> SpeedNow:
    """The speed, what it should be, and what is not told."""
    rates, judged = watched.rates, watched.judgement
    missing = missing_of(watched.subject, watched.work, watched.error) if watched.state == "answers" else None
    return SpeedNow(
        tokens_per_s=rates.tokens_per_s,
        each_tokens_per_s=rates.each_tokens_per_s,
        prompt_tokens_per_s=rates.prompt_tokens_per_s,
        last_tokens_per_s=watched.last_logged,
        expected=judged.expected if judged else None,
        ceiling=judged.ceiling if judged else None,
        source=watched.work.source if watched.work else "",
        missing=missing,
    )
