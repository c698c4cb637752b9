import subprocess

import pytest

from unslow.act.command_words import NotUnderstoodError, unsure_words
from unslow.act.compose import edited_compose
from unslow.act.script import edited_script, simple_commands
from unslow.act.systemd import UnitFile, drop_in

OLD = ["llama-server", "-m", "x", "-t", "4"]
TWO = "T='-t 4'\nMORE=\nllama-server -m x {} {}\n"


def in_script(command, old, new):
    return edited_script(f"#!/bin/sh\n{command}\n", old, new)


def in_unit(command, old, new):
    return drop_in([UnitFile("a.service", f"[Service]\nExecStart={command}\n")], old, new, {})


def in_compose(command, old, new):
    return edited_compose(f"services:\n  a:\n    command: {command}\n", "a", old, new)


WAYS = [in_script, in_unit, in_compose]


@pytest.mark.parametrize("edited", WAYS)
def test_a_word_that_may_belong_to_the_previous_variable_is_not_edited(edited):
    with pytest.raises(NotUnderstoodError, match="several words"):
        edited("llama-server -m x $T $MORE", OLD, [*OLD[:4], "2"])
    with pytest.raises(NotUnderstoodError, match="several words"):
        edited("llama-server -m x $T $MORE", OLD, [*OLD[:4], "--mlock", "4"])


@pytest.mark.parametrize("edited", WAYS)
def test_adjacent_variables_can_be_removed_together_and_their_neighbours_edited(edited):
    assert "$T" not in edited("llama-server -m x $T $MORE", OLD, OLD[:3])
    assert "$T $MORE -ub 64" in edited("llama-server -m x $T $MORE", OLD, [*OLD, "-ub", "64"])
    assert "y" in edited("llama-server -m x $T $MORE", OLD, ["llama-server", "-m", "y", "-t", "4"])


@pytest.mark.parametrize("edited", WAYS)
def test_variables_between_flags_are_one_word_each(edited):
    assert "-m $M -t 2" in edited("llama-server -m $M -t $T", OLD, [*OLD[:4], "2"])


def test_quoted_variables_are_one_word_each():
    after = edited_script('llama-server -m x "$T" "$MORE"\n', OLD, [*OLD[:4], "2"])
    assert after == 'llama-server -m x "$T" 2\n'
    listed = "services:\n  a:\n    command: [llama-server, -m, x, $T, $MORE]\n"
    assert '"2"]' in edited_compose(listed, "a", OLD, [*OLD[:4], "2"])
    assert "${T} 2" in in_unit("llama-server -m x ${T} ${MORE}", OLD, [*OLD[:4], "2"])


def test_one_shell_variable_can_expand_to_two_words():
    """Why the edit is refused: the words match one for one, but the second variable is empty."""
    script = TWO.format("$T", "$MORE").replace("llama-server", "echo llama-server")
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.split() == OLD


def test_only_adjacent_variables_are_ambiguous():
    words = simple_commands("run -a $A $B -c $C", 0)[0]
    assert unsure_words(words, ["run", "-a", "1", "2", "-c", "3"]) == {2, 3}


def test_a_leading_variable_of_a_compose_command_may_be_the_program(wording):
    with pytest.raises(NotUnderstoodError) as error:
        in_compose("$SERVER $T -c 1", ["llama-server", "-t", "4", "-c", "1"], ["llama-server", "-c", "1"])
    wording(str(error.value))
    assert "$SERVER -c 2" in in_compose("$SERVER -c 1", ["llama-server", "-c", "1"], ["llama-server", "-c", "2"])
