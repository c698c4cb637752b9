"""Compare devices: memory, bandwidth, model fit, speed, price, power.

NAME is a device of the catalog (RTX 3090, "2x RTX 3090", "M4 Max 64GB", Strix Halo) or `here` for this machine;
without one, a few popular devices, and with --all every one. Without --model, the catalog's data is shown. Speeds are
those of `unslow predict`, with the interval that holds four of five measurements.

examples:
  unslow devices "RTX 3090" "RTX 4090" "2x RTX 3090" --model qwen3-32b
  unslow devices --all --model gpt-oss-120b --sort value --min-memory 24
  unslow devices "RTX 3090" "M4 Max 64GB" --model llama-3.3-70b --context 16k --price "RTX 3090=650"
  unslow devices here "RTX 5090" --model qwen3-8b --users 4 --json
  unslow devices --vendor amd --sort memory

exit status: 0 compared, 2 could not run, 3 no speed is known for any of them
"""

from typing import TYPE_CHECKING, Annotated, Literal

from unslow.commands._buyer import MEMORY, Work
from unslow.commands._output import Progress
from unslow.commands._request import Option, function_of
from unslow.facts.errors import UserError

if TYPE_CHECKING:
    from unslow.buy.report import DevicesReport

_MOST_NAMES = 64


class DevicesRequest(Work, frozen=True, kw_only=True):
    """Devices side by side: memory, bandwidth, price, watts; with a model also fit and speed."""

    names: Annotated[
        tuple[str, ...], Option("a device, several (2x ...), or `here`", metavar="NAME", positional=True)
    ] = ()
    model: Annotated[str, Option("model name, file, URL or stored model", metavar="MODEL")] = ""
    all: Annotated[bool, Option("all GPUs and machines with unified memory")] = False
    vendor: Annotated[str, Option("only this vendor: nvidia, amd, apple, intel", metavar="NAME")] = ""
    min_memory: Annotated[int, Option("only devices with at least this memory: 24GB", metavar="SIZE", kind=MEMORY)] = 0
    sort: Annotated[
        Literal["speed", "price", "value", "watts", "memory", "name"] | None,
        Option("sort by speed, price, value (price per tok/s), watts, memory or name", metavar="BY"),
    ] = None

    def check(self) -> None:
        """UserError where there are too many."""
        if len(self.names) > _MOST_NAMES:
            raise UserError(f"{len(self.names)} devices are too many to compare", "--all shows the whole catalog")


def answer(request: DevicesRequest, progress: Progress) -> "DevicesReport":
    """The comparison."""
    from unslow.buy.devices import devices as compared
    from unslow.look.system.live import LiveSystem

    return compared(LiveSystem(), request, progress)


def run(request: DevicesRequest) -> int:
    """Compare and show."""
    from unslow.buy.show import render_devices
    from unslow.commands._output import show_answer

    report = show_answer(request, render_devices, answer)
    return 0 if report.asked is None or any(rig.speed for rig in report.devices) else 3


devices = function_of(DevicesRequest, answer)
