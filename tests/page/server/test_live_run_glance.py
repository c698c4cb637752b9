"""The first look identifies what runs without making it work."""

import pytest
from lab.replay import serve

from unslow.commands._formats import Looking
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.page.server.live_run import inspect_target


def test_first_look_identifies_the_server_without_measuring():
    with serve("vllm", tokens_per_s=100) as url:
        seen = inspect_target(Looking(target=url, goal=20))
    (subject,) = seen.subjects
    assert subject.runtime.name.value_or("") == "vLLM"
    assert isinstance(subject.run.decode_tokens_per_s, Unknown)
    assert seen.wish.tokens_per_s.value_or(0) == 20
    assert isinstance(seen.machine.memory.read_bytes_per_s, Unknown)  # reading it takes time and bandwidth


def test_first_look_keeps_no_api_key():
    with serve("vllm", tokens_per_s=100) as url:
        seen = inspect_target(Looking(target=url.replace("//", "//user:sesame-open@")))
    assert "sesame-open" not in repr(seen)


def test_first_look_at_a_closed_port_is_a_user_error():
    with pytest.raises(UserError):
        inspect_target(Looking(target="http://127.0.0.1:9"))
