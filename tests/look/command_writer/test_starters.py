import pytest
from doubles import FakeSystem

from unslow.look.command_writer.starters import ComposeService, Unit, read_composed, read_script, read_unit_files
from unslow.look.system import FinishedCommand, LookError

SHOW = "--property=FragmentPath --property=DropInPaths"
CONTAINER = "ab" * 32
INSPECT = f"docker inspect --format {{{{json .Config.Labels}}}} {CONTAINER}"
LABELS = (
    '{"com.docker.compose.project.config_files": "/srv/compose.yml", "com.docker.compose.service": "llama", "a": "b"}'
)


def process(pid: int, parent: int, words: str, cgroup: str = "0::/x.scope") -> dict[str, str | bytes | LookError]:
    return {
        f"/proc/{pid}/comm": words.split(maxsplit=1)[0].rpartition("/")[2],
        f"/proc/{pid}/cmdline": words.replace(" ", "\0") + "\0",
        f"/proc/{pid}/status": f"PPid:\t{parent}\nUid:\t0\t0\n",
        f"/proc/{pid}/cgroup": cgroup,
    }


def test_unit_files_are_read_in_order_of_precedence():
    said = "FragmentPath=/usr/lib/systemd/system/a.service\nDropInPaths=/etc/a.d/1.conf /etc/a.d/2.conf\n"
    files = {"/usr/lib/systemd/system/a.service": "unit", "/etc/a.d/1.conf": "one", "/etc/a.d/2.conf": "two"}
    system = FakeSystem(files=files, commands={f"systemctl show a.service {SHOW}": FinishedCommand(0, said, "")})
    assert read_unit_files(system, Unit("a.service")) == list(files.items())
    with pytest.raises(LookError):
        read_unit_files(system, Unit("a.service", of_user=True))


def test_an_unknown_systemd_unit_is_a_look_error():
    none = FinishedCommand(0, "FragmentPath=\nDropInPaths=\n", "")
    gone = FinishedCommand(1, "", "System has not been booted with systemd as init system\n")
    for answer, why in ((none, "no file"), (gone, "not been booted")):
        with pytest.raises(LookError, match=why):
            read_unit_files(FakeSystem(commands={f"systemctl show a.service {SHOW}": answer}), Unit("a.service"))


@pytest.mark.parametrize("cgroup", [f"0::/system.slice/docker-{CONTAINER}.scope", f"12:cpu:/docker/{CONTAINER}"])
def test_the_compose_file_of_a_container_comes_from_its_labels(cgroup):
    system = FakeSystem(files=process(7, 1, "llama-server", cgroup), commands={INSPECT: FinishedCommand(0, LABELS, "")})
    assert read_composed(system, 7) == ComposeService("/srv/compose.yml", "llama")


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ("{}", "one compose file"),
        ("null", "one compose file"),
        ("no json", "labels"),
        (LABELS.replace("/srv/compose.yml", "/a.yml,/b.yml"), "one compose file"),
    ],
)
def test_unusable_docker_labels_are_a_look_error(labels, why):
    cgroup = f"0::/docker/{CONTAINER}"
    system = FakeSystem(files=process(7, 1, "llama-server", cgroup), commands={INSPECT: FinishedCommand(0, labels, "")})
    with pytest.raises(LookError, match=why):
        read_composed(system, 7)


def test_a_process_outside_containers_has_no_compose_file():
    with pytest.raises(LookError, match="no docker container"):
        read_composed(FakeSystem(files=process(7, 1, "llama-server")), 7)


@pytest.mark.parametrize(
    ("parent", "script"),
    [
        ("/bin/bash start.sh", "/home/a/start.sh"),
        ("sh /opt/start.sh", "/opt/start.sh"),
        ("bash -c llama-server", ""),
        ("bash", ""),
        ("python3 start.py", ""),
    ],
)
def test_the_parent_shell_script_of_a_server_is_found(parent, script):
    files = {**process(7, 6, "llama-server"), **process(6, 1, parent)}
    system = FakeSystem(files=files, links={"/proc/6/cwd": "/home/a"})
    assert read_script(system, 7) == script
