import io

from rich.console import Console

from unslow.show.bench import token_parts
from unslow.think.stats.parts import Part, Parts


def shown(parts: Parts) -> str:
    console = Console(width=110, record=True, file=io.StringIO())
    for part in token_parts(parts):
        console.print(part)
    return "\n".join(line.rstrip() for line in console.export_text().rstrip().splitlines())


def test_every_part_its_share_and_the_remainder_are_shown(wording):
    step = Part(name="device_step", seconds=0.00383, low_s=0.0038, high_s=0.0039, told_apart=True, how="llama-bench")
    sent = Part(name="streaming", seconds=0.0, low_s=-0.0001, high_s=0.0001, told_apart=False, how="whole")
    rest = Part(name="unexplained", seconds=0.00074, low_s=-0.0002, high_s=0.001, told_apart=False, how="left")
    text = shown(Parts(seconds=0.00457, rounds=9, parts=(step, sent, rest), gpu_idle_s=0.0007, notes=("mind this",)))
    wording(text, tells=("4.570", "83.8%", "0.740", "-0.200 to 1.000", "0.700 ms", "mind this"))
