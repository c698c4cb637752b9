import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence
from unslow.look.openai_api import Server
from unslow.look.system import Answer, Line, LookError

URL, KEY = "http://127.0.0.1:1", "sk-canary-0123456789"


def server(answer: Answer | LookError, **more) -> Server:
    return Server(FakeSystem(http={f"GET {URL}/x": answer}, **more), URL, KEY)


def test_an_echoed_key_is_masked_in_an_answer():
    echo = server(Answer(200, f'{{"you sent": "{KEY}"}}'.encode()))
    assert echo.json("/x") == {"you sent": "KEY"}
    assert echo.text("/x") == '{"you sent": "KEY"}'


def test_an_echoed_key_is_masked_in_an_error():
    with pytest.raises(LookError) as caught:
        server(LookError(f"bad header Bearer {KEY}", how_to_get=f"not {KEY}")).json("/x")
    assert KEY not in caught.value.why + caught.value.how_to_get
    assert KEY not in repr(caught.value.__cause__)


def test_an_echoed_key_is_masked_in_a_stream():
    lines = list(server(Answer(200, b""), streams={f"{URL}/s": [Line(0.1, f"data: {KEY}")]}).stream("/s", {}))
    assert lines == [Line(0.1, "data: KEY")]
    with pytest.raises(LookError) as caught:
        list(server(Answer(200, b""), streams={f"{URL}/s": LookError(f"answered 401: {KEY}")}).stream("/s", {}))
    assert KEY not in caught.value.why


@pytest.mark.parametrize(
    ("status", "absence"),
    [
        (401, Absence.FAILED),
        (403, Absence.FAILED),
        (404, Absence.NOT_FOUND),
        (501, Absence.NOT_FOUND),
        (500, Absence.FAILED),
    ],
)
def test_each_status_has_its_reason_and_absence(status, absence, wording):
    with pytest.raises(LookError) as caught:
        server(Answer(status, KEY.encode())).json("/x")
    wording(caught.value.why)
    assert caught.value.absence is absence
    assert KEY not in caught.value.why


@pytest.mark.parametrize(("status", "word"), [(401, "requires an API key"), (403, "refuses this key")])
def test_a_locked_server_asks_for_or_refuses_the_key(status, word):
    with pytest.raises(LookError, match=word):
        Server(FakeSystem(http={f"GET {URL}/x": Answer(status, b"")}), URL).json("/x")
