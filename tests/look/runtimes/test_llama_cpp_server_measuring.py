import pytest
from doubles import FakeSystem

from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.runtimes.llama_cpp.bench import parse_free_slots, read_key_of
from unslow.look.system import LookError


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
def test_the_last_unused_slot_is_chosen(slots, chosen):
    assert next(reversed(parse_free_slots(slots).unused), None) == chosen


def key(command: str, environment: str = "", **secrets: str) -> str:
    process = {"/proc/7/cmdline": command.replace(" ", "\0"), "/proc/7/environ": environment}
    asks = {f"secret {path}": text for path, text in secrets.items()}
    system = FakeSystem(files=process, links={"/proc/7/cwd": "/srv"}, asks=asks)
    return read_key_of(system, Runtime().with_facts(pid=reported_fact(7, "x")))


@pytest.mark.parametrize("line", ["--api-key a,b", "--api-key=a", "--api-key , --api-key a"])
def test_the_first_key_of_the_command_line_is_used(line):
    assert key(f"llama-server {line}") == "a"


def test_a_key_from_the_environment_is_used_without_a_flag():
    assert key("llama-server", "HOME=/x\0LLAMA_API_KEY=c") == "c"
    assert key("llama-server --api-key a", "LLAMA_API_KEY=c") == "a"


@pytest.mark.parametrize("place", ["/proc/7/root/srv/keys", "/srv/keys"])
def test_the_first_key_of_a_key_file_is_used(place):
    assert key("llama-server --api-key-file keys", **{place: "# ours\n\nd\ne\n"}) == "d"


def test_without_a_readable_key_the_key_is_empty():
    assert key("llama-server") == ""
    assert key("llama-server --api-key-file keys") == ""
    assert (
        read_key_of(
            FakeSystem(files={"/proc/7/cmdline": LookError("denied")}), Runtime().with_facts(pid=reported_fact(7, "x"))
        )
        == ""
    )
    assert read_key_of(FakeSystem(), Runtime()) == ""


def test_slots_with_a_cached_conversation_are_counted():
    measured = {"id": 1, "id_task": 4, "params": {"ignore_eos": True}}
    talked = {"id": 2, "id_task": 7, "params": {"ignore_eos": False}}
    assert parse_free_slots([{"id": 0}, measured, talked, talked, "rubbish"]).talking == 2
    assert parse_free_slots(None).talking == 0
