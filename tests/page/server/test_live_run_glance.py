"""A first look: what runs is seen, and nothing is sent to it that would make it work."""

import pytest
from lab.replay import serve

from unslow.commands._diagnosis_options import Looking
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.page.server.live_run import glance


def test_a_server_is_seen_and_not_measured():
    with serve("vllm", tokens_per_s=100) as url:
        seen = glance(Looking(target=url, goal=20))
    (subject,) = seen.subjects
    assert subject.runtime.name.value_or("") == "vLLM"
    assert isinstance(subject.run.decode_tokens_per_s, Unknown)
    assert seen.wish.tokens_per_s.value_or(0) == 20
    assert isinstance(seen.machine.memory.read_bytes_per_s, Unknown)  # reading it takes time and bandwidth


def test_a_key_is_not_kept():
    with serve("vllm", tokens_per_s=100) as url:
        seen = glance(Looking(target=url.replace("//", "//user:sesame-open@")))
    assert "sesame-open" not in repr(seen)


def test_nobody_there_is_a_mistake_of_the_user():
    with pytest.raises(UserError):
        glance(Looking(target="http://127.0.0.1:9"))
