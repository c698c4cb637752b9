"""Watches a Transformers model from within its own program: what it is, how fast it generates, and why not faster.

with unslow.watch(model):
    model.generate(**inputs, max_new_tokens=200)

model.generate = unslow.watch(model.generate)
"""

import functools
import sys
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, Self

import msgspec

from unslow import __version__
from unslow.commands._command_lines import with_fix_commands
from unslow.facts.errors import UserError
from unslow.facts.run import Completion, Run
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import Count, measured_fact, not_found, reported_fact
from unslow.look.completion_summary import run_of_completions
from unslow.look.kernel.processors import CpuSample, cpus_between, read_cpu_sample, read_own_pid, read_run_delay
from unslow.look.probes import read_machine
from unslow.look.runtimes.transformers import read_model
from unslow.look.runtimes.transformers.bench import Timer
from unslow.look.stored import read_calibrations
from unslow.look.system import LookError, System, try_look
from unslow.look.system.live import LiveSystem
from unslow.think.judge.judge import diagnose
from unslow.think.report import Report
from unslow.think.speed.calibration import calibrations_of_machine

SOURCE = "unslow.watch"
CALLS = "transformers calls"
NEVER_CALLED = not_found("`generate` was not called while it was watched", "call it inside the `with` block")
_NOT_CALLED = "Undetermined: `generate` was not called while the model was watched."
ALREADY = "unslow: this model is already watched; the report comes when the outer watch ends\n"
_WATCHED: dict[int, "Watch"] = {}  # Who watches a model first, by the model: others within only take notes


class _Call(msgspec.Struct, frozen=True):
    sequences: Count
    completion: Completion
    use_cache: bool | None = None


def watch(target: Any, *, quiet: bool = False) -> Any:
    """Watch a model or a pipeline: a context manager, a decorator. Given `model.generate`, that, watched for good."""
    owner = getattr(target, "__self__", None)
    if owner is None:
        return Watch(target if is_model(target) else getattr(target, "model", target), quiet=quiet)
    # `generate` with a report after every call; `.watch.report` keeps the last
    watcher = Watch(owner, quiet=quiet)
    timed = watcher.timer.wrap(target)

    @functools.wraps(target)
    def reporting(*args: Any, **kwargs: Any) -> Any:
        answer = timed(*args, **kwargs)
        watcher.finish()
        return answer

    reporting.watch = watcher  # type: ignore[attr-defined]
    return reporting


class Watch(ContextDecorator):
    """Times every `generate` of a model; the report is there when the watching ends."""

    def __init__(self, model: Any, *, quiet: bool = False, system: System | None = None) -> None:
        if not is_model(model):
            name = type(model).__name__
            raise UserError(f"{name} is not a Transformers model", "pass the model or `model.generate`")
        self.model = model
        self.timer = Timer(model, waited=lambda: try_look(None, read_run_delay, self._system, "self"))
        self.snapshot: Snapshot | None = None
        self.report: Report | None = None
        self._quiet = quiet
        self._outer = False
        self._system = system or LiveSystem()
        self._before: CpuSample | None = None

    def __enter__(self) -> Self:
        """Start timing."""
        self._outer = _WATCHED.setdefault(id(self.model), self) is self
        self.timer.start()
        self._before = _sample(self._system)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop timing; a program that failed gets no report on top."""
        self.timer.stop()
        try:
            if kind is None:
                self.finish()
        finally:
            if self._outer:
                _WATCHED.pop(id(self.model), None)

    def finish(self) -> Report:
        """Look at the model and the machine now, judge, and show the report unless asked to be quiet."""
        # The same questions in the same order as `replayed` asks them
        calls = self._system.ask(CALLS, lambda: msgspec.to_builtins([c._asdict() for c in self.timer.calls]))
        self.snapshot = read_watched(self._system, self._before, calls, lambda: read_model(self._system, self.model))
        self.report = add_notes(with_fix_commands(diagnose(self.snapshot), self.snapshot), self.snapshot)
        if not self._quiet and sys.stderr is not None:
            from unslow.commands._formats import render  # noqa: PLC0415 (only where something is shown)

            words = ALREADY
            if _WATCHED.get(id(self.model), self) is self:
                words = render(self.report, "terminal", width=100, color=sys.stderr.isatty(), everything=False)
            sys.stderr.write(words)
        return self.report


def is_model(target: Any) -> bool:
    """Whether it generates and can be watched while it does."""
    return callable(getattr(target, "generate", None)) and hasattr(target, "register_forward_pre_hook")


def replay_watch(system: System) -> Snapshot:
    """The snapshot of a model that was watched when this was recorded."""
    return read_watched(system, _sample(system), system.ask(CALLS, list), lambda: read_model(system, None))


def read_watched(system: System, before: CpuSample | None, calls: Any, read: Callable[[], Subject]) -> Snapshot:
    """The snapshot of a watched model on this machine, live or recorded; `before` is what the CPUs had done then."""
    machine, outcomes = read_machine(system)
    subject, done = read(), msgspec.convert(calls, list[_Call])
    streams = reported_fact(max(call.sequences for call in done), SOURCE) if done else NEVER_CALLED
    runtime = subject.runtime.with_facts(running_requests=streams)
    if any(call.use_cache is False for call in done):
        runtime = runtime.with_facts(prompt_cache=reported_fact(value=False, source="generate(use_cache=False)"))
    run = Run(completions=NEVER_CALLED, decode_tokens_per_s=NEVER_CALLED)
    if counted := done[1:] or done:  # the first of several warms caches and compiles
        completions = measured_fact(tuple(call.completion for call in counted), SOURCE)
        run = run_of_completions(completions, not_found("the load was not watched"))
    taken_at, calibrations = system.now(), calibrations_of_machine(read_calibrations(system), machine)
    after = _sample(system)
    if before is not None and after is not None:
        use = cpus_between(before, after, (read_own_pid(system),))
        run = msgspec.structs.replace(
            run,
            own_cpus=measured_fact(use.excluded_cpus, "/proc"),
            others_cpus=measured_fact(use.busy_cpus, "/proc"),
            busiest_others=measured_fact(use.busiest, "/proc"),
        )
    return Snapshot(
        unslow_version=__version__,
        taken_at=taken_at,
        machine=machine,
        subjects=(Subject(runtime=runtime, model=subject.model, run=run),),
        calibrations=calibrations,
        probes=outcomes,
    )


def _sample(system: System) -> CpuSample | None:
    try:
        return read_cpu_sample(system)
    except LookError:
        return None


def add_notes(report: Report, snapshot: Snapshot) -> Report:
    """The report with what only a watched program tells: whether it ran, how many at once, whether without a cache."""
    (subject,), runtime = report.subjects, snapshot.subjects[0].runtime
    streams, notes = runtime.scheduling.running_requests.value_or(0), []
    if not streams:  # settings alone make nobody wait
        subject = msgspec.structs.replace(subject, verdict="cannot_tell", summary=_NOT_CALLED)
    if streams > 1:
        notes.append(f"{streams} sequences were generated together; the speeds are per sequence.")
    if runtime.cache.prompt_cache.value_or(None) is False:
        notes.append("`use_cache` is False: every token recomputes the whole sequence. Leave it at True.")
    subject = msgspec.structs.replace(subject, notes=(*subject.notes, *notes))
    return msgspec.structs.replace(report, subjects=(subject,))
