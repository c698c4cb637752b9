"""The diagnosis, top down: which phase, where its time goes, which causes are there, and what they cost."""

import contextlib
import re
from functools import reduce
from typing import Any

import msgspec

from unslow.catalog.bug_reports import remark_phrases
from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import NOT_LOOKED, Known, MissingFactError, Origin, Unknown
from unslow.think.case.instructions import spelled_out
from unslow.think.case.prediction import DECODE, PREFILL, Prediction, predict
from unslow.think.case.runtime import own_loads
from unslow.think.case.vram import available_vram_bytes, gpus_of, runtime_sees_gpu
from unslow.think.case.waits import NOTICED_S, is_history
from unslow.think.case.work import Cure
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Cause, Found, Suspected, missing_need, ruled_out_at_once
from unslow.think.causes._memory_remedies import oversized_context
from unslow.think.judge.budget import budget
from unslow.think.judge.chains import can_fail_a_load, settled
from unslow.think.judge.checklist import checklist
from unslow.think.judge.findings import beyond_physics, promising_no_more, worthy_findings
from unslow.think.judge.phases import (
    FIRST_TOKEN,
    Outlook,
    Pace,
    first_token_cured,
    first_token_now,
    losing_phases,
    outlook,
    slow_phase,
)
from unslow.think.judge.pricing import time_with
from unslow.think.judge.summary import summary
from unslow.think.judge.verdict import TOO_FAST, contradicts, verdict_on
from unslow.think.memo import one_judgement
from unslow.think.physics.terms import Interval
from unslow.think.report import Contradicted, Expected, Finding, Range, Report, RuledOut, SubjectReport, Untold, Verdict

LONGEST = 100
_WORDS_OF_PEOPLE = ("account.remarks", "account.comparisons")
_BEFORE = 0.6  # How much of the room stands before the words that matter: people say first what it is about


def with_quotes(case: Case, report: SubjectReport) -> SubjectReport:
    """The report with every long text of the person's cut to a quote, wherever it stands."""
    shorter = dict[str, tuple[str, str]]()
    for remark in case.account.remarks.value_or(()):
        phrases = remark_phrases().get(remark.topic)
        topic = phrases.says.search(remark.text.lower()) if phrases else None
        quote = excerpt(remark.text, *(topic.span() if topic else ()))
        shorter[remark.text] = (f'"{quote}"', remark.source)
    for comparison in case.account.comparisons.value_or(()):
        if comparison.text:
            shorter[comparison.text] = (f'"{excerpt(comparison.text)}"', comparison.source)
    if not shorter:
        return report
    findings = []
    for finding in _all_within(report.findings, shorter):
        evidence = tuple(
            msgspec.structs.replace(item, value=shorter[item.value][0])
            if item.fact in _WORDS_OF_PEOPLE and item.value in shorter
            else item
            for item in finding.evidence
        )
        findings.append(msgspec.structs.replace(finding, evidence=evidence))
    return msgspec.structs.replace(
        report,
        findings=tuple(findings),
        cannot_tell=_all_within(report.cannot_tell, shorter),
        ruled_out=_all_within(report.ruled_out, shorter),
    )


def excerpt(text: str, start: int = 0, end: int = 0) -> str:
    """At most about a hundred letters around a place, at word borders, with dots where something is left out."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    first = max(0, min(start - int(_BEFORE * (LONGEST - min(LONGEST, end - start))), len(text) - LONGEST))
    last = min(len(text), first + LONGEST)
    if first:
        first = text.find(" ", first, last) + 1 or first
    if last < len(text):
        last = max(text.rfind(" ", first, last), first + 1)
    left, right = "… " if first else "", " …" if last < len(text) else ""
    return f"{left}{text[first:last].strip(' ,;:')}{right}"


def _all_within(items: tuple[Any, ...], shorter: dict[str, tuple[str, str]]) -> Any:
    """The items with the longest text of a person's that their reason holds cut to its quote."""
    longest_first, cut = sorted(shorter, key=len, reverse=True), []
    for item in items:
        because, text = item.because, next((text for text in longest_first if text in item.because), "")
        if text:
            because = because.replace(text, "{} ({})".format(*shorter[text]), 1)
        cut.append(msgspec.structs.replace(item, because=because))
    return tuple(cut)


