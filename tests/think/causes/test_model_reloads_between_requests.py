import msgspec
import pytest
from answers import ask
from cases import r, with_facts
from made_up_telemetry import traffic
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import PastLoad
from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "model_reloads_between_requests"


def loaded(*contexts: int, models: str = ""):
    loads = [
        PastLoad(model=r(models[i] if models else "a"), context_length=r(c), source=f"log:{i}")
        for i, c in enumerate(contexts)
    ]
    return with_facts(Case(), {"runtime.history.loads": loads})


def fires():
    return loaded(8192, 2048, 8192, 2048)


def test_loads_with_alternating_context_lengths_are_found(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("2048", "8192"))
    assert report.findings[0].evidence[0].source == "log:0"


def test_single_load_and_one_repeat_are_ruled_out():
    assert isinstance(ask(NAME, loaded(8192)), Absent)
    assert isinstance(ask(NAME, loaded(8192, 8192)), Absent)


def test_reloads_without_a_known_reason_are_suspected():
    answer = ask(NAME, loaded(8192, 8192, 8192, 4096))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_two_models_that_take_turns_are_found():
    assert isinstance(ask(NAME, loaded(8192, 8192, 8192, models="aba")), Found)


def test_keep_alive_0_needs_a_complaint_about_the_first_token():
    unkept = with_facts(Case(), {"runtime.scheduling.keep_alive_s": 0.0})
    assert isinstance(ask(NAME, saying(slow="first_token", case=unkept)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=unkept)), CannotTell)


def test_remark_about_repeated_loads_is_found_and_one_restart_suspected():
    assert isinstance(ask(NAME, saying(Topic.RELOADS, "the runner restarts for every title")), Found)
    assert isinstance(ask(NAME, saying()), CannotTell)
    helped = ask(NAME, saying(Topic.RELOADS, "after the server is restarted it is fast", slow="decode"))
    assert isinstance(helped, CannotTell)
    assert helped.suspected


def watched(loads: int, **facts):
    return with_facts(Case(), {"run.traffic": traffic(1.0, 0.0, loads=r(loads)), **facts})


def test_watched_loads_are_found_from_two_on_or_with_keep_alive_0():
    answer = ask(NAME, watched(3, **{"run.load_s": 12.0}))
    assert isinstance(answer, Found)
    assert answer.lost.seconds == 12.0
    once = ask(NAME, watched(1))
    assert isinstance(once, CannotTell)
    assert once.suspected
    assert isinstance(ask(NAME, watched(1, **{"runtime.scheduling.keep_alive_s": 0.0})), Found)


def test_no_watched_load_is_not_found():
    assert not isinstance(ask(NAME, watched(0)), Found)


def test_keep_alive_0_with_a_long_measured_load_is_found():
    unkept = {
        "runtime.scheduling.keep_alive_s": 0.0,
        "runtime.process.url": "http://127.0.0.1:11434",
        "run.load_s": 9.0,
    }
    assert isinstance(ask(NAME, with_facts(Case(), unkept)), Found)


def started(*words: str, **facts):
    own = {
        "runtime.name": "llama.cpp",
        "runtime.process.command": ["llama-server", *words],
        "runtime.process.environment": {},
    }
    return with_facts(Case(), own | facts)


def test_llama_server_with_one_model_is_ruled_out_unless_it_sleeps_or_is_routed():
    assert isinstance(ask(NAME, started("-m", "m.gguf")), Absent)
    assert isinstance(ask(NAME, started("-m", "m.gguf", "--sleep-idle-seconds", "5")), CannotTell)
    assert isinstance(ask(NAME, started("--models-dir", "models")), CannotTell)
    assert isinstance(
        ask(NAME, started("-m", "m.gguf", **{"runtime.process.front": "llama-swap http://x:1"})), CannotTell
    )


def spread(*moments: str):
    loads = [PastLoad(at=at, model=r("ab"[n % 2]), source=f"log:{n}") for n, at in enumerate(moments)]
    return with_facts(Case(), {"runtime.history.loads": loads})


def test_loads_hours_apart_are_ruled_out():
    day = "2026-01-01T"
    assert isinstance(ask(NAME, spread(*(f"{day}{hour}:01:00.000+01:00" for hour in ("07", "09", "15", "20")))), Absent)
    assert isinstance(ask(NAME, spread(*(f"{day}10:0{n}:00.000+01:00" for n in range(4)))), Found)
    assert isinstance(ask(NAME, spread("2026/01/01 07:01:00", "2026/01/02 07:01:00", "2026/01/03 07:01:00")), Absent)
    assert isinstance(ask(NAME, spread("10:01", "18:30", "19:00")), Found), "without a date no pause is known"


def test_loads_hours_apart_have_no_reload_time():
    hours = spread(*(f"2026-01-01T{hour}:01:00" for hour in ("07", "09", "15", "20")))
    assert CaseView(with_facts(hours, {"run.load_s": 2.4})).waits.reload_s is None


def of_ollama(*loads: tuple[str, str], **facts):
    """Loads of files at times of one day, each for one request answered two seconds later."""
    past = [
        PastLoad(
            at=f"2026-01-01T{at}Z", model=r(file), context_length=r(4096), seconds=r(2.0), requests=r(1),
            used_until=f"2026/01/01 {at[:-2]}{int(at[-2:]) + 2:02}", source=f"log:{n}",
        )
        for n, (file, at) in enumerate(loads)
    ]  # fmt: skip
    known = {"runtime.name": "Ollama", "runtime.scheduling.keep_alive_s": 300.0, "runtime.history.loads": past}
    return with_facts(Case(), known | facts)


