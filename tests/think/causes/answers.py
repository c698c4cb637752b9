"""Asks one cause about a case, as the judge does."""

from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import _answer, _spell_answer


def ask(name: str, case: Case) -> Found | Absent | CannotTell:
    return _spell_answer(CaseView(case), _answer(CaseView(case), all_causes()[name]))