_FOLDERS = re.compile(r"^(?:/|[A-Za-z]:\\)(?:[^/\\]*[/\\])*(?=[^/\\])")
"""Of a model whose name is the path of its folder, as MLX-LM and vLLM are told it: what stands before the last part."""
_WORST_FIRST: tuple[Verdict, ...] = ("failed", "slow", "cannot_tell", "normal")
SHORT_CONTEXT = 4096
"""Tokens: the least that Ollama gives a conversation by default; with fewer, a few turns or one document fill it."""


def diagnose(snapshot: Snapshot) -> Report:
    """The report on every subject of a snapshot, the slowest against its achievable speed first."""
    judged = [judge(case) for case in snapshot.cases()]
    subjects = [msgspec.structs.replace(subject, number=number) for number, subject in enumerate(judged)]

    def share_reached(subject: SubjectReport) -> tuple[int, float]:
        achievable, measured = subject.expected.achievable.get(DECODE), subject.measured.get(DECODE)
        return _WORST_FIRST.index(subject.verdict), measured / achievable.mid if achievable and measured else 0.0

    worst_first = tuple(sorted(subjects, key=share_reached))
    return Report(unslow_version=snapshot.unslow_version, machine=machine_line(snapshot), subjects=worst_first)


@one_judgement()
def judge(case: Case, *, brief: bool = False) -> SubjectReport:
    """The report on one subject; a brief one has no checklist, and where all is normal no words for what to look at."""
    now = predict(case)
    answers = {name: _answer(case, cause) for name, cause in all_causes().items()}
    answers = settled(case, answers, now if isinstance(now, Prediction) else None)
    found = {name: a for name, a in answers.items() if isinstance(a, Found)}
    cures = _all_cures(case, found)
    seen = outlook(case, cures)
    findings, costless = worthy_findings(case, found, seen)
    verdict = verdict_on(case, findings, seen)
    if not (brief and verdict == "normal"):
        answers = {name: _spelled(case, answer) for name, answer in answers.items()}
    too_small = (*costless, *(findings if verdict == "normal" else ()))
    told = () if verdict == "normal" else findings
    beyond = beyond_physics(case, found, told, seen)
    names, best, expected = subject_name(case), seen.decode.best, _expected(case, seen, verdict, findings, cures)
    report = SubjectReport(
        url=case.runtime.url.value_or(""),
        pid=case.runtime.pid.value_or(None),
        runtime=names[0],
        version=case.runtime.version.value_or(""),
        model=names[1],
        quant=case.model.quant.value_or(""),
        devices=_devices(case),
        verdict=verdict,
        summary="",
        phase=_phase(case, seen, findings),
        measured=_measured(case, seen, first_token_now(case, [f.cause for f in told])),
        expected=expected,
        budget=() if verdict == "failed" else budget(case, seen, [f.cause for f in told], beyond),
        findings=tuple(promising_no_more(f, expected) for f in told),
        ruled_out=(
            *(RuledOut(cause=f.cause, because=f"costs little here: {f.because}") for f in too_small),
            *(RuledOut(cause=n, because=a.because) for n, a in answers.items() if isinstance(a, Absent)),
        ),
        cannot_tell=tuple(
            Untold(cause=n, missing=a.missing, because=a.why, how_to_get=a.how_to_get, suspected=bool(a.suspected))
            for n, a in answers.items()
            if isinstance(a, CannotTell) and (verdict != "failed" or can_fail_a_load(n))
        ),
        checklist=() if brief else checklist(case, best if isinstance(best, Prediction) else None),
        contradictions=tuple(
            Contradicted(about=c.about, meaning=c.meaning, says=tuple(f"{s.says} [{s.source}]" for s in c.statements))
            for c in case.contradictions
        ),
        notes=_notes(case),
    )
    return summary(case, with_quotes(case, report))


