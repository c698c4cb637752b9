"""One server while it is watched: the looks at its work, the last minute, and its state of this moment."""

from collections import deque
from contextlib import suppress

import msgspec

from unslow.commands._command_lines import subject_with_fix_commands
from unslow.commands.diagnose.permission import target_of
from unslow.facts.errors import UserError
from unslow.facts.merge import bound_facts
from unslow.facts.run import Phase, Span
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Known, MissingFactError, Unknown, measured_fact
from unslow.live.rates import MINUTE_S, Minute, Rates, rates_of
from unslow.live.tick import Judgement, PhaseNow, ServerNow, SpeedNow, State, judge_case
from unslow.look.bench.timing import join_telemetry
from unslow.look.bench.trials.observations import Look, speed_alone, traffic_of
from unslow.look.bench.trials.server_work import Work, read_work
from unslow.look.logs.llama_cpp import parse_log
from unslow.look.sampler import Sampler
from unslow.look.sampler.timeline import UNDER_LOAD
from unslow.look.system import ExchangeError, LookError, System
from unslow.page.view import MemoryBar, Missing
from unslow.think.case.view import CaseView, views_of
from unslow.think.judge.subject import subject_name

MOST_LOOKS = 400  # More than a minute has at the shortest interval
GUESS_S, BUSY_CPUS = 3.0, 0.2
"""A server that shows nothing is taken for busy where it used so many processors over the last seconds: also while a
GPU computes, a thread waits for it at full speed, or starts the next kernels."""
_NOTED: dict[PhaseNow, Phase] = {"queue": "queue", "load": "load", "prefill": "prefill", "decode": "decode"}
"""Phases that the sampler counts its rows to."""
TAIL_BYTES = 64 * 1024  # Room for some hundred requests; only the last one is asked about
SILENT_S = 1.5  # A server that has not answered for so long is said to be silent; the screen goes on meanwhile
GONE = "the server is gone; searching for it"
WAITING = "queue length not reported: restart llama-server with --metrics"
_HOW = {
    "llama.cpp": ("its /slots endpoint is disabled", "restart llama-server without --no-slots"),
    "Ollama": (
        "this Ollama version reports loaded models but no token counts",
        "use Ollama 0.30 or later, as a user who may see its processes",
    ),
    "vLLM": ("its /metrics has no token counts", "restart vLLM without --disable-log-stats"),
    "SGLang": ("its /metrics endpoint is disabled", "restart SGLang with --enable-metrics"),
    "TGI": ("it counts tokens only when a response is complete", "measure it with `unslow bench`"),
    "KoboldCpp": ("it reports whether it is busy but no token counts", "measure it with `unslow bench`"),
}
_OTHERS = ("this server does not report its work", "measure it with `unslow bench`; its log may say more")


