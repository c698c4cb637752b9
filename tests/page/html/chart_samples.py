"""Parts of a view for the tests of charts: from recorded benchmarks, and built where no recording has them."""

import json
from functools import cache
from math import sin
from pathlib import Path

from unslow.facts.bench import Bench
from unslow.page.view import (  # fmt: skip
    Choice,
    CurvePoint,
    CurveView,
    MemoryBar,
    MemoryPart,
    MemoryView,
    PhaseSpan,
    Roof,
    RooflinePoint,
    RooflineView,
    Slider,
    ThrottleMark,
    TimelineView,
    Track,
    WhatIf,
)
from unslow.think.report import Range

BENCHES = Path(__file__).parents[2] / "benches"
GIB = 1024**3
H200_BYTES = 150_754_820_096
"""As NVML reports it."""


@cache
def recorded(name: str) -> Bench:
    import msgspec

    return msgspec.convert(json.loads((BENCHES / f"{name}.json").read_text()), Bench, strict=False)


def curve(name: str, axis: str, metric: str) -> CurveView:
    """The sweep of a recorded benchmark."""
    sweep = recorded(name).sweeps[0]
    points = []
    for point in sweep.points:
        spread, expected = point.figures.get(metric), point.expected.get(metric)
        points.append(
            CurvePoint(
                at=point.at,
                measured=spread.median if spread else None,
                low=spread.low if spread else None,
                high=spread.high if spread else None,
                predicted=expected,
                predicted_low=expected * 0.8 if expected else None,
                predicted_high=expected * 1.25 if expected else None,
                note=point.note,
            )
        )
    return CurveView(
        axis=axis,
        metric=metric,
        points=tuple(points),
        verdict=sweep.verdict,
        because=sweep.because,
        knee=sweep.knee,
        measured_at=recorded(name).taken_at,
    )


def depth_curve() -> CurveView:
    return curve("h200_slope", "depth", "decode_tokens_per_s")


def users_curve() -> CurveView:
    return curve("h200_users", "users", "together_tokens_per_s")


_TRACKS = {
    "clock_hz": ("clock", None),
    "power_w": ("power", 700.0),
    "vram_used_bytes": ("memory in use", float(H200_BYTES)),
    "temperature_c": ("temperature", None),
    "busy": ("busy", None),
    "memory_busy": ("memory busy", None),
    "pcie_transmit_bytes_per_s": ("PCIe transmit", None),
}


def recorded_timeline() -> TimelineView:
    """A minute of decoding on an H200: what was seen in each stretch, and every request of it."""
    bench = recorded("h200_minutes")
    points = bench.sweeps[0].points
    tracks = [
        Track(
            name=name,
            label=label,
            device="NVIDIA H200",
            limit=limit,
            values=tuple(p.seen.get(f"gpu0_{name}") for p in points),
        )
        for name, (label, limit) in _TRACKS.items()
    ]
    spans = []
    for one in bench.passes:
        middle = one.started_s + (one.client_first_token_s or 0)
        spans += [
            PhaseSpan(phase="prefill", start_s=one.started_s, end_s=middle),
            PhaseSpan(phase="decode", start_s=middle, end_s=one.started_s + (one.client_total_s or 0)),
        ]
    times = tuple(60 * p.at for p in points)
    return TimelineView(
        times_s=times, tracks=tuple(tracks), spans=tuple(spans), summary="The clocks stayed at 1,980 MHz for a minute"
    )


def many_gpus(gpus: int = 8, columns: int = 400, names: int = 5) -> TimelineView:
    """A server of which GPU 3 runs hot and slows down."""
    times = tuple(0.15 * column for column in range(columns))
    tracks = []
    for name, (label, limit) in list(_TRACKS.items())[:names]:
        for gpu in range(gpus):
            values = tuple(_value(name, gpu, column, columns) for column in range(columns))
            tracks.append(Track(name=name, label=label, device=f"GPU {gpu}", limit=limit, values=values))
    end = times[-1]
    spans = (
        PhaseSpan(phase="load", start_s=0, end_s=end * 0.1),
        PhaseSpan(phase="prefill", start_s=end * 0.1, end_s=end * 0.18),
        PhaseSpan(phase="decode", start_s=end * 0.18, end_s=end * 0.9),
        PhaseSpan(phase="queue", start_s=end * 0.3, end_s=end * 0.4),
        PhaseSpan(phase="idle", start_s=end * 0.9, end_s=end),
    )
    marks = (
        ThrottleMark(
            device=f"GPU {min(3, gpus - 1)}", reason="hw_thermal_slowdown", start_s=end * 0.4, end_s=end * 0.9,
            harmful=True,
        ),
        ThrottleMark(device="GPU 0", reason="gpu_idle", start_s=end * 0.92, end_s=end, harmful=False),
    )  # fmt: skip
    said = "GPU 3 reached 87 °C after 24 s and its clock fell to 1,170 MHz; the other seven waited for it"
    return TimelineView(times_s=times, tracks=tuple(tracks), spans=spans, marks=marks, summary=said)


