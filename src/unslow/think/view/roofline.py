"""The roofline: what the devices could compute at each intensity, and how near this model's phases come to that.

What a phase reads and computes is the same demand that the prediction is made of. Of a model that lies in two memories
a phase has one point: each side takes at least what its own roof allows, one after the other.
"""

from typing import Literal, NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.adapt.beside import COPIES, FETCHES
from unslow.think.adapt.cured_placement import cured_placement
from unslow.think.adapt.gpu_question import element_bytes_of, gpu_question
from unslow.think.adapt.prompt_question import host_lends, prompt_question
from unslow.think.adapt.remembered import one_judgement
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.work import depth_of
from unslow.think.physics.amounts import Amounts
from unslow.think.physics.decoding import COMPUTE, READS
from unslow.think.physics.host_decoding import HOST_ATTENTION, HOST_COMPUTE, HOST_READS
from unslow.think.physics.interconnect import LAYER, LINK
from unslow.think.physics.placement import Placement, Shape
from unslow.think.predict import Prediction, measured_prefill, measured_rate, predict, predict_prefill
from unslow.think.predict_prefill import micro_batch, prompt_tokens
from unslow.think.speed.question import Question
from unslow.think.speed.totals import Totals
from unslow.think.view.basis import Basis, basis_of
from unslow.think.view.report import Roof, RooflinePoint, RooflineView
from unslow.think.view.roofline_words import summary_of
from unslow.think.view.roofs import crew_roof, host_roof, together

Bound = Literal["memory", "compute", "overhead"]
_MEMORY = (READS, HOST_READS, HOST_ATTENTION, COPIES, FETCHES)
_COMPUTE = (COMPUTE, HOST_COMPUTE)


class Load(NamedTuple):
    """What one token asks of one device."""

    flops: float
    read_bytes: float
    roof: Roof
    lent: bool = False
    """Whether weights come over a link first: no roof, as how fast it is depends on how they are copied."""

    @property
    def least_s(self) -> float:
        """The shortest time in which it can be had."""
        return max(self.flops / self.roof.flops_per_s, self.read_bytes / self.roof.bytes_per_s)


@one_judgement()
def roofline(case: Case) -> RooflineView | Unknown:
    """The picture for a case as it is set up, or what it lacks; with what fits on the GPU where that is not known."""
    basis = basis_of(case)
    if isinstance(basis, Unknown):
        return basis
    try:
        shape = read_shape(case)
        placement = cured_placement(case, shape, basis.cure)
        decode, prefill = _decode_loads(case, shape, placement), _prefill_loads(case, shape, placement)
    except MissingFactError as error:
        return error.unknown
    points = tuple(p for p in (_decode_point(case, decode, basis), _prefill_point(case, prefill, basis)) if p)
    if not points:
        return Unknown("nothing that computes is known", "run `unslow` beside the server")
    roofs = tuple({load.roof.device: load.roof for load in (*decode, *prefill)}.values())
    return RooflineView(roofs=roofs, points=points, summary=summary_of(roofs, points))


def _decode_loads(case: Case, shape: Shape, placement: Placement) -> list[Load]:
    depth, loads = depth_of(case), []
    asked = gpu_question(case, shape, placement, depth)
    if asked and asked.question.totals:
        question = asked.question
        roof = crew_roof(case, question)
        roof = roof if question.split == LAYER else together(roof, float(question.gpus))
        loads.append(_of_step(_totals(question).step(depth, question.element_bytes), roof))
    left = host_roof(case, shape, placement)
    if left:
        loads.append(_of_step(left.totals.step(depth, element_bytes_of(case)), left.roof))
    return loads


def _of_step(amounts: Amounts, roof: Roof) -> Load:
    weights = amounts.dense_weights + amounts.expert_weights
    read = amounts.dense_bytes + amounts.expert_bytes + amounts.cache_bytes + 2 * amounts.state_bytes
    return Load(float(2 * (weights + amounts.attention_products)), float(read), roof)


