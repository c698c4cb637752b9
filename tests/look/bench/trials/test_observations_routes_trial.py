from doubles import FakeSystem

from unslow.facts.values import Absence, Known
from unslow.look.bench.trials.observations import ROUTE_TRIES, hosts_of, perform_routes
from unslow.look.requests import Plan, Target
from unslow.look.system import Answer, LookError


def test_only_loopback_urls_get_alternative_hosts():
    assert hosts_of("http://127.0.0.1:8080") == ["127.0.0.1", "localhost", "::1"]
    assert hosts_of("http://localhost:8080") == ["localhost", "127.0.0.1", "::1"]
    assert hosts_of("http://[::1]:8080") == ["::1", "localhost", "127.0.0.1"]
    assert hosts_of("http://192.0.2.7:8080") == ["192.0.2.7"]
    assert hosts_of("https://localhost:8080") == ["localhost"]


def test_each_route_is_timed_by_its_health_endpoint():
    door = FakeSystem(
        http={f"GET http://{host}:8080/v1/health": Answer(200, b"") for host in ("localhost", "127.0.0.1")}
    )
    run = perform_routes(door, Target("http://localhost:8080/v1"), Plan(), lambda *_: None)
    assert isinstance(run.routes, Known)
    assert [(route.host, route.seconds is not None) for route in run.routes.value] == [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", False),
    ]
    assert ("GET http://[::1]:8080/v1/health", None) in door.sent


class Hiccups(FakeSystem):
    """Every first question gets no answer."""

    def request(self, method, url, *args, **more):
        first = all(url not in asked for asked, _ in self.sent)
        answer = super().request(method, url, *args, **more)
        if first:
            raise LookError("the connection broke", Absence.FAILED)
        return answer


def test_one_failed_try_does_not_close_a_route():
    door = Hiccups(http={"GET http://192.0.2.7:8080/v1/health": Answer(200, b"")})
    run = perform_routes(door, Target("http://192.0.2.7:8080/v1"), Plan(), lambda *_: None)
    assert run.routes.value[0].seconds is not None
    assert len(door.sent) == ROUTE_TRIES
