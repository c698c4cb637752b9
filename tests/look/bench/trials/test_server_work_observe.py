import pytest

from unslow.facts.values import Known, Unknown
from unslow.look.bench.trials.server_work import Decoding, Work, parse_slots, parse_speed, speed_of_one

URL = "http://127.0.0.1:8080"


def slot(number, decoded, task=7, busy=True, shape=list):
    token = {"n_decoded": decoded}
    return {"id": number, "id_task": task, "is_processing": busy, "next_token": [token] if shape is list else token}


def test_slots_are_parsed_with_next_token_as_list_or_object():
    assert parse_slots([slot(0, 5), slot(1, 9, busy=False)]) == {0: Decoding(7, 5)}
    assert parse_slots([slot(0, 5, shape=dict)]) == {0: Decoding(7, 5)}


@pytest.mark.parametrize(
    "slots", [None, {}, [3], [{}], [{"is_processing": True}], [{"id": "a", "is_processing": True}]]
)
def test_garbage_is_not_parsed_as_slots(slots):
    assert parse_slots(slots) == {}


def test_speed_comes_from_one_slot_decoding_the_same_task():
    speed = parse_speed({0: Decoding(7, 10)}, {0: Decoding(7, 60)}, 2.0, URL)
    assert isinstance(speed, Known)
    assert speed.value == 25


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({0: Decoding(7, 10)}, {0: Decoding(8, 60)}),
        ({0: Decoding(7, 10)}, {0: Decoding(7, 10)}),
        ({0: Decoding(7, 10), 1: Decoding(8, 1)}, {0: Decoding(7, 20), 1: Decoding(8, 9)}),
    ],
    ids=["idle", "another task", "still prefilling", "two at once"],
)
def test_speed_is_unknown_unless_exactly_one_task_decodes_throughout(before, after):
    assert isinstance(parse_speed(before, after, 2.0, URL), Unknown)


def test_counter_speed_is_known_for_exactly_one_running_request():
    one = Work(URL, 1, tokens=100)
    assert speed_of_one(one, Work(URL, 1, tokens=160), 2.0).value_or(None) == 30
    assert "several" in speed_of_one(one, Work(URL, 2, tokens=160), 2.0).why
    assert "no request" in speed_of_one(one, one, 2.0).why
