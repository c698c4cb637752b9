"""Commands that users are asked to run: each gives existing facts, for known runtimes."""

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
def test_an_askable_command_gives_existing_facts(command):
    assert command.gives
    assert all(kind_at(path) for path in command.gives)


def test_an_unknown_fact_path_is_a_key_error():
    with pytest.raises(KeyError):
        kind_at("runtime.no_such_fact")


@pytest.mark.parametrize("command", askable_commands(), ids=lambda command: command.command)
def test_askable_commands_name_known_runtimes_systems_and_vendors(command):
    names = {name for _, name in runtime_words()} | {"llama.cpp"}
    assert set(command.runtimes) <= names
    assert set(command.systems) <= {"Linux", "Windows", "macOS"}
    assert set(command.vendors) <= {"NVIDIA", "AMD", "Intel", "Apple"}


def test_askable_commands_are_unique_single_lines():
    assert all("\n" not in command.command and "\n" not in command.why for command in askable_commands())
    said = [command.command for command in askable_commands()]
    assert len(said) == len(set(said))
