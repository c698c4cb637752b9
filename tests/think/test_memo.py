"""Within a judgement a thing is reckoned once; nothing outlives it."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from cases import gpu_case, with_facts, with_tensors

from unslow.commands.fit import FitRequest, fitted
from unslow.look.system.live import LiveSystem
from unslow.think import setup
from unslow.think.case import demand, prediction, questions
from unslow.think.judge.judge import judge
from unslow.think.memo import once, one_judgement, remembered
from unslow.think.memory.llama_cpp.need import memory_of


class Counted:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_the_same_question_of_the_same_object_is_reckoned_once():
    one, other, reckon = [1], [1], Counted()
    with one_judgement():
        assert [remembered(one, "a", reckon), remembered(one, "a", reckon)] == [1, 1]
        assert remembered(one, "b", reckon) == 2
        assert remembered(other, "a", reckon) == 3, "equal, and yet another"


def test_an_object_that_is_gone_is_not_taken_for_a_new_one():
    with one_judgement():
        assert [remembered([n], "a", lambda n=n: n) for n in range(50)] == list(range(50))


def test_nothing_outlives_a_judgement():
    one, reckon = [1], Counted()
    assert [remembered(one, "a", reckon), remembered(one, "a", reckon)] == [1, 2], "outside of any"
    for expected in (3, 4):
        with one_judgement():
            assert remembered(one, "a", reckon) == expected


def test_one_within_another_shares_its_notes_and_leaves_them():
    one, reckon = [1], Counted()
    with one_judgement():
        remembered(one, "a", reckon)
        with one_judgement():
            assert remembered(one, "a", reckon) == 1
        assert remembered(one, "a", reckon) == 1


def test_another_thread_judges_by_itself():
    one, reckon, seen = [1], Counted(), list[int]()
    with one_judgement():
        remembered(one, "a", reckon)
        thread = Thread(target=lambda: seen.append(remembered(one, "a", reckon)))
        thread.start()
        thread.join()
    assert seen == [2]


def test_a_judgement_lays_out_no_graph_twice(monkeypatch):
    asked = []

    def counting(plan, settings, shares):
        asked.append((settings, shares))
        return memory_of(plan, settings, shares)

    monkeypatch.setattr(demand, "memory_of", counting)
    spilled = with_facts(with_tensors(gpu_case(20, free_gib=6.0)), {"run.decode_tokens_per_s": 12.0})
    report = judge(spilled)
    assert report.findings
    assert len(asked) == len(set(asked)) > 1


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[tuple[Any, ...]]:
    """What a function is asked from now on."""
    asked: list[tuple[Any, ...]] = []
    real: Callable[..., Any] = getattr(module, name)

    def counting(*words: Any) -> Any:
        asked.append(words)
        return real(*words)

    monkeypatch.setattr(module, name, counting)
    return asked


def test_a_judgement_unpacks_and_weighs_a_model_once(monkeypatch):
    unpacked, weighed = counted(monkeypatch, demand, "unpacked_tensors"), counted(monkeypatch, questions, "model_load")
    assert judge(with_facts(with_tensors(gpu_case(20, free_gib=6.0)), {"run.decode_tokens_per_s": 12.0})).findings
    assert (len(unpacked), len(weighed)) == (1, 1)


def test_a_judgement_predicts_the_same_of_the_same_case_once(monkeypatch):
    asked = counted(monkeypatch, prediction, "work")
    assert judge(gpu_case(20, free_gib=6.0)).findings
    assert len({(id(case), cure) for case, cure in asked}) == len(asked) > 1


def test_whether_a_model_fits_is_reckoned_once_for_each_setting(monkeypatch):
    asked = counted(monkeypatch, setup, "memory_of")
    assert fitted(LiveSystem(), FitRequest.from_flags({"model": "llama-3.1-8b", "devices": ["RTX 4090"]})).devices
    settings = [(id(plan), *others) for plan, *others in asked]
    assert len(settings) == len(set(settings)) > 1


def test_a_function_reckons_once_for_each_object_and_what_is_asked():
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


def test_nothing_is_an_answer_that_is_kept_and_what_is_raised_is_not():
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


def test_a_judgement_asks_physics_once_about_one_placement(monkeypatch):
    asked = counted(monkeypatch, questions, "question_about")
    assert judge(gpu_case(20, free_gib=6.0)).findings
    kept = [(id(case), str(totals)) for case, totals, _ in asked]
    assert len(kept) == len(set(kept)) > 1
