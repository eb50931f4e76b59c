"""Which of our functions are mutated, with which seeds, and which mutations change nothing that anybody could see."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from simulation.chance import Chance
from simulation.faults import AREAS
from simulation.mutator import Mutation, mutations_of
from simulation.plan import Plan, draw

KINDS_MAX = 14


@dataclass(frozen=True)
class Part:
    """Functions of one part of the way. What needs a fault to matter is looked for in seeds with such faults: one of each of
    `faults`, a spool that is `scarce` or has an age limit, so many `forwarders`."""

    functions: Mapping[str, Sequence[str]]
    faults: tuple[frozenset[str], ...]
    scarce: bool = False
    aging: bool = False
    forwarders: int = 1

    def is_for(self, plan: Plan) -> bool:
        """Not too many kinds, so that those come often."""
        if len(plan.kinds) > KINDS_MAX or plan.forwarders < self.forwarders:
            return False
        if (self.scarce and not plan.is_scarce) or (self.aging and plan.limits.max_spool_seconds is None):
            return False
        return all(kinds & {*plan.kinds} for kinds in self.faults)


_AWAY = frozenset({"hop_cut", "broker_crashed", "gateway_killed"})
_EDGE_RESTORED = frozenset({"edge_restored"})
_NODE = frozenset({"node_power_cut", "forwarder_killed"})
_GATEWAY = frozenset({"gateway_killed", "edge_database_crashed", "edge_database_troubled"})
_REPEATED = frozenset({"broker_repeated", "broker_crashed", "line_cut"})
_STOPPED = frozenset({"sync_forwarder_stopped"})
_CLOUD_WENT_BACK = frozenset({"cloud_restored", "cloud_set_back", "bus_lost"})
_CLOUD = frozenset({"bus_troubled", "entrance_killed", "dedupe_database_troubled", "store_killed"})

# Fencing, ordering and comparison on the way of a sample, from the node's spool to the cloud's store. The models stand for the
# SQL of `outbox/`, `sync_forwarder/store.py` and `cloud/ingestion`.
PARTS = (
    Part(
        {
            "farmiq.spool.keeper": ("Keeper._delete", "Keeper._declare_dropped"),
            "farmiq.spool.ranges": ("merged", "without"),
        },
        (_AWAY, _NODE),
        scarce=True,
    ),
    Part({"farmiq.spool.retention": ("plan",)}, (_AWAY,), scarce=True, aging=True),
    Part(
        {
            "farmiq.spool.keeper": ("Keeper.acknowledge", "Keeper.go_back", "Keeper._declare_not_kept"),
            "farmiq.spool.losses": ("LossJournal.declare", "LossJournal.acknowledge", "LossJournal.declare_again"),
        },
        (_AWAY, _EDGE_RESTORED),
        scarce=True,
    ),
    Part(
        {
            "farmiq.device.node_forwarder.acks": ("AckReader.read", "AckReader.is_of_the_living"),
            "farmiq.device.node_forwarder.listener": ("_progress", "_go_back", "_settle_losses"),
            "farmiq.device.node_forwarder.lanes": (
                "Lanes.restart", "Lanes.acknowledged", "Lanes.went_back", "Lanes.next_replay",
            ),
            "farmiq.device.node_agent.backlog": ("Backlog.stored", "Backlog.resume_after", "Backlog.offer"),
        },
        (_AWAY, _EDGE_RESTORED, _NODE),
    ),
    Part(
        {
            "farmiq.edge.ingress_gateway.consumer": ("_Consumer.store",),
            "farmiq.edge.ingress_gateway.handlers": ("_commit", "_split"),
            "farmiq.edge.ingress_gateway.acknowledgements": ("Pending.note",),
            "farmiq.timeseries.admission": ("admit_batches", "declare_lost", "_take"),
            "farmiq.timeseries.coverage": ("normalise", "missing", "contiguous_to"),
        },
        (_GATEWAY, _REPEATED),
    ),
    Part(
        {
            "farmiq.outbox.settle": ("settle", "_ack"),
            "farmiq.outbox.recovery": ("rescue",),
            "farmiq.edge.sync_forwarder.holding": ("Holding.renew", "Holding.check"),
            "farmiq.edge.sync_forwarder.settlement": ("Settlement.write_down", "Settlement.pause"),
            "farmiq.edge.sync_forwarder.delivery": ("Delivery.deliver",),
            "simulation.outbox_tables": ("_claim", "_held", "_acked", "_expired", "_promote"),
        },
        (_STOPPED,),
        forwarders=2,
    ),
    Part(
        {
            "farmiq.edge.sync_forwarder.cloud_epochs": ("KnownEpoch.after", "judge"),
            "farmiq.edge.sync_forwarder.settlement": ("_hear",),
            "farmiq.edge.sync_forwarder.resending": ("resend_page",),
            "farmiq.cloud.ingestion.epochs": ("count_of", "is_known", "number_answer"),
            "simulation.outbox_tables": ("_heard", "_begin_epoch", "_resend"),
            "simulation.cloud_tables": ("_may_be_lost", "_passed_on", "_know", "_went_back", "_answer", "_earlier"),
        },
        (_CLOUD_WENT_BACK,),
    ),
    Part(
        {
            "farmiq.cloud.ingestion.handlers": ("ingest", "_publish_new", "_result"),
            "farmiq.kit.bus_worker": ("_consume",),
        },
        (_CLOUD, _CLOUD_WENT_BACK),
    ),
)  # fmt: skip

EQUIVALENT: Mapping[str, str] = {
    "farmiq.spool.losses:LossJournal.acknowledge: `loss.loss_id in wanted and (not loss.is_acknowledged)` without "
    "`not loss.is_acknowledged`": ("it writes once more what is written"),
    "farmiq.spool.losses:LossJournal.declare_again: `loss.last_seq > after_seq` becomes `loss.last_seq >= after_seq`": (
        "a record that the edge has is sent once more, under its own id"
    ),
    "farmiq.device.node_forwarder.listener:_progress: `acked_seq > before` becomes `acked_seq >= before`": (
        "the spool is trimmed more often"
    ),
    "farmiq.device.node_forwarder.lanes:Lanes.restart: `max(self.live_after, synced_seq)` becomes `self.live_after`": (
        "what was stored while the line was cut goes by the live lane instead"
    ),
    "farmiq.device.node_forwarder.lanes:Lanes.acknowledged: `max(self.replay_after, acked_seq)` becomes "
    "`self.replay_after`": ("the replay sends again what the edge has, and the edge knows it"),
    "farmiq.edge.ingress_gateway.consumer:_Consumer.store: `self._announcer.announce()` before "
    "`self._acks.note(outcomes)`": ("nothing happens between the two"),
    "farmiq.timeseries.admission:declare_lost: `await store.save_coverage(connection, {key: stream})` before `await "
    "store.record_loss(connection, origin, event_id, loss)`": ("both are in one transaction"),
    "farmiq.outbox.settle:_ack: `if int(tag.rpartition(' ')[2]) == len(leases)` never holds": (
        "the ids are read back also where all of them were ours"
    ),
    "farmiq.outbox.recovery:rescue: no transaction around `outcomes = []`": (
        "each settlement is fenced by its row's token: a second rescuer changes nothing"
    ),
    "farmiq.edge.sync_forwarder.holding:Holding.renew: `self.lost([event_id for event_id in self._held if event_id "
    "not in renewed])` is left out": ("the settlement is fenced: what was taken back is sent twice, and settled once"),
    "farmiq.edge.sync_forwarder.settlement:Settlement.pause: `is_probe or not breaker.is_paused` becomes `is_probe "
    "and (not breaker.is_paused)`": ("another length of the pause"),
    "simulation.outbox_tables:_acked: `row.status == 'acked'` becomes `row.status != 'acked'`": (
        "of rows that were taken back it changes what is counted, and nothing that is written"
    ),
    "simulation.outbox_tables:_promote: the filter `row.status == 'pending' and row.parked and "
    "_is_due(row.next_attempt_at, database.now)` is left out": (
        "the claim looks at the time itself: parked rows only stand in the way of others"
    ),
    "simulation.cloud_tables:_may_be_lost: `(-1 if row.after_answer is None else row.after_answer) < "
    "answers.epoch_answer` becomes `(-1 if row.after_answer is None else row.after_answer) <= answers.epoch_answer`": (
        "what is safe is published once more, and its consumer knows it"
    ),
    "farmiq.cloud.ingestion.handlers:_publish_new: `await store.passed_on(connection, repeated)` before `if "
    "expansion is not None: await _expand(expansion, candidates, failures)`": ("both are in one transaction"),
}
"""By name, each with the reason: no promise depends on them."""

OUTSIDE: Mapping[str, str] = {
    "farmiq.spool.keeper:Keeper.acknowledge: `self._declare_not_kept(ceiling_seq)` is left out": (
        "only an edge database that lost commits under one epoch needs it, and none does here"
    ),
    "farmiq.spool.keeper:Keeper.go_back: `if len(epoch.encode()) > EPOCH_BYTES_MAX` never holds": (
        "no edge sends such an epoch"
    ),
    "farmiq.device.node_forwarder.listener:_settle_losses: the filter `event.result != 'rejected'` is left out": (
        "no loss is refused for good here: its id would have to be another event's"
    ),
    "farmiq.edge.ingress_gateway.handlers:_commit: the filter `message not in refused` is left out (3)": (
        "nothing is refused after it was screened: its stream would have to be another device's"
    ),
    "farmiq.timeseries.admission:_take: `if not stream.origin.is_same_device(item.origin)` never holds": (
        "no device uses another one's stream"
    ),
    "farmiq.edge.sync_forwarder.settlement:Settlement.write_down: `await self._release_held([event for event in ours "
    "if event.id in acked])` is left out": ("the cloud holds nothing here: no device is moved"),
    "farmiq.kit.bus_worker:_consume: `await mover.move(outcome.failures)` is left out": (
        "no message of the bus fails for good here"
    ),
}
"""As above: what would tell them apart is not in the simulation."""


@cache
def all_made() -> list[Mutation]:
    return [one for part in PARTS for module in part.functions for one in mutations_of(module, part.functions[module])]


def mutations(per_function: int | None = None) -> list[Mutation]:
    """All that could be found; or, of so many of each function, always the same ones."""
    made = all_made() if per_function is None else _some(all_made(), per_function)
    return [one for one in made if one.name not in EQUIVALENT and one.name not in OUTSIDE]


def _some(made: Sequence[Mutation], per_function: int) -> list[Mutation]:
    taken: Counter[tuple[str, str]] = Counter()
    chosen = set()
    for one in sorted(made, key=lambda one: blake2b(one.name.encode(), digest_size=8).digest()):
        if taken[one.module, one.function] < per_function:
            taken[one.module, one.function] += 1
            chosen.add(one.name)
    return [one for one in made if one.name in chosen]


def seeds_for(mutation: Mutation, first: int, count: int) -> list[int]:
    part = next(part for part in PARTS if mutation.function in part.functions.get(mutation.module, ()))
    return list(itertools.islice(_seeds_of(PARTS.index(part), first), count))


def _seeds_of(part: int, first: int) -> Iterator[int]:
    return (seed for seed in itertools.count(first) if PARTS[part].is_for(_plan(seed)))


@cache
def _plan(seed: int) -> Plan:
    """The first that a run draws."""
    return draw(Chance(seed), AREAS)
