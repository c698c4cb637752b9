"""What must hold for every cause: documented, honest about its needs, deterministic, never without evidence."""

import importlib
from pathlib import Path

import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case, without

from unslow.facts.snapshot import Case
from unslow.think.causes import all_causes
from unslow.think.causes._cause import CannotTell, Found
from unslow.think.judge import _answer, judge

HEADINGS = ("## Why it", "## How to confirm", "## How to fix", "## Safety")
IDS = list(all_causes())
EXPLICIT = {
    "gpu_layers_set_too_low": ("runtime.gpu_layers_set",),
    "memory_allocation_failed": ("runtime.allocation_failure",),
    "other_process_holds_vram": ("runtime.allocation_failure",),
}


@pytest.mark.parametrize("name", IDS)
def test_its_docstring_is_a_page(name):
    doc = importlib.import_module(f"unslow.think.causes.{name}").__doc__
    assert doc
    assert all(heading in doc for heading in HEADINGS)


@pytest.mark.parametrize("name", IDS)
def test_it_has_a_test_and_a_machine_where_it_fires(name):
    assert (Path(__file__).parent / f"test_{name}.py").is_file()
    assert name in FIRING


@pytest.mark.parametrize("name", IDS)
def test_it_fires_with_evidence_and_the_same_way_twice(name):
    answer = _answer(FIRING[name](), all_causes()[name])
    assert isinstance(answer, Found), answer
    assert answer.evidence
    assert all(e.source for e in answer.evidence)
    assert answer == _answer(FIRING[name](), all_causes()[name])


@pytest.mark.parametrize("name", IDS)
def test_it_explains_only_causes_that_there_are_and_never_itself(name):
    """Where causes explain one another in a circle, none of them would be the root."""
    causes, reached, ahead = all_causes(), set(), [name]
    while ahead:
        for other in causes[ahead.pop()].explains:
            assert other in causes, other
            assert other != name
            if other not in reached:
                reached.add(other)
                ahead.append(other)


@pytest.mark.parametrize("name", IDS)
def test_it_says_how_to_get_what_decides(name):
    assert all_causes()[name].ask, "a command that a person can copy"


def _flat(needs):
    return [p for need in needs for p in ((need,) if isinstance(need, str) else need)]


@pytest.mark.parametrize("name", IDS)
def test_without_a_fact_that_it_needs_it_cannot_tell(name):
    cause = all_causes()[name]
    for need in cause.needs:
        case = FIRING[name]()
        for path in (need,) if isinstance(need, str) else need:
            case = without(case, path)
        answer = _answer(case, cause)
        assert isinstance(answer, CannotTell), (need, answer)
        assert answer.how_to_get == "ask the test"


@pytest.mark.parametrize("name", IDS)
def test_a_missing_fact_never_turns_it_into_ruled_out(name):
    """Only a fact that says "not so" may rule a cause out; one that is missing may not."""
    cause = all_causes()[name]
    for path in _paths(Case):
        if path in EXPLICIT.get(name, ()):
            continue  # its absence is itself the answer: nothing was set, nothing failed
        answer = _answer(without(FIRING[name](), path), cause)
        assert isinstance(answer, Found | CannotTell), (path, answer)


@pytest.mark.parametrize("name", IDS)
def test_a_normal_system_has_no_findings(name):
    report = judge(FIRING[name]())
    assert report.verdict in ("slow", "failed")
    assert report.findings


@pytest.mark.parametrize("path", ["machine", "runtime", "model", "run"])
def test_the_judge_needs_no_fact_at_all(path):
    for start in (cpu_case(), gpu_case(), gpu_case(21, 5.0)):
        blank = Case(**{n: getattr(start, n) for n in ("machine", "runtime", "model", "run") if n != path})
        assert judge(blank).verdict in ("slow", "normal", "failed", "cannot_tell")


def _paths(kind):
    blank = kind()
    for group in ("runtime", "model", "run", "account"):
        yield from (f"{group}.{f}" for f in getattr(blank, group).__struct_fields__ if f != "embedded")
    for group in ("cpu", "load", "memory", "system"):
        yield from (f"machine.{group}.{f}" for f in getattr(blank.machine, group).__struct_fields__)
