import pytest
from doubles import FakeSystem

from unslow.look.command_writer.starters import NO_UNIT, Unit, parse_unit, read_unit


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/llama.service\n", Unit("llama.service")),
        ("12:cpu:/x\n0::/system.slice/llama@7b.service", Unit("llama@7b.service")),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/llama.service",
            Unit("llama.service", of_user=True),
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service", NO_UNIT),
        ("0::/user.slice/user-1000.slice/session-3.scope", NO_UNIT),
        ("0::/system.slice/docker.service/docker-abc.scope", NO_UNIT),
        ("0::/", NO_UNIT),
        ("", NO_UNIT),
    ],
)
def test_the_systemd_unit_is_parsed_from_a_cgroup(cgroup, unit):
    assert parse_unit(cgroup) == unit


@pytest.mark.parametrize(("parent", "found"), [("systemd", Unit("llama.service")), ("bash", NO_UNIT)])
def test_only_a_direct_child_of_systemd_is_the_service(parent, found):
    files = {
        "/proc/7/comm": "llama-server", "/proc/7/status": "PPid:\t1\n", "/proc/1/comm": f"{parent}\n",
        "/proc/7/cgroup": "0::/system.slice/llama.service\n",
    }  # fmt: skip
    assert read_unit(FakeSystem(files=files), 7) == found


def test_a_gone_process_has_no_unit():
    assert read_unit(FakeSystem(), 7) == NO_UNIT
