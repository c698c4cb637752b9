"""Learning speed factors: the solver recovers them, and misleading rows are left out."""

import math

import pytest
from lab.fit_speed import is_of_host, with_hosts
from lab.speed.priors import BACKENDS, all_factors, prior_of
from lab.speed.processors import processor_rows
from lab.speed.solver import fitted, predicted
from lab.speed.table import DATA, TOLERANCE, TRUSTED, Measured, beats_ceiling, is_flagged, measured, read_rows, terms_of

from unslow.catalog.learned_speed import LearnedSpeed, Spread
from unslow.facts.values import Unknown
from unslow.think.physics.terms import Factor, Term, least_seconds, total_of_terms
from unslow.think.speed.rows import cell_number, parse_row

TRUE = {"waste/cuda": math.log(0.2), "step/cuda": math.log(4e-4), "layer/cuda": math.log(2e-5)}
OWN = "own waste/cuda/hopper/H200 SXM"
SPREAD = Spread(0.8, 1.2, 4, 2, 0.1)
SURE = 1000.0
"""A weight beside which what is plausible does not count."""


def synthetic(gigabytes: float, layers: float, logs: dict[str, float], *more: str, weight: float = SURE) -> Measured:
    """A row whose time follows from these factors."""
    read = gigabytes / 1000
    terms = (
        Term("reads", read),
        Term("reads", read, (Factor("waste/cuda"), *map(Factor, more))),
        Term("launches", layers, (Factor("layer/cuda"),)),
        Term("round trip", 1.0, (Factor("step/cuda"),)),
    )
    return Measured(
        "a", "dense gpu", "cuda", "hopper", terms, float(total_of_terms(terms, logs)), weight, True, "made up"
    )


def rows(logs: dict[str, float], *more: str, weight: float = SURE) -> list[Measured]:
    sizes = ((0.1, 12), (0.5, 24), (1, 16), (4, 32), (8, 36), (16, 40), (40, 80), (2, 60))
    return [synthetic(gb, layers, logs, *more, weight=weight) for gb, layers in sizes]


def test_factors_are_recovered_from_synthetic_rows() -> None:
    found = fitted(rows(TRUE))
    assert found.keys() == TRUE.keys()
    assert found == pytest.approx(TRUE, abs=0.02)
    assert predicted(rows(TRUE), found) == pytest.approx([m.seconds for m in rows(TRUE)], rel=1e-3)


def test_an_outlier_has_little_effect() -> None:
    lying = synthetic(4, 32, TRUE)
    found = fitted([*rows(TRUE), lying._replace(seconds=20 * lying.seconds)])
    assert predicted([lying], found)[0] == pytest.approx(lying.seconds, rel=0.03)


def test_a_start_near_the_solution_gives_the_same_factors() -> None:
    first = fitted(rows(TRUE))
    assert fitted(rows(TRUE), start=first) == pytest.approx(first, abs=0.01)


def test_without_evidence_a_factor_stays_at_its_prior() -> None:
    (alone,) = rows(TRUE, weight=1e-6)[:1]
    found = fitted([alone])
    assert found == pytest.approx({name: prior_of(name).mean for name in TRUE}, abs=0.01)


def test_held_factors_stay_and_device_factors_move() -> None:
    deviating = rows(TRUE | {OWN: 0.8}, OWN, weight=1.0)
    found = fitted(deviating, held=TRUE)
    assert {name: found[name] for name in TRUE} == pytest.approx(TRUE, abs=0.05)
    assert found[OWN] == pytest.approx(0.8, abs=0.15)
    assert fitted(deviating)[OWN] == pytest.approx(0.0, abs=0.1)  # before, a device is not given one


def test_the_prior_limits_new_factors_unless_freed() -> None:
    held = {name: log for name, log in TRUE.items() if name != "step/cuda"}
    slow = rows(TRUE | {"step/cuda": math.log(4e-3)}, weight=0.1)
    near, far = (fitted(slow, held=held, free=free)["step/cuda"] for free in (None, 5.0))
    assert prior_of("step/cuda").mean < near < far


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("product/cpu/ddr4", True),
        ("beside gpu/cpu/q4_k", True),
        ("wide vectors/cpu", True),
        ("prompt attention/cpu", True),
        ("product/runtime/ik_llama", True),
        ("prompt/cuda", False),
        ("host crossing/cuda", False),
    ],
)
def test_cpu_factors_are_recognised_by_name(name: str, expected: bool) -> None:
    assert is_of_host(name) is expected


def test_learning_cpus_keeps_gpu_factors() -> None:
    known = LearnedSpeed("a", "b", {"waste/cuda": 1.0, "waste/cpu": 1.0}, {"moe": SPREAD}, {"cuda": ["ada"]})
    hosts = LearnedSpeed("a", "c", {"waste/cuda": 2.0, "waste/cpu": 2.0}, {"cpu only": SPREAD}, {"cpu": ["ddr4"]})
    both = with_hosts(known, {"waste/cuda": 1.0}, hosts)
    assert both.factors == {"waste/cuda": 1.0, "waste/cpu": 2.0}
    assert both.spreads == {"moe": SPREAD, "cpu only": SPREAD}
    assert both.chips == {"cuda": ["ada"], "cpu": ["ddr4"]}


def test_a_joint_interval_of_gpus_and_cpus_only_widens() -> None:
    wide, other = Spread(0.7, 1.1, 3, 2, 0.2), Spread(0.8, 1.5, 4, 2, 0.1)
    known = LearnedSpeed("a", "b", {}, {"partial offload": wide})
    hosts = LearnedSpeed("a", "c", {}, {"partial offload": other}, {"cpu": []})
    found = with_hosts(known, {}, hosts).spreads["partial offload"]
    assert (found.low, found.high, found.median_error) == (0.7, 1.5, 0.2)


