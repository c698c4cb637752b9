import json

import pytest
from doubles import FakeSystem

from unslow.look.requests import Target
from unslow.look.runtimes.llama_cpp.bench import read_written_turns
from unslow.look.system import Answer, LookError
from unslow.look.system.live import LiveSystem

URL = "http://127.0.0.1:8080"


def sign_of(answer) -> str:
    system = FakeSystem(http={f"POST {URL}/apply-template": Answer(200, json.dumps(answer).encode())})
    return read_written_turns(system, Target(URL))


def test_the_chat_template_signature_ignores_the_date():
    one, other = ({"prompt": f"<|user|>{day} hi<|end|>"} for day in ("26 Jul 2024", "1 September 2026"))
    assert sign_of(one) == sign_of(other) != sign_of({"prompt": "[INST] hi"})


@pytest.mark.parametrize("answer", [None, [], {}, {"prompt": ""}, {"prompt": 3}])
def test_an_apply_template_answer_without_a_prompt_is_a_look_error(answer):
    with pytest.raises(LookError):
        sign_of(answer)


def test_the_chat_template_is_not_requested_from_other_runtimes(wording):
    with pytest.raises(LookError) as error:
        read_written_turns(LiveSystem(), Target("http://127.0.0.1:1", runtime="Ollama"))
    wording(error.value.why, tells="Ollama")
