"""Which of our functions are mutated, and which mutations change nothing that anybody could see."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from simulation.mutator import Mutation, mutations_of

# Fencing, ordering and comparison on the way of a sample, from the node's spool to the cloud's store. The models at the end stand
# for the SQL of `outbox/`, `sync_forwarder/store.py` and `cloud/ingestion/epochs.py`.
FUNCTIONS: Mapping[str, Sequence[str]] = {
    "farmiq.spool.keeper": (
        "Keeper.acknowledge", "Keeper.go_back", "Keeper._delete", "Keeper._declare_dropped", "Keeper._declare_not_kept",
    ),
    "farmiq.spool.retention": ("plan",),
    "farmiq.spool.losses": ("LossJournal.declare", "LossJournal.acknowledge", "LossJournal.declare_again"),
    "farmiq.spool.ranges": ("merged", "without"),
    "farmiq.device.node_forwarder.acks": ("AckReader.read", "AckReader.is_of_the_living", "mark_to_believe"),
    "farmiq.device.node_forwarder.listener": ("_progress", "_go_back", "_settle_losses"),
    "farmiq.device.node_forwarder.lanes": ("Lanes.restart", "Lanes.acknowledged", "Lanes.went_back", "Lanes.next_replay"),
    "farmiq.device.node_agent.backlog": ("Backlog.stored", "Backlog.resume_after", "Backlog.offer"),
    "farmiq.edge.ingress_gateway.consumer": ("_Consumer.store",),
    "farmiq.edge.ingress_gateway.handlers": ("_commit", "_split"),
    "farmiq.edge.ingress_gateway.acknowledgements": ("Pending.note",),
    "farmiq.timeseries.admission": ("admit_batches", "declare_lost", "_take"),
    "farmiq.timeseries.coverage": ("normalise", "missing", "contiguous_to"),
    "farmiq.outbox.settle": ("settle", "_ack"),
    "farmiq.outbox.recovery": ("rescue",),
    "farmiq.edge.sync_forwarder.holding": ("Holding.renew", "Holding.check"),
    "farmiq.edge.sync_forwarder.cloud_epochs": ("KnownEpoch.after", "judge"),
    "farmiq.edge.sync_forwarder.settlement": ("Settlement.write_down", "Settlement.pause", "_hear"),
    "farmiq.edge.sync_forwarder.resending": ("resend_page",),
    "farmiq.edge.sync_forwarder.delivery": ("Delivery.deliver",),
    "farmiq.cloud.ingestion.handlers": ("ingest", "_publish_new", "_result"),
    "farmiq.cloud.ingestion.epochs": ("count_of", "is_known", "number_answer"),
    "farmiq.kit.bus_worker": ("_consume",),
    "simulation.outbox_tables": (
        "_claim", "_held", "_acked", "_expired", "_promote", "_heard", "_begin_epoch", "_resend",
    ),
    "simulation.cloud_tables": ("_may_be_lost", "_passed_on", "_know", "_went_back", "_answer", "_earlier"),
}  # fmt: skip

EQUIVALENT: Mapping[str, str] = {}
"""By name, each with the reason."""


def mutations(per_function: int | None = None) -> list[Mutation]:
    """All that could be found; or so many of each function, always the same ones."""
    made = [
        one for module in FUNCTIONS for one in mutations_of(module, FUNCTIONS[module]) if one.name not in EQUIVALENT
    ]
    if per_function is None:
        return made
    taken: Counter[tuple[str, str]] = Counter()
    chosen = set()
    for one in sorted(made, key=lambda one: blake2b(one.name.encode(), digest_size=8).digest()):
        if taken[one.module, one.function] < per_function:
            taken[one.module, one.function] += 1
            chosen.add(one.name)
    return [one for one in made if one.name in chosen]
