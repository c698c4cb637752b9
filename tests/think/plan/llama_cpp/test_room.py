"""Whether a running server has room for the requested context and users."""

import msgspec
from tests.think.plan.llama_cpp import planning

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.think.case.view import CaseView
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.running import room_lacking

SMALL = planning.blueprint()  # trained for 8,192 tokens


def server(context: int, slots: int = 1, *, unified: bool = False) -> Case:
    runtime = Runtime().with_facts(
        name=reported_fact("llama.cpp", "x"),
        context_length=reported_fact(context, "x"),
        slots=reported_fact(slots, "x"),
        kv_unified=reported_fact(unified, "x"),
        context_per_slot=reported_fact(context if unified else context // slots, "x"),
    )
    return Case(runtime=runtime)


def lacking(case: Case, context: int, users: int = 1) -> str:
    return room_lacking(CaseView(case), Goal(context, Work(users=users)), SMALL)


def test_context_or_users_beyond_the_server_are_reported(wording) -> None:
    wording(lacking(server(2048), 4096), tells=("4,096", "2,048"))
    wording(lacking(server(4096, 2), 2048, users=8), tells="8 of 2,048")
    assert lacking(server(4096, 2), 2048, users=2) == ""
    assert lacking(server(4096), 4096) == ""


def test_unified_cache_fits_one_long_or_several_short_sequences() -> None:
    shared = server(4096, 4, unified=True)
    assert lacking(shared, 4096) == ""
    assert lacking(shared, 4096, users=4)
    assert lacking(shared, 1024, users=4) == ""


def test_context_is_limited_by_the_trained_context() -> None:
    assert lacking(server(8192), 16384) == ""


def test_server_without_facts_lacks_nothing() -> None:
    assert lacking(msgspec.structs.replace(server(1), runtime=Runtime()), 4096) == ""