def _value(name: str, gpu: int, column: int, columns: int) -> float | None:
    share = column / columns
    works = 0.1 < share < 0.9
    hot = gpu == 3 and share > 0.4 and works
    wave = 1 + 0.02 * sin(column / 3 + gpu)
    if 0.5 < share < 0.52 and gpu == 1:
        return None
    return {
        "clock_hz": (1170e6 if hot else 1980e6) if works else 345e6,
        "power_w": (330 if hot else 610) * wave if works else 90 * wave,
        "vram_used_bytes": min(1.0, share * 10) * 96 * GIB,
        "temperature_c": (min(87, 45 + 110 * share) if gpu == 3 else 40 + 22 * min(1, 2 * share)) * wave,
        "busy": min(1.0, 0.97 * wave) if works else 0.0,
        "memory_busy": 0.4 * wave if works else 0.0,
        "pcie_transmit_bytes_per_s": 4e8 * wave if works else 0.0,
    }[name]


def part(kind: str, gib: float, name: str = "") -> MemoryPart:
    return MemoryPart(kind=kind, name=name or kind, bytes=round(gib * GIB))


def spilling() -> WhatIf:
    """A 24 GiB card that a browser shares, with a model that is too large."""
    card = (
        part("weights", 18.4), part("kv", 4.1), part("compute", 0.6), part("stranger", 1.3, "firefox"),
        part("stranger", 0.2, "Xorg"), part("reserve", 0.5), part("lacking", 1.1, "more than there is"),
    )  # fmt: skip
    host = (part("weights", 1.2), part("compute", 0.1), part("stranger", 21.5, "other programs"), part("free", 41.2))
    return WhatIf(
        settings={"context": "32768", "gpu_layers": "65"},
        bars=(
            MemoryBar(name="NVIDIA GeForce RTX 4090", capacity_bytes=24 * GIB, parts=card, fits=False),
            MemoryBar(name="RAM", is_host=True, capacity_bytes=64 * GIB, parts=host, fits=True),
        ),
        verdict="does_not_fit",
        summary="1.1 GiB too little on the NVIDIA GeForce RTX 4090: lower the context or move 4 layers",
        decode_tokens_per_s=Range(low=11.2, mid=14.1, high=17.8),
        prefill_tokens_per_s=Range(low=610, mid=820, high=1100),
        command="llama-server -m model.gguf -c 32768 -ngl 65",
        notes=("the KV cache would be f16",),
    )


def memory() -> MemoryView:
    contexts = tuple(Choice(value=str(2**power), label=f"{2**power:,} tokens") for power in range(9, 18))
    layers = tuple(Choice(value=str(layer), label=f"{layer} of 65") for layer in range(66))
    kinds = tuple(Choice(value=kind, label=kind) for kind in ("q4_0", "q8_0", "f16"))
    sliders = (
        Slider(knob="context", label="Context", value="32768", choices=contexts),
        Slider(knob="gpu_layers", label="Layers on the GPU", value="65", choices=layers),
        Slider(knob="kv_type", label="Type of the KV cache", value="f16", choices=kinds),
        Slider(knob="slots", label="Slots", value="1", choices=(Choice(value="1", label="1"),)),
    )
    return MemoryView(now=spilling(), sliders=sliders, source="from its log")


def roofline() -> RooflineView:
    """An 8B model at Q4_K_M on an H200: 240 tok/s measured of decode, 8,200 of prefill."""
    flops = 2 * 8.03e9
    roofs = (
        Roof(
            device="NVIDIA H200", bytes_per_s=4.8e12, flops_per_s=989e12, ridge_flops_per_byte=206, source="datasheet"
        ),
        Roof(device="Intel Xeon", bytes_per_s=113e9, flops_per_s=3.2e12, ridge_flops_per_byte=28.3, source="measured"),
    )  # fmt: skip
    points = (
        RooflinePoint(
            phase="decode", label="decode", flops_per_byte=3.3, measured_flops_per_s=240 * flops,
            predicted_flops_per_s=225 * flops, roof_flops_per_s=15.8e12, bound_by="memory",
        ),
        RooflinePoint(
            phase="prefill", label="prefill, 512 tokens at once", flops_per_byte=1600,
            measured_flops_per_s=8200 * flops, predicted_flops_per_s=14000 * flops, roof_flops_per_s=989e12,
            bound_by="compute",
        ),
    )  # fmt: skip
    return RooflineView(roofs=roofs, points=points, summary="An answer is bound by memory: 24% of what the roof allows")
