"""A line to copy is never broken by us, however narrow the terminal: a shell runs the half of a command too."""

import pytest
from recorded_machines import FOLDERS, recorded

from unslow.app.spell import spelled
from unslow.facts.placed import in_place
from unslow.show import render
from unslow.think.judge import diagnose

WIDTHS = (60, 80, 100)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_every_command_of_a_report_stands_whole_in_its_text(folder):
    snapshot = recorded(folder)
    report = spelled(diagnose(snapshot), snapshot)
    lines = {
        line
        for subject in report.subjects
        for command in (
            *(command for finding in subject.findings for fix in finding.fixes for command in fix.commands),
            *(question.command for question in subject.ask_next),
        )
        for line in in_place(command).split("\n")
    }
    for width in WIDTHS:
        text = render(report, "terminal", width=width, color=False, everything=True)
        assert {line.strip() for line in lines} <= {line.strip() for line in text.split("\n")}, width
