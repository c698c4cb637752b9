"""Fixes in the words of the runtime that they are for."""

from pathlib import Path

import pytest

from unslow.app.read_target import read_stored
from unslow.app.spell import spell, spelled
from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported
from unslow.look.runtimes import lookers
from unslow.think.judge import diagnose

FOLDER = Path(__file__).parents[1] / "machines" / "h200_llama_server_gpu_layers_set_too_low"


def test_a_recorded_llama_server():
    snapshot = read_stored(str(FOLDER))
    [subject] = spelled(diagnose(snapshot), snapshot).subjects
    assert subject.findings[0].fixes[0].commands[0] == "remove -ngl 20"


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_each_runtime_is_asked_for_its_own_words(looker):
    runtime = Runtime(name=reported(looker.NAME, "x"))
    change = Knob.CONTEXT_LENGTH.to(8192)
    assert spell(change, runtime) == looker.spell(change, runtime)


def test_a_runtime_that_is_not_known_has_no_words():
    assert spell(Knob.THREADS.to(4), Runtime()) == []
    assert spell(Knob.THREADS.to(4), Runtime(name=reported("something else", "x"))) == []
