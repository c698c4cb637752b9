"""What to do first, in one sentence: a line to copy, and the speed that should come of it."""

import re

from unslow.facts.placed import Place, line_of
from unslow.think.chains import chains_of
from unslow.think.first_token import FIRST_TOKEN
from unslow.think.predict import DECODE, PREFILL
from unslow.think.rates import rounded
from unslow.think.report import Fix, SubjectReport

_ENVIRONMENT = re.compile(r'Environment="(\w{1,60}=[^"\\\s]{1,60})"')
_MAKES_ROOM = "lms unload "
"""What only comes before the line that changes something."""
_MAKES_IT_SEEN = (
    "sudo systemctl daemon-reload",
    "systemctl --user daemon-reload",
    "docker compose up",
    "kubectl apply",
    "ollama create",
)
"""How lines start that only make a change seen, which stands in another one."""
LONGEST_COMMAND = 60
"""A longer one makes a sentence unreadable: the flag alone then says what to change, and the line stands below."""


def first_fix(report: SubjectReport, said: str = "") -> str:
    """What to do first, as a command where the runtime has one, and what it should then give.

    `said` is what stands before it: a speed that is named there is not named again with another number.
    """
    chains = chains_of(report.findings) if report.verdict in ("slow", "failed") else []
    links = [f for chain in chains[:1] for f in (chain.root, *chain.after) if f.fixes]
    if not links or not (links[0].fixes[0].why or links[0].fixes[0].commands):
        return ""
    fix = links[0].fixes[0]
    return f"First: {_as_said(fix)}{_brings_it_there(fix, report, said) or _gives(fix)}."


def _brings_it_there(fix: Fix, report: SubjectReport, said: str) -> str:
    """Where the achievable speed was named already: whether the fix alone is likely to reach it.

    What is promised of a fix rests on the measured time and keeps a part of what nothing explains; what is achievable
    rests on physics alone. Within its interval the two are the same answer.
    """
    should, then = report.expected.achievable.get(DECODE), fix.predicted.get(DECODE)
    if not should or not then or f"about {rounded(should.mid)}" not in said:
        return ""
    if then >= should.low:
        return ", which should bring it there"
    return f", then about {rounded(then)} of these"


def _variable_in(lines: list[str]) -> str:
    """The variable that a line which is too long for a sentence puts into a unit; empty where there is none."""
    return next((found[1] for line in lines if (found := _ENVIRONMENT.search(line))), "")


def _gives(fix: Fix) -> str:
    if DECODE in fix.predicted:
        return f", then about {rounded(fix.predicted[DECODE])} tokens per second"
    if PREFILL in fix.predicted:
        return f", then prompts at about {rounded(fix.predicted[PREFILL])} tokens per second"
    if FIRST_TOKEN in fix.predicted:
        return f", then the first token comes after about {fix.predicted[FIRST_TOKEN]:.2g} s"
    return ""


def _as_said(fix: Fix) -> str:
    """The fix in a sentence: what it does, and a line to copy in backticks; what is done by hand in its own words."""
    lines = [line_of(command) for command in fix.commands]
    short = [
        line
        for line in lines
        if len(line.text) <= LONGEST_COMMAND
        and line.place is not Place.HAND
        and not line.text.startswith(_MAKES_IT_SEEN)
    ]
    telling = [line for line in short if not line.text.startswith(_MAKES_ROOM)] or short
    chosen = next((line for line in telling if line.place is Place.SHELL), telling[0] if telling else None)
    if chosen is None and (variable := _variable_in([line.text for line in lines])):
        return f"{fix.why} (`{variable}` in the environment of the server)" if fix.why else f"`{variable}`"
    if chosen is None:
        return fix.why or (lines[0].text if lines else "")
    where = f"{chosen.place} " if chosen.place not in (Place.SHELL, Place.FLAG) else ""
    said = f"{where}`{chosen.text}`"
    return f"{fix.why} ({said})" if fix.why else said