def _prefill_loads(case: Case, shape: Shape, placement: Placement) -> list[Load]:
    tokens = prompt_tokens(case)
    each = min(tokens, micro_batch(case))
    question = prompt_question(case, shape, placement, each)
    host, lends = question.host, question.totals is not None and host_lends(case, each)
    loads = []
    if question.totals is not None:
        roof = together(crew_roof(case, question), float(question.gpus))  # micro-batches keep all GPUs busy
        loads.append(_of_prompt(question.totals, tokens, each, roof))
        if host and lends:
            lent = _of_prompt(host.totals, tokens, each, roof)
            loads[0] = Load(loads[0].flops + lent.flops, loads[0].read_bytes + lent.read_bytes, roof, lent=True)
    if host and not lends and (left := host_roof(case, shape, placement, prompts=True)):
        loads.append(_of_prompt(host.totals, tokens, each, left.roof))
    return [load for load in loads if load.flops > 0]


def _of_prompt(totals: Totals, tokens: float, each: float, roof: Roof) -> Load:
    """Of one token: the weights that all of a micro-batch share, and what it multiplies itself."""
    shared = totals.micro_batch(each)
    met = totals.expert_weights * totals.experts_used / totals.experts
    weights = max(0.0, float(totals.dense_weights - totals.output_weights)) + float(met)
    flops = 2 * (weights + float(totals.attention_products(tokens / 2)))
    return Load(flops, float(shared.dense_bytes + shared.expert_bytes) / each, roof)


def _totals(question: Question) -> Totals:
    return question.totals or Totals()


def _decode_point(case: Case, loads: list[Load], basis: Basis) -> RooflinePoint | None:
    found, rate = predict(case, basis.cure), measured_rate(case)
    depth = depth_of(case)
    label = f"generating, {depth:,.0f} tokens into the context" if depth else "generating"
    measured = rate.value if isinstance(rate, Known) else None
    return _point("decode", label, loads, found if isinstance(found, Prediction) else None, measured)


def _prefill_point(case: Case, loads: list[Load], basis: Basis) -> RooflinePoint | None:
    found, rate = predict_prefill(case, basis.cure), measured_prefill(case)
    each = min(prompt_tokens(case), micro_batch(case))
    label = f"reading a prompt, {each:,.0f} tokens at once"
    measured = rate.value if isinstance(rate, Known) else None
    return _point("prefill", label, loads, found if isinstance(found, Prediction) else None, measured)


def _point(
    phase: Literal["decode", "prefill"], label: str, loads: list[Load], found: Prediction | None, measured: float | None
) -> RooflinePoint | None:
    flops, read = sum(load.flops for load in loads), sum(load.read_bytes for load in loads)
    least_s = sum(load.least_s for load in loads)
    if not flops or not read or not least_s:
        return None
    return RooflinePoint(
        phase=phase,
        label=label,
        flops_per_byte=flops / read,
        predicted_flops_per_s=flops * found.tokens_per_s.mid if found else None,
        measured_flops_per_s=flops * measured if measured else None,
        roof_flops_per_s=flops / least_s,
        bound_by=_bound(found, loads),
    )


def _bound(found: Prediction | None, loads: list[Load]) -> Bound:
    """By the largest share of the predicted time; by the roof alone where nothing is predicted."""
    if found is None:
        reading = sum(load.read_bytes / load.roof.bytes_per_s for load in loads)
        return "memory" if reading >= sum(load.flops / load.roof.flops_per_s for load in loads) else "compute"
    shares: dict[Bound, float] = {"memory": 0.0, "compute": 0.0, "overhead": 0.0}
    for part in found.parts:
        lent = part.name == LINK and any(load.lent for load in loads)
        shares["memory" if lent else _kind(part.name)] += part.seconds
    return max(shares, key=lambda kind: shares[kind])


def _kind(part: str) -> Bound:
    return "compute" if part in _COMPUTE else "memory" if part in _MEMORY else "overhead"
