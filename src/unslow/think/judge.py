"""The diagnosis, top down: which phase, where its time goes, which causes are there, and what they cost."""

import contextlib
from functools import reduce

import msgspec

from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.adapt.vram import available_vram_bytes, gpus_of, runtime_sees_gpu
from unslow.think.adapt.work import Cure
from unslow.think.budget import decode_budget, slow_phase
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Cause, Found, Suspected, missing_need
from unslow.think.checklist import checklist
from unslow.think.findings import priced_findings
from unslow.think.predict import DECODE, Prediction, measured_rate, predict
from unslow.think.quotes import quoted
from unslow.think.report import (
    BudgetPart,
    Contradicted,
    Expected,
    Range,
    Report,
    RuledOut,
    SubjectReport,
    Untold,
    Verdict,
)
from unslow.think.summary import summary
from unslow.think.verdict import contradicts, verdict_on

_TOO_FAST = "it is faster than the memory bandwidth allows, so the GPU, the model or the placement is not what it seems"
_WORST_FIRST: tuple[Verdict, ...] = ("failed", "slow", "cannot_tell", "normal")


def diagnose(snapshot: Snapshot) -> Report:
    """The report on every subject of a snapshot, the slowest against its achievable speed first."""
    judged = [judge(case) for case in snapshot.cases()]
    subjects = [msgspec.structs.replace(subject, number=number) for number, subject in enumerate(judged)]
    return Report(
        unslow_version=snapshot.unslow_version,
        machine=machine_line(snapshot),
        subjects=tuple(sorted(subjects, key=_share_reached)),
    )


def _share_reached(subject: SubjectReport) -> tuple[int, float]:
    achievable, measured = subject.expected.achievable.get(DECODE), subject.measured.get(DECODE)
    return _WORST_FIRST.index(subject.verdict), measured / achievable.mid if achievable and measured else 0.0


def judge(case: Case) -> SubjectReport:
    """The report on one subject."""
    answers = _last_resorts_settled({name: _answer(case, cause) for name, cause in all_causes().items()})
    found = {name: a for name, a in answers.items() if isinstance(a, Found)}
    measured, now, best = measured_rate(case), predict(case), predict(case, _all_cures(case, found))
    findings = priced_findings(case, found, now, measured)
    verdict = verdict_on(case, findings, (now, best), measured)
    too_small = findings if verdict == "normal" else ()
    names = subject_name(case)
    report = SubjectReport(
        url=case.runtime.url.value_or(""),
        pid=case.runtime.pid.value_or(None),
        runtime=names[0],
        model=names[1],
        devices=_devices(case),
        verdict=verdict,
        summary="",
        phase=slow_phase(case),
        measured=_measured(case, measured),
        expected=_expected(now, best, measured, verdict),
        budget=_budget(case, now, measured, verdict),
        findings=() if too_small else findings,
        ruled_out=(
            *(RuledOut(cause=f.cause, because=f"costs little here: {f.because}") for f in too_small),
            *_absent(answers),
        ),
        cannot_tell=_untold(answers),
        checklist=checklist(case, best if isinstance(best, Prediction) else None),
        contradictions=_contradictions(case),
        notes=_notes(case),
    )
    return summary(case, quoted(case, report))


def _notes(case: Case) -> tuple[str, ...]:
    if not case.runtime.embedded:
        return ()
    gpu = " It does not use the GPU." if gpus_of(case) else ""
    return (f"This is the embedded engine on a made-up model: it shows what the CPU and the memory give.{gpu}",)


def _contradictions(case: Case) -> tuple[Contradicted, ...]:
    return tuple(
        Contradicted(about=c.about, meaning=c.meaning, says=tuple(f"{s.says} [{s.source}]" for s in c.statements))
        for c in case.contradictions
    )


Answers = dict[str, Found | Absent | CannotTell]


def _absent(answers: Answers) -> tuple[RuledOut, ...]:
    return tuple(RuledOut(cause=n, because=a.because) for n, a in answers.items() if isinstance(a, Absent))


