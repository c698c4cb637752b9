import json

import msgspec
import pytest

from unslow.facts.errors import UserError
from unslow.show.fit import render_fit
from unslow.think.fit.report import FitReport, KvShown, MemoryShown, ModelShown, QuantShown, RuleShown, WayShown

GIB = 2**30


def memory(name: str, weights: int, capacity: int | None, *, others: int = 0) -> MemoryShown:
    total = weights + 2 * GIB
    left = None if capacity is None else capacity - others - total
    return MemoryShown(
        name=name, weights_bytes=weights, kv_bytes=GIB, compute_bytes=GIB, total_bytes=total,
        free_bytes=None if left is None else max(0, left), fits=None if left is None else left >= 0,
        lacking_bytes=max(0, -(left or 0)), capacity_bytes=capacity, others_bytes=others, margin_bytes=GIB,
    )  # fmt: skip


def report(*, fits: bool, devices: tuple[MemoryShown, ...], host: MemoryShown, name: str = "Llama") -> FitReport:
    model = ModelShown(
        name=name,
        architecture="llama",
        quant="Q4_K_M",
        source="catalogue",
        parameters=70 * 10**9,
        weights_bytes=40 * GIB,
        file_bytes=0,
        layers=80,
        context_trained=131072,
    )
    return FitReport(
        unslow_version="0",
        model=model,
        runtime="llama_cpp",
        verdict="fits" if fits else "does_not_fit",
        fits=fits,
        devices=devices,
        host=host,
        settings={"context": 8192, "slots": 4, "kv_unified": True, "kv_type": "f16", "kv_type_v": "q8_0"},
        gpu_layers=81,
        all_gpu_layers=81,
        max_gpu_layers=40,
        max_context=None,
        kv=(
            KvShown(what="all tokens", layers=5, cells=8192, bytes=GIB),
            KvShown(what="state", layers=3, cells=0, bytes=1),
        ),
        command="llama-server -m M.gguf",
        ways=()
        if fits
        else (WayShown(what="IQ2_XXS"), WayShown(what="40 of 81 layers", command="llama-server -ngl 40")),
        next_quant=None if fits else QuantShown(name="IQ2_XXS", weights_bytes=18 * GIB, gpu_bytes=20 * GIB),
        rule_of_thumb=RuleShown(text="70B x 4", says_bytes=41 * GIB, says_fits=False, needs_bytes=44 * GIB),
        notes=("a note",),
    )


SPILLED = report(
    fits=False, devices=(memory("RTX 4090", 40 * GIB, 24 * GIB, others=GIB),), host=memory("host", 1, None)
)


def test_verdict_comes_first_and_every_part_is_shown() -> None:
    text = render_fit(SPILLED, "terminal", width=100, color=False)
    assert text.splitlines()[0].strip().startswith("DOES NOT FIT")
    for part in ("19.0 GiB short", "40 of 81", "-ngl 40", "IQ2_XXS", "a note", "f16/q8_0"):
        assert part in text
    assert "70B x 4" not in text  # the rule of thumb is a promise of the JSON alone
    assert "|" in next(line for line in text.splitlines() if "█" in line)  # what does not fit runs over the end


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 300])
def test_lines_fit_every_terminal_width(width: int) -> None:
    lines = render_fit(SPILLED, "terminal", width=width, color=False).splitlines()
    assert max(map(len, lines)) <= max(width, 40)


def test_model_that_fits_shows_fits_and_its_command(wording) -> None:
    text = render_fit(report(fits=True, devices=(memory("H200", GIB, 141 * GIB),), host=memory("host", 1, 64 * GIB)),
                      "terminal", width=100, color=False)  # fmt: skip
    assert " FITS " in text
    wording(text)
    assert "llama-server -m M.gguf" in text


def test_equal_gpus_share_a_numbered_line(wording) -> None:
    cards = (*[memory("RTX 3090", 10 * GIB, 24 * GIB)] * 3, memory("RTX 3090", 22 * GIB, 24 * GIB))
    text = render_fit(
        report(fits=True, devices=cards, host=memory("host", 1, None)), "terminal", width=100, color=False
    )
    assert "4x RTX 3090" in text.splitlines()[0]
    wording(text, tells=("0-2 each RTX 3090", "3 RTX 3090", "1.0 GiB"))


def test_model_name_sends_no_escape_sequences() -> None:
    hostile = report(fits=True, devices=(), host=memory("host", 1, None), name="\x1b[2J\x1b]0;x\x07")
    assert "\x1b" not in render_fit(hostile, "terminal", width=80, color=False)


def test_json_holds_the_whole_report() -> None:
    shown = json.loads(render_fit(SPILLED, "json", width=80, color=False))
    assert shown["schema"] == "unslow.fit/1"
    assert shown["devices"][0]["lacking_bytes"] == 19 * GIB


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UserError):
        render_fit.check_format("xml")


def test_divided_context_shows_context_per_slot(wording):
    settings = {"context": 4096, "slots": 8, "context_per_slot": 512, "kv_unified": False, "kv_type": "f16"}
    divided = msgspec.structs.replace(SPILLED, settings=settings)
    wording(render_fit(divided, "terminal", width=120, color=False), about="4,096", tells="512")
