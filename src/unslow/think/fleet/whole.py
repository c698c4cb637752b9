"""The judgement of a fleet: its sums, its causes, its instances by what they lose, and the odd ones among peers."""

from collections.abc import Sequence

from unslow.think.fleet.judged import Head, Judged
from unslow.think.fleet.peers import peer_groups
from unslow.think.fleet.ranking import cause_counts, is_idle, ranked, sum_of_known, sums, untold, verdict_counts
from unslow.think.fleet.report import FleetReport


def fleet_of(judged: Sequence[Judged], head: Head) -> FleetReport:
    """The report on all instances; each keeps the verdict that it has by itself."""
    instances = ranked([one.instance for one in judged])
    return FleetReport(
        unslow_version=head.unslow_version,
        prometheus=head.prometheus,
        taken_at=head.taken_at,
        window_s=head.window_s,
        queries=head.queries,
        seconds=head.seconds,
        complete=head.complete,
        statements=head.statements,
        verdicts=verdict_counts(instances),
        tokens_per_s=sum_of_known(0.0 if is_idle(one) else one.tokens_per_s for one in instances),
        lost=sums(instances),
        gpus=sum_of_known(one.gpus for one in instances),
        causes=cause_counts(instances),
        untold=untold(instances),
        idle=sum(map(is_idle, instances)),
        instances=instances,
        peers=peer_groups(judged, head.window_s),
    )
