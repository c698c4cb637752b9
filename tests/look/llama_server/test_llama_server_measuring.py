import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import reported
from unslow.look.llama_server.measuring import key_of, parse_unused_slot


@pytest.mark.parametrize(
    ("slots", "chosen"),
    [
        ([{"id": 0}, {"id": 1}], 1),
        ([{"id": 0}, {"id": 1, "id_task": 4}], 0),
        ([{"id": 0, "id_task": 3}], None),
        ([{"id": 0, "id_task": 3, "params": {"ignore_eos": True}}], 0),
        ([{"id": 0, "is_processing": True}], None),
        ([{"id": "a"}, 3], None),
        ({}, None),
    ],
    ids=["unused", "one used", "all used", "used by a benchmark", "busy", "garbage", "no list"],
)
def test_which_slot_may_be_used(slots, chosen):
    assert parse_unused_slot(slots) == chosen


def test_the_key_that_the_server_was_started_with():
    assert key_of(Runtime(command=reported(["llama-server", "--api-key", "a,b"], "x"))) == "a"
    assert key_of(Runtime(environment=reported({"LLAMA_API_KEY": "c"}, "x"))) == "c"
    assert key_of(Runtime()) is None
