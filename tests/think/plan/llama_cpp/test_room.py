"""Whether what runs has room for what is asked."""

import msgspec
from tests.think.plan.llama_cpp import planning

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.running import room_lacking

SMALL = planning.blueprint()  # trained for 8,192 tokens


def server(context: int, slots: int = 1, *, unified: bool = False) -> Case:
    runtime = Runtime(
        name=reported("llama.cpp", "x"), context_length=reported(context, "x"), slots=reported(slots, "x"),
        kv_unified=reported(unified, "x"), context_per_slot=reported(context if unified else context // slots, "x"),
    )  # fmt: skip
    return Case(runtime=runtime)


def lacking(case: Case, context: int, users: int = 1) -> str:
    return room_lacking(case, Goal(context, Work(users=users)), SMALL)


def test_a_longer_context_or_more_conversations_than_there_is_room_for(wording) -> None:
    wording(lacking(server(2048), 4096), tells=("4,096", "2,048"))
    wording(lacking(server(4096, 2), 2048, users=8), tells="8 of 2,048")
    assert lacking(server(4096, 2), 2048, users=2) == ""
    assert lacking(server(4096), 4096) == ""


def test_what_is_shared_is_enough_for_one_and_not_for_all() -> None:
    shared = server(4096, 4, unified=True)
    assert lacking(shared, 4096) == ""
    assert lacking(shared, 4096, users=4)
    assert lacking(shared, 1024, users=4) == ""


def test_no_conversation_gets_longer_than_the_model_was_trained_for() -> None:
    assert lacking(server(8192), 16384) == ""


def test_a_server_that_tells_nothing_lacks_nothing() -> None:
    assert lacking(msgspec.structs.replace(server(1), runtime=Runtime()), 4096) == ""