class ServerWatch:
    """Written by the thread that looks; what others read of it is replaced as a whole."""

    def __init__(
        self, system: System, seen: Snapshot, subject: Subject, api_key: str | None, samples_per_s: float
    ) -> None:
        pid = subject.runtime.process.pid.value_or(None)
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
        return len({(one.runtime.process.pid.value_or(None), one.model.name.value_or("")) for one in both}) == 1

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
        self.rates = rates._replace(phase=self._guess_phase()) if rates.phase == "unknown" else rates
        # The time since the last look counts to the phase that this one shows
        start_s, self._before_s = self._before_s, clock()
        if start_s is None:
            return
        phase = self.rates.phase
        self._worked = self._worked or phase in ("prefill", "decode", "busy")
        self.minute.add(start_s, self._before_s, phase, queued=bool(self.rates.requests.waiting))
        if phase in _NOTED:
            self.sampler.note(Span(phase=_NOTED[phase], start_s=start_s, end_s=self._before_s))

    def _guess_phase(self) -> PhaseNow:
        """From its state, else from its CPU use."""
        if self.state == "loading":
            return "load"
        if self.state == "silent":
            return self.rates.phase
        own = self.sampler.means_between(self._system.clock() - GUESS_S).get("own_cpus")
        if own is None or self.state == "gone":
            return "unknown"
        return "busy" if own >= BUSY_CPUS else "idle"

    def mark_lost(self) -> None:
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
            self.judgement = judge_case(self.seen_case(), self._system.now(), shares, subject_with_fix_commands)

    def seen_case(self) -> CaseView:
        """The server on its machine, with what was seen of its work over the last minute."""
        start_s = self._system.clock() - MINUTE_S
        looks = [look for look in tuple(self.looks) if look.at_s >= start_s and look.work.running is not None]
        run = self.subject.run
        if len(looks) > 1 and any(look.work.running for look in looks):
            source = f"{len(looks)} looks at {looks[-1].work.source}"
            speed = speed_alone(looks, source)
            run = msgspec.structs.replace(run, traffic=measured_fact(traffic_of(looks), source))
            if isinstance(speed, Known):
                run = msgspec.structs.replace(run, decode_tokens_per_s=speed)
            run = bound_facts(run)
        telemetry = self.sampler.recent(MINUTE_S)
        if telemetry.samples:
            run = join_telemetry(run, measured_fact(telemetry, UNDER_LOAD))
        return self.case.replace(run=run)

    def lay_out(self, system: System | None) -> None:
        """Reckon once what lies on its GPUs, where its log does not tell; `system` is the machine that it runs on."""
        if self._is_laid_out:
            return
        self._is_laid_out = True
        if isinstance(self.case.runtime.memory.buffers, Known) or not self.case.machine.gpus.value_or(()):
            return
        from unslow.page.what_if import memory_of  # noqa: PLC0415 (the layouts take a while to import)

        with suppress(UserError, MissingFactError, ValueError, ArithmeticError):  # what a server claims may be anything
            memory = memory_of(system, self.case)
            self.laid = () if isinstance(memory, Unknown) else memory.view.now.bars

    def is_there(self) -> bool:
        """Whether the process that was found still lives; taken for granted where none is known."""
        pid = self.subject.runtime.process.pid.value_or(None)
        try:
            if pid is not None:
                self._system.read_bytes(f"/proc/{pid}/comm", 64)
        except LookError:
            return False
        return self.state != "gone"


def _case(seen: Snapshot, subject: Subject) -> CaseView:
    return next(views_of(msgspec.structs.replace(seen, subjects=(subject,))))


def read_last_logged(system: System, subject: Subject) -> float | None:
    """Tokens per second of the last answer that the log tells of; None where it tells of none."""
    path = subject.runtime.process.log_path
    if not isinstance(path, Known) or not subject.runtime.name.value_or("").endswith("llama.cpp"):
        return None
    try:
        text = system.read_tail(path.value, TAIL_BYTES).decode("utf-8", "replace")
    except LookError:
        return None
    done = parse_log(text.split("\n")[1:], path.value).run.completions.value_or(())
    last = done[-1] if done else None
    return last.generated_tokens / last.decode_s if last and last.decode_s > 0 else None


def server_now(watched: ServerWatch, now_s: float) -> ServerNow:
    """Which server it is, and whether it answers."""
    runtime, model = subject_name(watched.case)
    state, because = watched.state, watched.error.why if watched.error and watched.state != "answers" else ""
    since = watched.asking_since
    if since is not None and now_s - since > SILENT_S:
        state, because = "silent", f"no response for {now_s - since:.0f} s; it may be in a long prefill"
    if watched.is_lost:
        state, because = "gone", GONE
    facts = watched.subject.runtime
    return ServerNow(
        runtime=runtime, model=model, url=facts.process.url.value_or(""), pid=facts.process.pid.value_or(None),
        state=state, because=because,
    )  # fmt: skip


def speed_now(watched: ServerWatch) -> SpeedNow:
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


def missing_of(subject: Subject, work: Work | None, error: LookError | None) -> Missing | None:
    """Why there is no speed of this moment; None where there is one."""
    if work is not None and (work.decoding, work.tokens, work.tokens_per_s) != (None, None, None):
        return None
    if error is not None and error.how_to_get and "API key" in error.why:
        return Missing(why=error.why, how_to_get=error.how_to_get)
    runtime = subject.runtime.name.value_or("")
    why, how = next((told for name, told in _HOW.items() if runtime.endswith(name)), _OTHERS)
    return Missing(why=why, how_to_get=how)
