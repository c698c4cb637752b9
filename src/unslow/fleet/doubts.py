"""What a reader must know of one engine, and of the fleet, before trusting what was read."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from unslow.catalog.exporters import exporters_of
from unslow.fleet.asking_all import NOT_ANSWERED
from unslow.fleet.discover import Engine
from unslow.fleet.member import Member
from unslow.think.fleet.report import Kind, Statement

T = TypeVar("T", bound=Hashable)
UNTOLD = "nothing tells whether its counters began anew, so nothing that they count is taken"
RESTARTED = "started anew within the window"
TWO_IN_ONE = "its counters began anew {falls:.0f} times: two targets with the same labels, or it starts again and again"
GONE = "its series ended within the window: it is gone, or its clock is behind"
OLD = "its newest sample is {age:.0f} s old: scraped rarely, or a clock is behind"
SOMETIMES = "it was scraped in {share:.0%} of the window"
DOWN = "it is down: the last scrapes of it failed, and it was there for {share:.0%} of the window"
FEW = "only {samples:.0f} scrapes in the window"
MANY_FALLS = 3
"""Falls of a counter: a program that starts twice in a quarter of an hour is possible, more is something else."""
_FEW_SAMPLES = 3
_OLD_S = 90.0
"""Of the newest sample: more than a scrape interval of a minute."""
_MOSTLY = 0.95
_MODEL_HINT = (
    "give its target a label in the scrape configuration: `labels: {model: NAME}`, NAME as on Hugging Face or of its"
    " file; or say which label has it: --join model=LABEL"
)
_NAMED = 3
"""Keys that stand for all that a statement is about."""
_FALLING = "the counters of {n} engine{s} fall again and again: nothing that they count is taken"


def doubts_of(engine: Engine) -> list[str]:
    """What is wrong with how an engine was seen."""
    found, falls = [] if engine.sound else [UNTOLD], _falls(engine)
    if falls >= MANY_FALLS:
        found.append(TWO_IN_ONE.format(falls=falls))
    elif falls:
        found.append(RESTARTED)
    if not engine.ages:
        found.append(GONE)
    elif (age := min(engine.ages)) > _OLD_S:
        found.append(OLD.format(age=age))
    if "up" in engine.raw and (share := engine.raw["up"][1]) < _MOSTLY:
        found.append(SOMETIMES.format(share=share))
    if engine.samples < _FEW_SAMPLES:
        found.append(FEW.format(samples=engine.samples))
    if len(engine.models) > 1:
        found.append(f"it serves {len(engine.models)} models: {', '.join(sorted(engine.models)[:3])}")
    return found


def down_of(engine: Engine) -> str:
    """Why it is not there now: its series ended, and not because nobody asks it any more."""
    if engine.ages or "up" not in engine.raw or (share := engine.raw["up"][1]) >= _MOSTLY:
        return ""
    return DOWN.format(share=share)


def broken(engine: Engine) -> bool:
    """Whether nothing that was counted can be trusted: two targets may write one series, or nobody told."""
    return not engine.sound or _falls(engine) >= MANY_FALLS


def _falls(engine: Engine) -> float:
    """How often it began anew, by its counters or by when its process says that it started."""
    return max(engine.raw[name][1] if name in engine.raw else 0.0 for name in ("resets", "starts"))


def statements_of(
    engines: Sequence[Engine], members: Sequence[Member], gone: Mapping[str, int], span_s: float
) -> list[Statement]:
    """What holds for many, said once."""
    found: list[Statement] = []

    def say(kind: Kind, those: Sequence[str], text: str, hint: str = "") -> None:
        if count := len(those):
            words = text.format(n=f"{count:,}", s="" if count == 1 else "s", es="s" if count == 1 else "")
            such_as = tuple(sorted(those)[:_NAMED])
            found.append(Statement(kind=kind, text=words, hint=hint, instances=count, such_as=such_as))

    def doubt(*begins: str) -> list[str]:
        return [one.key for one in members if any(doubt.startswith(begins) for doubt in one.doubts)]

    twice, jobs = ([one.key for one in engines if one.replicas > 1], [one.key for one in engines if one.twice > 1])
    say("duplicates", twice, "{n} engine{s} scraped by more than one Prometheus: each is counted once")
    say("duplicates", jobs, "{n} engine{s} scraped by more than one job: each is counted once", "drop one of the jobs")
    say("duplicates", doubt("its counters began"), _FALLING, "give every target labels of its own")
    say("down", doubt("it was scraped in"), "{n} engine{s} could not be scraped all the time")
    say(
        "stale",
        doubt(GONE),
        "the series of {n} engine{s} ended within the window: gone, or with a clock that is behind",
    )
    say("skew", doubt("its newest sample"), "the newest samples of {n} engine{s} are old", "check the writers' clocks")
    say("note", doubt(RESTARTED), "{n} engine{s} started anew within the window")
    if span_s and gone:
        ago = f"{span_s / 86400:g} days" if span_s >= 2 * 86400 else f"{span_s / 3600:g} hours"
        count, such_as = sum(gone.values()), tuple(sorted(gone)[:_NAMED])
        text = f"{count:,} engine{'' if count == 1 else 's'} of {ago} ago not there now"
        found.append(Statement(kind="note", text=text, instances=count, such_as=such_as))
    _say_missing(members, say)
    return found


def _say_missing(members: Sequence[Member], say: Callable[..., None]) -> None:
    unnamed = _by((member.runtime, member.key) for member in members if not member.model and member.engine)
    for runtime, those in sorted(unnamed.items()):
        say("labels", those, f"nothing says which model {{n}} engine{{s}} of {runtime} serve{{es}}", _MODEL_HINT)
    for what, word in (("gpus", "GPUs"), ("host", "host")):
        told = [(member.missing[what], member.key) for member in members if member.missing.get(what)]
        reasons = _by((_kind(text), key) for text, key in told if not text.startswith(NOT_ANSWERED))
        for (reason, hint), those in sorted(reasons.items()):
            say("missing", those, f"nothing is known of the {word} of {{n}} engine{{s}}: {_plain(reason)}", hint)


def _by(pairs: Iterable[tuple[T, str]]) -> dict[T, list[str]]:
    found: dict[T, list[str]] = {}
    for what, key in pairs:
        found.setdefault(what, []).append(key)
    return found


_KINDS = (
    ("labels say", "none is scraped there, or labels don't join",
     "scrape one on each host, or say which label names the host: --join host=LABEL"),
    ("engines share", "several engines share a host",
     "let the exporter tell the pods, or give each engine a label gpu_ids in the scrape configuration"),
    ("by the exporter: it gives none", "the exporter gives their pods none", ""),
    ("hosts are called", "hosts with the same name", "a label such as cluster must tell them apart"),
)  # fmt: skip
"""Words of a reason, the same without what is different for each engine, and what to do."""


def _kind(reason: str) -> tuple[str, str]:
    """The same reason without what is different for each engine, and what to do about it."""
    for text, kind, hint in _KINDS:
        if text in reason:
            return kind, hint
    kind, _, hint = reason.partition(": ")
    return kind, hint


def _plain(text: str) -> str:
    return text.replace("{", "").replace("}", "")


def nothing_found(*, narrowed: bool) -> Statement:
    """What to say where no runtime's series are there."""
    anchors = ", ".join(sorted(one.anchor for one in exporters_of("engine").values()))
    return Statement(
        kind="missing",
        text=f"Prometheus has no series of a runtime in this window{' that match' if narrowed else ''}",
        hint=("ask without --match and --engines; or " if narrowed else "")
        + "let Prometheus scrape /metrics of each engine: vLLM and TGI serve it, llama-server with --metrics, SGLang "
        f"with --enable-metrics; for any other run `unslow exporter` beside it (looked for {anchors})",
    )
