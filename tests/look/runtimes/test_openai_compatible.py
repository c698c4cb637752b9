import json

import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Origin, Unknown
from unslow.look.runtimes.openai_compatible import read_url
from unslow.look.system import Answer, LookError

URL = "http://127.0.0.1:5000"


def at(answer: Answer | LookError):
    return read_url(FakeSystem(http={f"GET {URL}/v1/models": answer}), f"{URL}/v1/", "")


def listing(*names: str) -> Answer:
    return Answer(200, json.dumps({"data": [{"id": name} for name in names]}).encode())


def test_one_model_is_taken_for_the_loaded_one():
    [subject] = at(listing("m"))
    assert (subject.model.name.need(), subject.runtime.url.need()) == ("m", URL)
    assert (subject.runtime.state.need(), subject.runtime.state.origin) == ("loaded", Origin.ESTIMATED)


def test_it_says_what_it_can_not_tell_and_how_to_learn_it():
    runtime = at(listing("m"))[0].runtime
    for fact in (runtime.gpu_layers, runtime.version, runtime.threads, runtime.running_requests):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_SUPPORTED
        assert "unslow" in fact.how_to_get


def test_of_several_models_none_is_taken_for_loaded(wording):
    [subject] = at(listing(*"abcdefg"))
    wording(subject.runtime.state.why, tells="a, b, c, d, e")
    assert isinstance(subject.model.name, Unknown)
    wording(at(listing())[0].runtime.state.why)


@pytest.mark.parametrize("answer", [Answer(404, b""), Answer(200, b"x"), Answer(200, b"{}"), Answer(500, b"")])
def test_no_list_of_models_is_no_such_server(answer):
    assert at(answer) is None


def test_a_locked_server_says_so():
    with pytest.raises(LookError, match="API key"):
        at(Answer(401, b"{}"))


def test_a_server_that_says_who_it_is():
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "tabbyAPI"}]}
    (subject,) = at(Answer(200, json.dumps(listed).encode()))
    assert subject.runtime.name.value == "TabbyAPI (exllama)"
