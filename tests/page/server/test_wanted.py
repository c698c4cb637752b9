"""What is shown beside the diagnosis: benchmarks for their curves, a verification for before and after."""

from pathlib import Path

from page_server import SLOW, serving

from unslow.commands.serve import ServeRequest
from unslow.page.server.serve import serve_options

HERE = Path(__file__).parents[2]
ASKED = ServeRequest(
    target=SLOW,
    goal=40.0,
    quick=True,
    bench=tuple(str(HERE / "benches" / f"h200_{name}.json") for name in ("users", "timeline")),
    verify=str(HERE.parent / "lab" / "data" / "plan_gpu_whole" / "verify.json"),
)


def test_bench_and_verify_files_are_shown():
    wanted = serve_options(ASKED)
    assert (len(wanted.benches), wanted.request.goal, wanted.request.api_key) == (2, 40.0, None)
    with serving(SLOW, benches=wanted.benches, verified=wanted.verified) as page:
        subject = page.get("/view").json["subjects"][0]
        assert subject["users"]["measured_at"]
        assert subject["timeline"]["tracks"]
        assert subject["change"]["rows"]
        html = page.open().text
    assert 'id="users-0-figure"' in html
    assert 'href="#change-0"' in html
