"""What the history knows of a subject: the last benchmark of the version that runs, against the last of another one."""

from unslow import __version__
from unslow.app.bench.history import compared_to, figured
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.facts.run import Earlier
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, failed, not_found
from unslow.look.history import History, default_history
from unslow.think.bench.changes import earlier_of
from unslow.think.calibrate import mark_of

_HOW = "run `unslow bench` before and after an update"
_MOST = 20


def earlier_in_history(case: Case, history: History | None = None) -> Fact[Earlier]:
    """For `run.earlier`: nothing is measured for it, both sides are benchmarks that are kept."""
    history = history or default_history()
    try:
        now = _newest(case, history)
        if now is None:
            return not_found("no benchmark of this model on this machine is kept", _HOW)
        others = [
            bench for bench in history.same_setup(now, _MOST) if bench.runtime_version not in ("", now.runtime_version)
        ]
        if now.runtime_version != case.runtime.version.value_or("") or not others:
            return not_found("not both of two versions of the runtime were measured here", _HOW)
        found = compared_to(now, figured(others[0]), history)
    except UserError as error:
        return failed(error.message, error.hint)
    return earlier_of(found.before, now, found.comparison, found.changes)


def _newest(case: Case, history: History) -> Bench | None:
    like = Bench(
        id="",
        unslow_version=__version__,
        taken_at="",
        seconds=0.0,
        protocol="standard",
        runtime=case.runtime.name.value_or(""),
        model=case.model.name.value_or(""),
        machine=mark_of(case.machine),
    )
    found = history.latest(like)
    return figured(found) if found else None
