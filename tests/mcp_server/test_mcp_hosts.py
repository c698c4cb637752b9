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
def test_targets_on_other_hosts_are_refused(given):
    with pytest.raises(UserError):
        check_hosts(SimpleNamespace(**given), ())


@pytest.mark.parametrize("given", HERE, ids=str)
def test_targets_on_this_host_and_plain_names_are_accepted(given):
    check_hosts(SimpleNamespace(**given), ())


def test_allowed_hosts_are_accepted():
    check_hosts(SimpleNamespace(target="gpu-box:11434"), {"gpu-box"})
    with pytest.raises(UserError, match="other-box"):
        check_hosts(SimpleNamespace(target="other-box:11434"), {"gpu-box"})
