"""Within a judgement a value is computed once; nothing outlives it."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from cases import gpu_case, with_facts, with_tensors

from unslow.commands.fit import FitRequest, fit_model
from unslow.look.system.live import LiveSystem
from unslow.think import setup
from unslow.think.case import memory, physics
from unslow.think.case.physics import PhysicsView
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.memo import once, one_judgement, remember_once
from unslow.think.memory.llama_cpp.need import memory_of


class Counted:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_same_key_of_the_same_object_is_computed_once():
    one, other, reckon = [1], [1], Counted()
    with one_judgement():
        assert [remember_once(one, "a", reckon), remember_once(one, "a", reckon)] == [1, 1]
        assert remember_once(one, "b", reckon) == 2
        assert remember_once(other, "a", reckon) == 3, "equal, and yet another"


def test_collected_object_is_not_confused_with_a_new_one():
    with one_judgement():
        assert [remember_once([n], "a", lambda n=n: n) for n in range(50)] == list(range(50))


def test_nothing_outlives_a_judgement():
    one, reckon = [1], Counted()
    assert [remember_once(one, "a", reckon), remember_once(one, "a", reckon)] == [1, 2], "outside of any"
    for expected in (3, 4):
        with one_judgement():
            assert remember_once(one, "a", reckon) == expected


def test_nested_judgement_shares_the_memo():
    one, reckon = [1], Counted()
    with one_judgement():
        remember_once(one, "a", reckon)
        with one_judgement():
            assert remember_once(one, "a", reckon) == 1
        assert remember_once(one, "a", reckon) == 1


def test_another_thread_has_its_own_memo():
    one, reckon, seen = [1], Counted(), list[int]()
    with one_judgement():
        remember_once(one, "a", reckon)
        thread = Thread(target=lambda: seen.append(remember_once(one, "a", reckon)))
        thread.start()
        thread.join()
    assert seen == [2]


def test_judge_lays_out_no_graph_twice(monkeypatch):
    asked = []

    def counting(plan, settings, shares):
        asked.append((settings, shares))
        return memory_of(plan, settings, shares)

    monkeypatch.setattr(memory, "memory_of", counting)
    spilled = with_facts(with_tensors(gpu_case(20, free_gib=6.0)), {"run.decode_tokens_per_s": 12.0})
    report = judge(CaseView(spilled))
    assert report.findings
    assert len(asked) == len(set(asked)) > 1


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """What a function is asked from now on."""
    asked: list[tuple[Any, ...]] = []
    real: Callable[..., Any] = getattr(owner, name)

    def counting(*words: Any) -> Any:
        asked.append(words)
        return real(*words)

    monkeypatch.setattr(owner, name, counting)
    return asked


def test_judge_unpacks_and_weighs_a_model_once(monkeypatch):
    unpacked, weighed = counted(monkeypatch, memory, "unpacked_tensors"), counted(monkeypatch, physics, "model_load")
    assert judge(
        CaseView(with_facts(with_tensors(gpu_case(20, free_gib=6.0)), {"run.decode_tokens_per_s": 12.0}))
    ).findings
    assert (len(unpacked), len(weighed)) == (1, 1)


def test_judge_predicts_each_case_and_cure_once(monkeypatch):
    asked = counted(monkeypatch, PhysicsView, "work")
    assert judge(CaseView(gpu_case(20, free_gib=6.0))).findings
    assert len({(id(view.case.facts), cure) for view, cure in asked}) == len(asked) > 1


def test_fit_computes_each_setting_once(monkeypatch):
    asked = counted(monkeypatch, setup, "memory_of")
    assert fit_model(LiveSystem(), FitRequest.from_flags({"model": "llama-3.1-8b", "devices": ["RTX 4090"]})).devices
    settings = [(id(plan), *others) for plan, *others in asked]
    assert len(settings) == len(set(settings)) > 1


def test_once_memoizes_by_object_and_arguments():
    asked = []

    @once
    def reckon(of: list[int], more: int = 0, *, named: int = 0) -> int:
        asked.append((of, more, named))
        return sum(of) + more + named

    one, other = [1], [1]
    with one_judgement():
        assert [reckon(one), reckon(one), reckon(other), reckon(one, 2), reckon(one, named=3)] == [1, 1, 1, 3, 4]
        assert [reckon(one, 2), reckon(one, named=3)] == [3, 4]
    assert asked == [(one, 0, 0), (other, 0, 0), (one, 2, 0), (one, 0, 3)]
    assert [reckon(one), len(asked)] == [1, 5], "outside of a judgement each time"


def test_none_is_remembered_and_exceptions_are_not():
    reckon = Counted()

    @once
    def nothing_or_worse(of: list[int]) -> None:
        if reckon() and not of:
            raise LookupError

    with one_judgement():
        some, none = [1], list[int]()
        for _ in range(2):
            assert nothing_or_worse(some) is None
            with pytest.raises(LookupError):
                nothing_or_worse(none)
    assert reckon.times == 3


def test_judge_builds_each_speed_question_once(monkeypatch):
    asked = counted(monkeypatch, PhysicsView, "question_about")
    assert judge(CaseView(gpu_case(20, free_gib=6.0))).findings
    kept = [(id(view.case.facts), str(totals)) for view, totals, _ in asked]
    assert len(kept) == len(set(kept)) > 1
