"""What must hold for every cause: documented, honest about its needs, deterministic, never without evidence."""

import importlib
import re
from pathlib import Path

import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case, without

from unslow.facts.runtime import FACT_PATHS
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import CannotTell, Found
from unslow.think.judge.judge import _answer, judge

HEADINGS = ("## Why it ", "## How to confirm", "## What it is not", "## How to fix", "## Safety")
OF_GGML = ("llama.cpp", "Ollama", "LM Studio")
RUNTIMES = (*OF_GGML, "vLLM", "Transformers")
FOR_ALL = re.compile(r"(?i)on any runtime|for every runtime|^- any: ", re.MULTILINE)
SHORTEST = 15
"""Letters of a section: 'Answers do not change.' says enough."""
IDS = list(all_causes())
EXPLICIT = {
    "gpu_layers_set_too_low": ("runtime.placement.gpu_layers_set",),
    "memory_allocation_failed": ("runtime.memory.allocation_failure",),
    "other_process_holds_vram": ("runtime.memory.allocation_failure",),
}


@pytest.mark.parametrize("name", IDS)
def test_its_docstring_is_a_page(name):
    sections = _sections(name)
    assert [h for h in HEADINGS for title in sections if title.startswith(h)] == list(HEADINGS), "all, in this order"
    assert all(len(text) > SHORTEST for text in sections.values()), sections


@pytest.mark.parametrize("name", IDS)
def test_its_page_says_how_to_fix_it_on_each_runtime(name):
    """By name, or in one word for all; a cause of llama.cpp's engine alone needs only those that run it."""
    fix = next(text for title, text in _sections(name).items() if title.startswith("## How to fix"))
    wanted = OF_GGML if all_causes()[name].ggml_only else RUNTIMES
    assert FOR_ALL.search(fix) or all(runtime in fix for runtime in wanted), [r for r in wanted if r not in fix]


@pytest.mark.parametrize("name", IDS)
def test_where_its_page_cites_guides_it_says_what_holds_instead(name):
    for paragraph in (_doc(name)).split("\n\n"):
        if "Guides" in paragraph:
            assert re.search(r"\bbut\b|: ", paragraph), paragraph


@pytest.mark.parametrize("name", IDS)
def test_it_has_a_test_and_a_machine_where_it_fires(name):
    assert (Path(__file__).parent / f"test_{name}.py").is_file()
    assert name in FIRING


@pytest.mark.parametrize("name", IDS)
def test_it_fires_with_evidence_and_the_same_way_twice(name):
    answer = _answer(CaseView(FIRING[name]()), all_causes()[name])
    assert isinstance(answer, Found), answer
    assert answer.evidence
    assert all(e.source for e in answer.evidence)
    assert answer == _answer(CaseView(FIRING[name]()), all_causes()[name])


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


def _doc(name):
    return importlib.import_module(f"unslow.think.causes.{name}").__doc__


def _sections(name):
    """The text below each heading of a page."""
    _, *parts = re.split(r"^(## .*)$", _doc(name), flags=re.MULTILINE)
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


@pytest.mark.parametrize("name", IDS)
def test_without_a_fact_that_it_needs_it_cannot_tell(name):
    cause = all_causes()[name]
    for need in cause.needs:
        case = FIRING[name]()
        for path in (need,) if isinstance(need, str) else need:
            case = without(case, path)
        answer = _answer(CaseView(case), cause)
        assert isinstance(answer, CannotTell), (need, answer)
        assert answer.how_to_get == "ask the test"


@pytest.mark.no_cover  # hundreds of answers of the same lines
@pytest.mark.parametrize("name", IDS)
def test_a_missing_fact_never_turns_it_into_ruled_out(name):
    """Only a fact that says "not so" may rule a cause out; one that is missing may not."""
    cause, whole = all_causes()[name], FIRING[name]()
    for path in _paths(whole):
        if path in EXPLICIT.get(name, ()):
            continue  # its absence is itself the answer: nothing was set, nothing failed
        answer = _answer(CaseView(without(whole, path)), cause)
        assert isinstance(answer, Found | CannotTell), (path, answer)


@pytest.mark.no_cover  # the machines are judged elsewhere
@pytest.mark.parametrize("name", IDS)
def test_its_machine_is_reported_for_it_or_for_what_explains_it(name):
    report = judge(CaseView(FIRING[name]()))
    assert report.verdict in ("slow", "failed")
    found = {finding.cause for finding in report.findings}
    roots = {cause for cause, other in all_causes().items() if name in other.explains}
    assert name in found or found & roots, found


@pytest.mark.parametrize("path", ["machine", "runtime", "model", "run"])
def test_the_judge_needs_no_fact_at_all(path):
    for start in (cpu_case(), gpu_case(), gpu_case(21, 5.0)):
        blank = Case(**{n: getattr(start, n) for n in ("machine", "runtime", "model", "run") if n != path})
        assert judge(CaseView(blank)).verdict in ("slow", "normal", "failed", "cannot_tell")


def _paths(case):
    """Every fact of a case by its path: those of each GPU and of each reading under load too."""
    blank = Case()
    yield from (f"runtime.{path}" for path in FACT_PATHS.values() if path != "embedded")
    for group in ("model", "run", "account", "wish"):
        yield from (f"{group}.{f}" for f in getattr(blank, group).__struct_fields__)
    for group in ("cpu", "load", "memory", "system"):
        yield from (f"machine.{group}.{f}" for f in getattr(blank.machine, group).__struct_fields__)
    yield "machine.gpus"
    for at, items in (("machine.gpus", case.machine.gpus), ("run.gpus", case.run.gpus)):
        for number, item in enumerate(items.value_or(())):
            facts = (f for f in item.__struct_fields__ if isinstance(getattr(item, f), Known | Unknown))
            yield from (f"{at}.{number}.{fact}" for fact in facts)
