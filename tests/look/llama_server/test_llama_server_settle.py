import pytest

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Origin, estimated, failed, not_found, reported
from unslow.look.llama_server.settle import exact, settled


def test_the_log_decides_the_command_line_asks_and_the_server_is_current():
    asked = Runtime(context_set=reported(8192, "argv"), batch=estimated(2048, "default"), slots=reported(2, "argv"))
    http = Subject(runtime=Runtime(state=reported("loaded", "http"), slots=reported(4, "http")))
    log = Subject(
        runtime=Runtime(
            state=reported("failed", "log"),
            slots=reported(3, "log"),
            batch=reported(512, "log"),
            context_set=reported(1, "log"),
        )
    )
    runtime = settled(asked, http, log).runtime
    assert (runtime.state.need(), runtime.slots.need()) == ("loaded", 4)
    assert (runtime.batch.need(), runtime.context_set.need()) == (512, 8192)


def test_an_exact_size_is_not_replaced_by_a_rounded_one():
    told = Model(weights_bytes=reported(100, "http"), name=reported("a.gguf", "http"))
    rounded = Model(weights_bytes=estimated(99, "log"), name=reported("a", "log"), parameters=estimated(7, "log"))
    model = exact(told, rounded)
    assert (model.weights_bytes.need(), model.name.need(), model.parameters.need()) == (100, "a", 7)


@pytest.mark.parametrize(
    ("version", "fit"), [("b7407-abc", True), ("b7406-abc", None), ("b0-unknown", None), ("x", None)]
)
def test_the_fit_is_on_by_default_in_builds_that_have_it(version, fit):
    asked = Runtime(fit=not_found("-fit was not given"))
    runtime = settled(asked, Subject(runtime=Runtime(version=reported(version, "props"))), Subject()).runtime
    assert runtime.fit.value_or(None) is fit


def test_an_unreadable_environment_leaves_the_fit_unknown():
    asked = Runtime(fit=failed("the environment could not be read"))
    runtime = settled(asked, Subject(runtime=Runtime(version=reported("b9000-a", "props"))), Subject()).runtime
    assert runtime.fit.absence is Absence.FAILED


@pytest.mark.parametrize(("unified", "total"), [(True, 4096), (False, 16384)])
def test_the_whole_context_follows_from_that_of_a_slot(unified, total):
    runtime = Runtime(context_per_slot=reported(4096, "x"), slots=reported(4, "x"), kv_unified=reported(unified, "x"))
    context = settled(Runtime(), Subject(runtime=runtime), Subject()).runtime.context_length
    assert (context.need(), context.origin) == (total, Origin.ESTIMATED)
