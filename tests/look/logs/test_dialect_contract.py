"""The contract of every log dialect."""

import pytest

from unslow.facts.machine import Machine
from unslow.facts.snapshot import Subject
from unslow.look.logs.dialect import LONGEST_LINE, Text
from unslow.look.paste import line_dialects, text_dialects

FILLERS = ("9", "9 ", "a: ", "= ", "| ", "-1,", '"')


@pytest.mark.parametrize("name", line_dialects())
def test_a_line_dialect_without_lines_gives_no_facts(name):
    seen = line_dialects()[name].start().log_facts("log")
    assert (seen.machine, seen.subject, seen.lines) == (Machine(), Subject(), 0)


@pytest.mark.parametrize("name", line_dialects())
def test_chatty_needles_are_a_subset_of_needles(name):
    dialect = line_dialects()[name]
    assert dialect.chatty <= set(dialect.needles)
    assert all(dialect.needles)


@pytest.mark.parametrize("name", line_dialects())
def test_a_line_dialect_survives_any_line_with_its_needles(name):
    dialect = line_dialects()[name]
    reader = dialect.start()
    for number, needle in enumerate(dialect.needles):
        for filler in FILLERS:
            reader.take((needle + filler * LONGEST_LINE)[:LONGEST_LINE], f"log:{number}")
        reader.skip(needle, 3)
    assert reader.log_facts("log").lines >= 0


@pytest.mark.parametrize("name", text_dialects())
@pytest.mark.parametrize("lines", [[], [""], ["a sentence that means nothing"]], ids=["none", "empty", "prose"])
def test_a_text_dialect_gives_no_facts_from_prose(name, lines):
    seen = text_dialects()[name](Text(lines, "paste"))
    assert (seen.machine, seen.subject, seen.spans) == (Machine(), Subject(), ())
