"""One set of settings to measure, and what is at hand to make such sets from."""

from typing import Literal, NamedTuple

from unslow.facts.knob import Knob, Setting
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.report import ChangeShown, GoalShown, OptionShown, SpeedShown

Kind = Literal["default", "plan", "option", "neighbour"]
Settings = dict[Knob, Setting]


class Candidate(NamedTuple):
    """Settings with a name; `kind` says where they come from, the prediction is the plan's."""

    name: str
    kind: Kind
    settings: tuple[ChangeShown, ...]
    speed: SpeedShown | None = None


class Hand(NamedTuple):
    """What is known here beside the plan: the model's tensors, the processors, and a draft model."""

    pieces: Pieces
    quant: str = ""
    parameters: int = 0
    cores: int = 0
    logical: int = 0
    draft: str = ""
    draft_bytes: int = 0

    @property
    def layers(self) -> int:
        """Of the model; llama.cpp counts the output as one more."""
        return len(self.pieces.layers)


class Around(NamedTuple):
    """The settings whose neighbours are looked for, with the memory that they leave free."""

    settings: Settings
    goal: GoalShown
    hand: Hand
    option: OptionShown | None = None

    @property
    def is_on_cpu(self) -> bool:
        """Whether no GPU takes part."""
        return not self.option or not any(device.total_bytes for device in self.option.devices)

    @property
    def uses_host(self) -> bool:
        """Whether processors compute a part of every token."""
        layers = self.settings.get(Knob.GPU_LAYERS)
        few = isinstance(layers, int) and 0 <= layers <= self.hand.layers
        return self.is_on_cpu or few or bool(self.settings.keys() & {Knob.EXPERTS_ON_CPU, Knob.TENSOR_OVERRIDE})

    @property
    def spare_bytes(self) -> int:
        """What every GPU in use has left beyond its margin: the first prompt takes its room out of that."""
        used = [device for device in self.option.devices if device.total_bytes] if self.option else []
        return min(((device.free_bytes or 0) - device.margin_bytes for device in used), default=0)

    def with_settings(self, changes: Settings) -> Settings:
        """The same with some turned; None takes a setting away."""
        turned = {**self.settings, **changes}
        return {knob: value for knob, value in turned.items() if value is not None}


def as_changes(settings: Settings) -> tuple[ChangeShown, ...]:
    """Settings as a plan has them."""
    return tuple(ChangeShown(knob=knob.value, value=value) for knob, value in settings.items())


def as_settings(changes: tuple[ChangeShown, ...]) -> Settings:
    """A plan's settings by knob; those that this version does not know are left out."""
    known = {knob.value: knob for knob in Knob}
    return {known[change.knob]: change.value for change in changes if change.knob in known}