def _phase(case: Case, seen: Outlook, findings: tuple[Finding, ...]) -> str:
    """The phase that loses most time; where none was measured to lose any, that of what was found."""
    losing, failed = losing_phases(seen.times), case.runtime.state.value_or("") == "failed"
    if failed or not findings:
        return slow_phase(case, seen.times)
    first = findings[0]
    # what a request loses to a cause may be no part of the requests that were timed, such as a second turn
    waits = first.cost.seconds if first.cost and first.cost.per == "request" else 0.0
    most = max((t.lost_s for t in losing), default=0.0)
    return first.phase if not losing or waits > max(most, NOTICED_S) else slow_phase(case, seen.times)


def _notes(case: Case) -> tuple[str, ...]:
    if not case.runtime.embedded:
        return tuple(filter(None, (_past_speed(case), oversized_context(case), _divided_context(case))))
    gpu = " It does not use the GPU." if gpus_of(case) else ""
    return (f"This is the embedded engine on a made-up model: it shows what the CPU and the memory give.{gpu}",)


def _divided_context(case: Case) -> str:
    """What each user has of a context that llama.cpp divides: with `-np N` and without `--kv-unified`."""
    runtime = case.runtime
    slots, unified = runtime.slots.value_or(1), runtime.kv_unified.value_or(default=True)
    each = runtime.context_per_slot.value_or(runtime.context_length.value_or(SHORT_CONTEXT * slots) // max(1, slots))
    if not runtime.name.value_or("").endswith("llama.cpp") or slots <= 1 or unified or each >= SHORT_CONTEXT:
        return ""
    divided = f"The context of {each * slots:,} tokens is divided among {slots} slots: each user has {each:,}."
    return f"{divided} -c {SHORT_CONTEXT * slots} gives each {SHORT_CONTEXT:,}; --kv-unified shares one cache."


def _past_speed(case: Case) -> str:
    """Whose speeds these are, where a server that was looked at was not measured."""
    speed, used = case.run.decode_tokens_per_s, next((load.used_until for load in own_loads(case)[::-1]), "")
    if not isinstance(speed, Known) or speed.origin is not Origin.REPORTED or not isinstance(case.runtime.pid, Known):
        return ""
    when = f", the last of them at {used}" if used else ""
    return f"The speeds are those of requests in its log{when} [{speed.source}]: nothing was measured now."


def _spelled(case: Case, answer: Found | Absent | CannotTell) -> Found | Absent | CannotTell:
    if isinstance(answer, CannotTell):
        return answer._replace(how_to_get=spelled_out(answer.how_to_get, case))
    return answer


def _answer(case: Case, cause: Cause) -> Found | Absent | CannotTell:
    ruled_out = ruled_out_at_once(case, cause)
    if ruled_out:
        return ruled_out
    lacking = missing_need(case, cause.needs)
    if lacking:
        return lacking if lacking.how_to_get else lacking._replace(how_to_get=cause.ask)
    try:
        answer = cause.check(case)
    except MissingFactError as error:
        unknown = error.unknown
        return CannotTell(error.path or unknown.why, unknown.why, unknown.how_to_get or cause.ask)
    if isinstance(answer, Suspected):
        return CannotTell(answer.missing, answer.because, answer.how_to_get or cause.ask, answer.because)
    return answer


def _all_cures(case: Case, found: dict[str, Found]) -> Cure | None:
    """Every found cause cured, and all that fits placed on the GPU: what is left out without a reason is no norm."""
    cures = [f.cure for f in found.values() if f.cure]
    if runtime_sees_gpu(case) and not case.runtime.embedded:
        with contextlib.suppress(MissingFactError):
            cures.append(Cure(vram_bytes=available_vram_bytes(case)))
    return reduce(Cure.and_also, cures) if cures else None


def _expected(
    case: Case, seen: Outlook, verdict: Verdict, findings: tuple[Finding, ...], cures: Cure | None
) -> Expected:
    if verdict == "failed":
        return Expected(because="it does not load")
    now, best = seen.decode.now, seen.decode.best
    lacks = next((p.why for p in (now, best) if isinstance(p, Unknown)), "")
    first = first_token_cured(case, [f.cause for f in findings], seen)
    soon = {FIRST_TOKEN: Range(**first._asdict())} if first else {}
    after = [_as_tried(case, pace, findings, cures) for pace in (seen.decode, seen.prefill)]
    prompts = seen.prefill.measured_s  # Of prompts only where one was measured to hold against it
    return Expected(
        as_configured=_ranges(now, seen.prefill.now if prompts else NOT_LOOKED),
        achievable=_ranges(after[0], after[1] if prompts else NOT_LOOKED) | soon,
        ceiling_tokens_per_s=best.ceiling if isinstance(best, Prediction) else None,
        basis=now.basis if isinstance(now, Prediction) else "catalog",
        because=TOO_FAST if contradicts(seen.decode) else lacks,
    )


def _ranges(decode: Prediction | Unknown, prefill: Prediction | Unknown) -> dict[str, Range]:
    both = ((DECODE, decode), (PREFILL, prefill))
    return {metric: Range(**p.tokens_per_s._asdict()) for metric, p in both if isinstance(p, Prediction)}


def _as_tried(case: Case, pace: Pace, findings: tuple[Finding, ...], cures: Cure | None) -> Prediction | Unknown:
    """What is achievable, but no slower than an experiment has shown.

    By physics; of prompts, which it knows less well, from the measured time through physics: what neither a cure nor
    physics explains will hardly be gone as a whole.
    """
    best = pace.best
    costs = [f.cost for f in findings if f.cost and f.cost.per == pace.per and f.cost.depth_tokens is None]
    saved = sum(cost.seconds for cost in costs)
    if not isinstance(best, Prediction) or not pace.measured_s or not saved:
        return best
    share = (pace.measured_s - saved) / best.seconds.mid
    if share > 1 and pace.per == "token":
        return best  # physics is sharp for tokens, and what it does not explain is mostly of the moment
    if share > 1:
        share = min(share, max(1.0, (time_with(case, pace, cures or Cure()) or 0.0) / best.seconds.mid))
    return best._replace(seconds=Interval(*(s * share for s in best.seconds))) if share > 0 else best


def _measured(case: Case, seen: Outlook, first_token_s: float | None) -> dict[str, float]:
    run, speeds = case.run, {DECODE: seen.decode.measured_s, PREFILL: seen.prefill.measured_s}
    facts = {
        PREFILL: run.prefill_tokens_per_s,
        "client_decode_tokens_per_s": run.client_decode_tokens_per_s,
        "load_s": run.load_s,
        "queue_s": NOT_LOOKED if is_history(case) else run.queue_s,
    }
    rates = {name: 1 / seconds for name, seconds in speeds.items() if seconds}
    rates |= {FIRST_TOKEN: first_token_s} if first_token_s is not None else {}
    return rates | {n: f.value for n, f in facts.items() if isinstance(f, Known) and n not in rates}


def subject_name(case: Case) -> tuple[str, str]:
    """What the subject is called in a report: its runtime and its model."""
    model = _name(case.model.name, case.model.quant)
    return _name(case.runtime.name, case.runtime.version), _FOLDERS.sub("", model)


def _name(*parts: Known[str] | Unknown) -> str:
    return " ".join(p.value for p in parts if isinstance(p, Known)) or "unknown"


def _devices(case: Case) -> tuple[str, ...]:
    names = [g.name.value_or("a GPU") for g in gpus_of(case)]
    return (*names, case.machine.cpu.model.value_or("CPU" if names else "unknown hardware"))


def machine_line(snapshot: Snapshot) -> dict[str, str | int | float | bool]:
    """The machine in a few words, for the head of a report."""
    machine = snapshot.machine
    gpus = machine.gpus.value_or(())
    facts: dict[str, Known[str] | Known[int] | Known[float] | Known[bool] | Unknown] = {
        "cpu": machine.cpu.model,
        "physical_cores": machine.cpu.physical_cores,
        "memory_bytes": machine.memory.total_bytes,
        "ram_read_bytes_per_s": machine.memory.read_bytes_per_s,
        "system": machine.system.name,
        "container": machine.system.container,
    }
    line: dict[str, str | int | float | bool] = {k: f.value for k, f in facts.items() if isinstance(f, Known)}
    if gpus:
        line["gpus"] = ", ".join(g.name.value_or("unnamed GPU") for g in gpus)
    return line