def _untold(answers: Answers) -> tuple[Untold, ...]:
    return tuple(
        Untold(cause=n, missing=a.missing, because=a.why, how_to_get=a.how_to_get, suspected=bool(a.suspected))
        for n, a in answers.items()
        if isinstance(a, CannotTell)
    )


def _answer(case: Case, cause: Cause) -> Found | Absent | CannotTell:
    if cause.gpu_only and isinstance(case.machine.gpus, Known) and not case.machine.gpus.value:
        return Absent("no GPU in this machine")
    lacking = missing_need(case, cause.needs)
    if lacking:
        return lacking._replace(how_to_get=lacking.how_to_get or cause.ask)
    try:
        answer = cause.check(case)
    except MissingFactError as error:
        unknown = error.unknown
        return CannotTell(error.path or unknown.why, unknown.why, unknown.how_to_get or cause.ask)
    if isinstance(answer, Suspected):
        return CannotTell(answer.missing, answer.because, answer.how_to_get or cause.ask, answer.because)
    return answer


def _last_resorts_settled(answers: Answers) -> Answers:
    """What explains a loss only where nothing else does is ruled out by anything else that was found."""
    causes = all_causes()
    found = [n for n, a in answers.items() if isinstance(a, Found) and not causes[n].last_resort]
    if not found:
        return answers
    explained = Absent(f"{causes[found[0]].title[0].lower()}{causes[found[0]].title[1:]}, which explains it")
    return {
        n: explained if isinstance(a, Found) and causes[n].last_resort and not a.sure else a for n, a in answers.items()
    }


def _all_cures(case: Case, found: dict[str, Found]) -> Cure | None:
    """Every found cause cured, and all that fits placed on the GPU: what is left out without a reason is no norm."""
    cures = [f.cure for f in found.values() if f.cure]
    if runtime_sees_gpu(case) and not case.runtime.embedded:
        with contextlib.suppress(MissingFactError):
            cures.append(Cure(vram_bytes=available_vram_bytes(case)))
    return reduce(Cure.and_also, cures) if cures else None


def _expected(
    now: Prediction | Unknown, best: Prediction | Unknown, measured: Known[float] | Unknown, verdict: Verdict
) -> Expected:
    if verdict == "failed":
        return Expected(because="it does not load")
    lacks = next((p.why for p in (now, best) if isinstance(p, Unknown)), "")
    return Expected(
        as_configured={DECODE: _range(now)} if isinstance(now, Prediction) else {},
        achievable={DECODE: _range(best)} if isinstance(best, Prediction) else {},
        ceiling_tokens_per_s=best.ceiling if isinstance(best, Prediction) else None,
        basis=now.basis if isinstance(now, Prediction) else "catalog",
        because=_TOO_FAST if contradicts(measured, best) else lacks,
    )


def _range(prediction: Prediction) -> Range:
    rate = prediction.tokens_per_s
    return Range(low=rate.low, mid=rate.mid, high=rate.high)


def _budget(
    case: Case, now: Prediction | Unknown, measured: Known[float] | Unknown, verdict: Verdict
) -> tuple[BudgetPart, ...]:
    if verdict == "failed" or not isinstance(measured, Known):
        return ()
    return decode_budget(case, now if isinstance(now, Prediction) else None, 1 / measured.value)


def _measured(case: Case, rate: Known[float] | Unknown) -> dict[str, float]:
    run = case.run
    facts = {
        DECODE: rate,
        "prefill_tokens_per_s": run.prefill_tokens_per_s,
        "time_to_first_token_s": run.time_to_first_token_s,
        "client_decode_tokens_per_s": run.client_decode_tokens_per_s,
        "load_s": run.load_s,
    }
    return {name: fact.value for name, fact in facts.items() if isinstance(fact, Known)}


def subject_name(case: Case) -> tuple[str, str]:
    """What the subject is called in a report: its runtime and its model."""
    return _name(case.runtime.name, case.runtime.version), _name(case.model.name, case.model.quant)


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
