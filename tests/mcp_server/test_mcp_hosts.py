from types import SimpleNamespace

import pytest

from unslow.facts.errors import UserError
from unslow.mcp.tools import check_hosts

AWAY = [
    {"target": "http://192.0.2.1:8080"},
    {"target": "gpu-box:11434"},
    {"model": "https://models.example/a.gguf"},
    {"model": "http://192.0.2.1:8080"},
    {"model": "qwen3-8b", "draft": "https://models.example/a.gguf"},
    {"target": "http://user:secret@192.0.2.1"},
    {"target": "http://127.0.0.1.example"},
    {"target": "http://[1"},
]
HERE = [
    {"target": "http://127.0.0.1:8080"},
    {"target": "localhost:11434"},
    {"target": "4242"},
    {"target": 4242},
    {"target": None},
    {"model": "qwen3:8b"},
    {"model": "https://huggingface.co/Qwen/Qwen3-8B"},
    {"model": "models/a.gguf"},
]


@pytest.mark.parametrize("given", AWAY, ids=str)
def test_other_machines_are_refused(given):
    with pytest.raises(UserError):
        check_hosts(SimpleNamespace(**given), ())


@pytest.mark.parametrize("given", HERE, ids=str)
def test_this_machine_and_mere_names_are_not(given):
    check_hosts(SimpleNamespace(**given), ())


def test_the_user_can_name_a_machine():
    check_hosts(SimpleNamespace(target="gpu-box:11434"), {"gpu-box"})
    with pytest.raises(UserError, match="other-box"):
        check_hosts(SimpleNamespace(target="other-box:11434"), {"gpu-box"})
