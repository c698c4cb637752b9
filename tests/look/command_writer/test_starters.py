import pytest
from doubles import FakeSystem

from unslow.look.command_writer.starters import Composed, Unit, read_composed, read_script, read_unit_files
from unslow.look.system import Finished, LookError

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


def test_the_files_of_a_unit_in_the_order_in_which_they_hold():
    said = "FragmentPath=/usr/lib/systemd/system/a.service\nDropInPaths=/etc/a.d/1.conf /etc/a.d/2.conf\n"
    files = {"/usr/lib/systemd/system/a.service": "unit", "/etc/a.d/1.conf": "one", "/etc/a.d/2.conf": "two"}
    system = FakeSystem(files=files, commands={f"systemctl show a.service {SHOW}": Finished(0, said, "")})
    assert read_unit_files(system, Unit("a.service")) == list(files.items())
    with pytest.raises(LookError):
        read_unit_files(system, Unit("a.service", of_user=True))


def test_a_unit_that_systemd_does_not_know_is_said():
    none = Finished(0, "FragmentPath=\nDropInPaths=\n", "")
    gone = Finished(1, "", "System has not been booted with systemd as init system\n")
    for answer, why in ((none, "no file"), (gone, "not been booted")):
        with pytest.raises(LookError, match=why):
            read_unit_files(FakeSystem(commands={f"systemctl show a.service {SHOW}": answer}), Unit("a.service"))


@pytest.mark.parametrize("cgroup", [f"0::/system.slice/docker-{CONTAINER}.scope", f"12:cpu:/docker/{CONTAINER}"])
def test_the_compose_file_of_a_container(cgroup):
    system = FakeSystem(files=process(7, 1, "llama-server", cgroup), commands={INSPECT: Finished(0, LABELS, "")})
    assert read_composed(system, 7) == Composed("/srv/compose.yml", "llama")


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ("{}", "no single"),
        ("null", "no single"),
        ("no json", "labels"),
        (LABELS.replace("/srv/compose.yml", "/a.yml,/b.yml"), "no single"),
    ],
)
def test_what_docker_does_not_tell(labels, why):
    cgroup = f"0::/docker/{CONTAINER}"
    system = FakeSystem(files=process(7, 1, "llama-server", cgroup), commands={INSPECT: Finished(0, labels, "")})
    with pytest.raises(LookError, match=why):
        read_composed(system, 7)


def test_no_container_has_no_compose_file():
    with pytest.raises(LookError, match="no container"):
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
def test_the_script_that_started_it(parent, script):
    files = {**process(7, 6, "llama-server"), **process(6, 1, parent)}
    system = FakeSystem(files=files, links={"/proc/6/cwd": "/home/a"})
    assert read_script(system, 7) == script
