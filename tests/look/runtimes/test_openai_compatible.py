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


def test_a_single_listed_model_is_assumed_to_be_loaded():
    [subject] = at(listing("m"))
    assert (subject.model.name.need(), subject.runtime.process.url.need()) == ("m", URL)
    assert (subject.runtime.state.need(), subject.runtime.state.origin) == ("loaded", Origin.ESTIMATED)


def test_facts_the_openai_api_lacks_say_how_to_get_them():
    runtime = at(listing("m"))[0].runtime
    for fact in (
        runtime.placement.gpu_layers,
        runtime.version,
        runtime.compute.threads,
        runtime.scheduling.running_requests,
    ):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_SUPPORTED
        assert "unslow" in fact.how_to_get


def test_of_several_listed_models_none_is_assumed_loaded(wording):
    [subject] = at(listing(*"abcdefg"))
    wording(subject.runtime.state.why, tells="a, b, c, d, e")
    assert isinstance(subject.model.name, Unknown)
    wording(at(listing())[0].runtime.state.why)


@pytest.mark.parametrize("answer", [Answer(404, b""), Answer(200, b"x"), Answer(200, b"{}"), Answer(500, b"")])
def test_without_a_model_list_the_server_is_not_claimed(answer):
    assert at(answer) is None


def test_a_locked_openai_server_asks_for_the_api_key():
    with pytest.raises(LookError, match="API key"):
        at(Answer(401, b"{}"))


def test_an_openai_server_is_named_by_owned_by():
    listed = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "tabbyAPI"}]}
    (subject,) = at(Answer(200, json.dumps(listed).encode()))
    assert subject.runtime.name.value == "TabbyAPI (exllama)"