def changed(case: Case, **facts) -> Case:
    """All loads with other facts."""
    loads = [msgspec.structs.replace(load, **facts) for load in case.runtime.history.loads.need()]
    return with_facts(case, {"runtime.history.loads": loads})


AGAIN = (("a", "10:00:00"), ("a", "10:00:10"), ("a", "10:00:20"))


def test_three_models_loaded_once_each_are_ruled_out(wording):
    answer = ask(NAME, of_ollama(("a", "10:00:00"), ("b", "10:00:10"), ("c", "10:00:20")))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_slow_first_load_is_ruled_out():
    slow = changed(of_ollama(AGAIN[0]), seconds=r(40.0))
    assert isinstance(ask(NAME, with_facts(slow, {"run.load_s": 40.0})), Absent)
    assert CaseView(slow).waits.reload_s is None


def test_reloads_before_keep_alive_expires_blame_the_client(wording):
    case = of_ollama(*AGAIN)
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    wording(answer.because)
    assert [remedy.change for remedy in answer.remedies] == [
        Change(Knob.KEEP_ALIVE, None, answer.remedies[0].change.why)
    ]
    assert answer.lost.seconds == CaseView(case).waits.reload_s == 2.0


def test_reload_time_ignores_loads_of_other_models():
    case = with_facts(of_ollama(("b", "09:59:00"), *AGAIN), {"model.path": "a"})
    slow = [
        msgspec.structs.replace(case.runtime.history.loads.need()[0], seconds=r(90.0)),
        *case.runtime.history.loads.need()[1:],
    ]
    assert CaseView(with_facts(case, {"runtime.history.loads": slow})).waits.reload_s == 2.0


def test_loads_after_ollama_stop_are_ruled_out():
    assert isinstance(ask(NAME, changed(of_ollama(*AGAIN), stopped=True)), Absent)


def test_failed_loads_and_server_restarts_are_ruled_out():
    assert isinstance(ask(NAME, changed(of_ollama(*AGAIN), failed=True)), Absent)
    assert isinstance(ask(NAME, changed(of_ollama(*AGAIN), after_start=True)), Absent)


def test_twenty_requests_per_load_are_ruled_out():
    case = changed(of_ollama(*AGAIN), requests=r(20))
    assert isinstance(ask(NAME, case), Absent)
    assert CaseView(case).waits.reload_s is None


def test_reloads_that_have_ceased_are_ruled_out():
    once, case = [], of_ollama(*AGAIN)
    for requests in (4, 8):  # of the last load; the two before it answered one each
        *earlier, last = case.runtime.history.loads.need()
        loads = [*earlier, msgspec.structs.replace(last, requests=r(requests))]
        once.append(ask(NAME, with_facts(case, {"runtime.history.loads": loads})))
    assert [type(answer) for answer in once] == [Found, Absent]


def test_load_time_is_shared_by_the_requests_of_each_load(wording):
    case = changed(of_ollama(*AGAIN), requests=r(4))
    assert isinstance(ask(NAME, case), Found)
    assert CaseView(case).waits.reload_s is None
    report = judge(CaseView(case))
    wording(report.summary, tells="2 s")
    assert report.findings[0].cost.seconds == 0.5


def test_expired_keep_alive_is_found_only_below_the_default(wording):
    late = (("a", "10:00:00"), ("a", "10:10:00"), ("a", "10:20:00"))
    assert isinstance(ask(NAME, of_ollama(*late)), Absent)
    short = ask(NAME, of_ollama(*late, **{"runtime.scheduling.keep_alive_s": 10.0}))
    assert isinstance(short, Found)
    wording(short.because, tells="10 s")


@pytest.mark.parametrize(("keep_alive_s", "answer"), [(10.0, Found), (120.0, Absent)])
def test_one_expired_keep_alive_is_enough_where_it_is_shorter_than_reading_an_answer(keep_alive_s, answer):
    twice = of_ollama(("a", "10:00:00"), ("a", "10:10:00"), **{"runtime.scheduling.keep_alive_s": keep_alive_s})
    assert isinstance(ask(NAME, twice), answer)


def test_models_in_turn_are_ruled_out_where_all_stay_loaded():
    turns = of_ollama(("a", "10:00:00"), ("b", "10:00:10"), ("a", "10:00:20"), ("b", "10:00:30"))
    assert isinstance(ask(NAME, turns), Found)
    assert isinstance(ask(NAME, with_facts(turns, {"runtime.scheduling.loaded_models": 2})), Absent)


def test_loads_with_alternating_options_name_the_flag_and_its_knob(wording):
    case = of_ollama(*AGAIN, ("a", "10:00:30"))
    flags = ["-b 512", "-b 512 -t 16"] * 2
    loads = [
        msgspec.structs.replace(load, settings=words)
        for load, words in zip(case.runtime.history.loads.need(), flags, strict=True)
    ]
    answer = ask(NAME, with_facts(case, {"runtime.history.loads": loads}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="-t 16")
    assert answer.remedies[0].change.knob is Knob.THREADS
    assert "threads_exceed_cores" in answer.explains  # what the last load was started with is one of several


def test_keep_alive_0_in_the_environment_is_named_before_the_loads():
    idle = of_ollama(*AGAIN, **{"runtime.scheduling.keep_alive_s": 0.0})
    answer = ask(NAME, idle)
    assert isinstance(answer, Found)
    assert "keep_alive is 0" in answer.because
    assert answer.remedies[0].change.value == -1
    assert CaseView(idle).waits.reload_s == 2.0
