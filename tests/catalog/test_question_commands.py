"""Commands that people are asked to run: each gives facts that exist, for runtimes that have a name in facts."""

import typing

import pytest

from unslow.catalog.bug_reports import runtime_words
from unslow.catalog.questions import askable_commands
from unslow.facts.machine import Facts
from unslow.facts.snapshot import Case


def kind_at(path: str) -> object:
    """The type of a fact, or of the group of facts, at a path."""
    kind: object = Case
    for step in path.split("."):
        if step.isdecimal():
            continue
        kind = typing.get_type_hints(_group(kind))[step]
    return kind


def _group(kind: object) -> type:
    """The facts within `Fact[tuple[X, ...]]`, or the class itself."""
    if isinstance(kind, type) and issubclass(kind, Facts):
        return kind
    return next(found for part in typing.get_args(kind) if (found := _group(part)))


@pytest.mark.parametrize("command", askable_commands(), ids=lambda command: command.command)
def test_a_command_gives_facts_that_exist(command):
    assert command.gives
    assert all(kind_at(path) for path in command.gives)


def test_the_check_sees_a_wrong_name():
    with pytest.raises(KeyError):
        kind_at("runtime.no_such_fact")


@pytest.mark.parametrize("command", askable_commands(), ids=lambda command: command.command)
def test_where_it_makes_sense(command):
    names = {name for _, name in runtime_words()} | {"llama.cpp"}
    assert set(command.runtimes) <= names
    assert set(command.systems) <= {"Linux", "Windows", "macOS"}
    assert set(command.vendors) <= {"NVIDIA", "AMD", "Intel", "Apple"}


def test_each_stands_on_one_line():
    assert all("\n" not in command.command and "\n" not in command.why for command in askable_commands())
    said = [command.command for command in askable_commands()]
    assert len(said) == len(set(said))
