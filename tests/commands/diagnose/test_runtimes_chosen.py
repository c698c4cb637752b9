import msgspec
import pytest
from doubles import FakeSystem

from unslow.commands.diagnose.runtimes import chosen_subjects, is_at, subjects_at_url
from unslow.facts.errors import UserError
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import ProbeOutcome, Snapshot, Subject
from unslow.facts.values import reported_fact


def subject(**facts) -> Subject:
    return Subject(runtime=Runtime().with_facts(**{name: reported_fact(value, "x") for name, value in facts.items()}))


CHILD = subject(url="http://127.0.0.1:5800", front="router at http://127.0.0.1:8080", pid=42)
ALONE = subject(url="http://127.0.0.1:9000/llm", pid=7)
SEEN = Snapshot(unslow_version="0", subjects=(CHILD, ALONE))
STATUS = {"/proc/42/status": "PPid:\t40\n", "/proc/40/status": "PPid:\t1\n", "/proc/7/status": "PPid:\t1\n"}
PROCESSES = FakeSystem(files=dict(STATUS), folders={"/proc": ["1", "7", "40", "42"]})


@pytest.mark.parametrize(
    ("url", "mine"),
    [
        ("http://127.0.0.1:5800", CHILD),
        ("http://localhost:8080/", CHILD),
        ("http://[::1]:8080", CHILD),
        ("http://127.0.0.1:9000/llm", ALONE),
    ],
)
def test_process_that_answers_at_the_url_is_chosen(url, mine):
    assert chosen_subjects(FakeSystem(), SEEN, url, url, "") == (mine,)


def test_other_path_scheme_or_host_is_another_server():
    assert not is_at(ALONE, "http://127.0.0.1:9000")
    assert not is_at(ALONE, "https://127.0.0.1:9000/llm")
    assert not is_at(CHILD, "http://10.0.0.1:5800")


def test_target_pid_matches_a_process_or_its_parent(wording):
    assert chosen_subjects(PROCESSES, SEEN, None, "7", "") == (ALONE,)
    assert chosen_subjects(PROCESSES, SEEN, None, "40", "") == (CHILD,)
    assert chosen_subjects(PROCESSES, SEEN, None, None, "") == (CHILD, ALONE)
    with pytest.raises(UserError) as caught:
        chosen_subjects(PROCESSES, SEEN, None, "99", "")
    wording(str(caught.value), tells="99")


def test_error_says_why_a_process_is_not_a_runtime(wording):
    files = {**STATUS, "/proc/60/comm": "bash\n", "/proc/50/comm": "vllm\n"}
    system = FakeSystem(files=files, folders={"/proc": ["1", "7", "40", "42", "50", "60"]})
    late = ProbeOutcome(name="vLLM", seconds=0.1, error="process 9: x; process 50: did not answer in time")
    seen = msgspec.structs.replace(SEEN, probes=(late,))
    with pytest.raises(UserError) as caught:
        chosen_subjects(system, seen, None, "60", "")
    wording(str(caught.value), tells="60")
    with pytest.raises(UserError) as caught:
        chosen_subjects(system, seen, None, "50", "")
    wording(str(caught.value), tells="50")
    first = FakeSystem(files={**files, "/proc/1/comm": "init\n"}, folders={"/proc": ["1", "7"]})
    with pytest.raises(UserError, match="process 1"):  # which started all of them
        chosen_subjects(first, SEEN, None, "1", "")


def test_closed_port_is_an_error_with_a_hint():
    with pytest.raises(UserError) as caught:
        subjects_at_url(FakeSystem(), "http://127.0.0.1:1", "")
    assert caught.value.hint