def test_factors_of_parallel_work_are_recovered() -> None:
    true = {"waste/cpu": math.log(0.1), "product/cpu": math.log(3.0)}

    def row(reading: float, computing: float) -> Measured:
        terms = (
            Term("reads", reading, side="reading"),
            Term("reads", reading, (Factor("waste/cpu"),), "reading"),
            Term("compute", computing, (Factor("product/cpu"),), "computing"),
        )
        return Measured(
            "a", "cpu only", "cpu", "ddr4", terms, float(total_of_terms(terms, true)), SURE, True, "made up"
        )

    some = [row(0.01 * n, 0.01 / n) for n in (0.2, 0.5, 1, 2, 4, 8)]
    assert fitted(some) == pytest.approx(true, abs=0.03)
    assert predicted(some, true) == pytest.approx([m.seconds for m in some])


def test_our_own_processors_are_one_device_each() -> None:
    own = processor_rows()
    assert {m.group for m in own} == {"cpu only", "prefill"}
    assert {m.family for m in own} == {"ddr4"}
    assert sum(m.weight**2 for m in own if m.group == "cpu only") == pytest.approx(1)
    assert not any(beats_ceiling(m.seconds, m.terms) for m in own)


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ({"hardware": "AMD Ryzen Z1", "backend": "Vulkan", "tok_s": "9"}, 0),  # its integrated GPU
        ({"hardware": "AMD Ryzen Z1", "backend": "CPU", "tok_s": "9"}, 1),
    ],
)
def test_an_integrated_gpu_gives_no_cpu_rows(change: dict[str, str], rows: int) -> None:
    assert len(measured([ROW | change])) == rows


def test_a_server_cpu_with_unknown_threads_has_less_weight() -> None:
    server = ROW | {"hardware": "AMD EPYC 7352", "backend": "CPU", "tok_s": "5"}
    untold, told = (measured([server | {"threads": n}])[0].weight for n in ("", "24"))
    assert untold < 0.5 * told


def test_every_factor_has_a_finite_prior() -> None:
    for name in all_factors():
        assert prior_of(name).width > 0
        assert math.isfinite(prior_of(name).mean)
    assert {f"step/{backend}" for backend in (*BACKENDS, "cpu")} <= set(all_factors())


ROW = {
    "hardware": "RTX 3090", "model": "llama 8B Q4_K - Medium", "quant": "Q4_K_M", "test": "tg128", "n_gpus": "1",
    "backend": "CUDA", "params_b": "8.03", "model_size_gib": "4.58", "tok_s": "130", "source": "ggml-org/llama.cpp",
    "note": "", "kv_type": "", "runtime": "llama.cpp",
}  # fmt: skip


def test_a_measurement_row_is_parsed() -> None:
    (found,) = measured([ROW])
    assert (found.device, found.group, found.backend, found.is_trusted) == ("RTX 3090", "dense gpu", "cuda", True)
    assert found.seconds == pytest.approx(1 / 130)


def test_repetitions_count_once_by_their_median() -> None:
    (found,) = measured([ROW | {"tok_s": speed} for speed in ("120", "130", "150")])
    assert found.seconds == pytest.approx(1 / 130)


@pytest.mark.parametrize(
    "change",
    [
        {"tok_s": "400"},  # 1.8 TB/s, on a card with half of that
        {"tok_s": ""},
        {"note": "SLOW SETUP: one channel"},
        {"note": "via RPC"},
        {"test": "tg128 (speculative)"},
        {"kv_type": "turboquant"},
        {"model": "nobody knows", "params_b": ""},
        {"hardware": "Abacus 3000"},
        {"batch": "conc=8"},
        {"model": "Llama 3.3 70B", "params_b": "70.6", "model_size_gib": "39.6", "tok_s": "2"},  # larger than the card
    ],
)
def test_misleading_measurement_rows_are_left_out(change: dict[str, str]) -> None:
    assert measured([ROW | change]) == []


def test_trusted_measurements_have_more_weight() -> None:
    trusted, other, chat = (measured([ROW | x])[0] for x in ({}, {"source": "a forum"}, {"test": "tg(chat)"}))
    assert trusted.weight > other.weight > chat.weight > 0
    assert not other.is_trusted


BEYOND = {("Apple M3 Max 64GB", "Qwen3.6-27B mlx-lm mxfp4")}
"""Without the size of its file, MXFP4 is taken for llama.cpp's mix of that name, which stores dense weights in Q8_0."""


def test_no_trusted_decode_measurement_beats_its_ceiling() -> None:
    """Decode only: the least work of a prefill is not known exactly."""
    table = [row for row in read_rows(DATA / "measurements.csv") if row["source"].startswith(TRUSTED)]
    shares = [(row, share) for row in table if (share := share_of_ceiling(row))]
    beyond = {(row["hardware"], row["model"]) for row, share in shares if share > 1}
    assert len(shares) > 1000
    assert beyond <= BEYOND, beyond - BEYOND
    assert measured([row for row, share in shares if share > 1 / TOLERANCE]) == []


def share_of_ceiling(row: dict[str, str]) -> float:
    """The speed of a row over what bandwidth alone allows; 0 where it is not looked at."""
    found = parse_row(row)
    if isinstance(found, Unknown) or is_flagged(row):
        return 0.0
    return cell_number(row["tok_s"]) * float(least_seconds(terms_of(found)))
