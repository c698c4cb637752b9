from operator import attrgetter

from told import account, pasted

from unslow.facts.machine import Gpu, Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact, told_fact
from unslow.think.case.view import CaseView
from unslow.think.judge.subject import PATHS, known_facts


def test_empty_case_has_no_known_facts():
    assert known_facts(CaseView(Case())) == ()


def test_every_path_exists_in_a_case():
    assert all(attrgetter(path)(Case()) is not None for path in PATHS)


def test_each_fact_keeps_its_origin_and_source():
    case = Case(
        runtime=Runtime(name=reported_fact("Ollama", "server.log:3"), version=told_fact("0.6.2", "report.txt:1"))
    )
    first, second = known_facts(CaseView(case))
    assert (first.fact, first.value, first.origin, first.source) == (
        *("runtime.name", "Ollama", "reported", "server.log:3"),
    )
    assert (second.value, second.origin) == ("0.6.2", "told")


def test_gpus_are_listed_by_name_after_the_runtime():
    case = pasted(gpus=["RTX 3090", "RTX 3060"], runtime={"name": "Ollama", "version": "0.6.2"})
    facts = [item.fact for item in known_facts(case)]
    assert facts[:3] == ["runtime.name", "runtime.version", "machine.gpus"]
    assert known_facts(case)[2].value == "RTX 3090, RTX 3060"
    unnamed = Case(machine=Machine(gpus=told_fact((Gpu(index=0),), "p:1")))
    assert known_facts(CaseView(unnamed))[0].value == "unnamed GPU"


def test_machine_without_gpus_lists_none():
    assert known_facts(CaseView(Case(machine=Machine(gpus=told_fact((), "p:1"))))) == ()


def test_account_facts_are_listed():
    facts = {
        item.fact: item.value
        for item in known_facts(CaseView(Case(account=account(version_since="0.5.8", slowdown=4.0))))
    }
    assert facts == {"account.version_since": "0.5.8", "account.slowdown": 4.0}
