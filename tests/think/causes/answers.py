"""Asks one cause about a case, as the judge does."""

from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import _answer


def ask(name: str, case: Case) -> Found | Absent | CannotTell:
    view = CaseView(case)
    answer = _answer(view, all_causes()[name])
    is_open = isinstance(answer, CannotTell)
    return answer._replace(how_to_get=view.system.spell_out(answer.how_to_get)) if is_open else answer
