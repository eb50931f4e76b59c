"""What must hold, at any time and in the end. The judge: it looks at every tier from outside and believes none of them."""

from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from farmiq.contracts.ack import NOT_REGISTERED
from farmiq.spool import Cause
from farmiq.timeseries.content import BLOCK_BITS
from simulation.database import Tables
from simulation.measurement_tables import Stream

if TYPE_CHECKING:
    from simulation.node import Node
    from simulation.world import World

# What a disk that fails may cost, and nothing else.
_BY_THE_DISK = {Cause.DAMAGED, Cause.MISSING, Cause.SYNC_FAILED}


class Ledger:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.restores = 0
        self.cloud_restores = 0
        self.broken: list[str] = []

    def edge_was_restored(self) -> None:
        self.restores += 1

    def cloud_went_back(self) -> None:
        """From now on the edge may hold for delivered what the cloud has lost, until it has heard of it."""
        self.cloud_restores += 1

    # At any time

    def look(self) -> None:
        world = self._world
        edge = world.edge_database.committed_tables()
        cloud = world.cloud_database.committed_tables()
        if not self.cloud_restores or self._has_heard(edge):
            self._look_at_outbox(edge, world.dedupe_database.committed_tables())
        for node in world.nodes:
            self._look_at_node(node, edge, cloud)
        for node in world.nodes:
            self.broken += [f"{node.device_id}: {what}" for what in node.needless]
            node.needless.clear()
        for database in world.databases:
            self.broken += database.broken
            database.broken.clear()

    def _look_at_outbox(self, edge: Tables, dedupe: Tables) -> None:
        for row in edge["outbox"].values():
            if row.status == "acked" and (row.tenant_id, row.id) not in dedupe["dedupe"]:
                self._break(f"event {row.id} is acked at the edge, and the cloud does not have it")

    def _look_at_node(self, node: "Node", edge: Tables, cloud: Tables) -> None:
        """Whatever was accepted is held by the node, declared there, or known further on."""
        spool = node.spool
        if spool is None or node.forwarder is None or not node.forwarder.is_alive:
            return
        node.synced_seq = max(node.synced_seq, spool.synced_seq)
        if spool.acked.seq > spool.synced_seq:
            self._break(f"{node.device_id}: acknowledged {spool.acked.seq}, written {spool.synced_seq}")
        if spool.acked.epoch != str(edge["identity"]["epoch"]):
            return  # a restored database has forgotten, and the node will hear of it
        here = [*spool._catalogue.held(0), *spool.losses.ranges()]
        known = _filled(edge, spool.stream_id) | _filled(cloud, spool.stream_id)
        places = {value: seq for seq, value in spool.written.items()}
        for seq in sorted(places[value] for value in node.accepted if value in places):
            if seq not in known and not any(first <= seq <= last for first, last in here):
                self._break(f"{node.device_id}: sequence {seq} was accepted and is nowhere")
        marks = [span.upper - 1 for span in (edge["streams"].get(spool.stream_id) or Stream("", "", "", "")).received]
        if max(marks, default=0) > node.synced_seq:
            self._break(f"{node.device_id}: the edge holds {max(marks)}, synced was {node.synced_seq}")

    # In the end

    def is_at_rest(self) -> bool:
        world = self._world
        rows = world.edge_database.committed_tables()["outbox"].values()
        return (
            all(self._is_told(node) for node in world.nodes)
            and all(row.status in ("acked", "dlq") for row in rows)
            and world.bus.is_empty
            and self._has_heard(world.edge_database.committed_tables())
        )

    def _has_heard(self, edge: Tables) -> bool:
        """The edge knows the cloud's last answer, and has sent again what it was told to."""
        answers = self._world.dedupe_database.committed_tables()["answers"]
        said = {tenant_id: (row.epoch, row.answered, row.tokens[-1:]) for (tenant_id, _), row in answers.items()}
        known = {
            tenant_id: (row.epoch, row.heard_answer, (row.heard_token,))
            for tenant_id, row in edge["sync_state"].items()
            if row.epoch
        }
        return said == known and all(row.resend_to is None for row in edge["sync_state"].values())

    def _is_told(self, node: "Node") -> bool:
        spool, backlog = node.spool, node.backlog
        return (
            spool is not None
            and backlog is not None
            and backlog.is_told
            and spool.acked.seq == spool.synced_seq
            and not spool.losses.outstanding()
        )

    def settle_up(self) -> None:
        world = self._world
        edge, cloud = world.edge_database.committed_tables(), world.cloud_database.committed_tables()
        for row in edge["outbox"].values():
            if row.status == "dlq":
                self._break(f"event {row.id} ({row.event_type}) is a dead letter: {row.code}")
        for code, detail in edge["rejected"].values():
            if code != NOT_REGISTERED:  # that is put off, and stored in the end
                self._break(f"the edge refused a message: {code}, {detail}")
        if world.bus.dead:
            self._break(f"{len(world.bus.dead)} messages are dead letters of the bus")
        for name, tables in (("edge", edge), ("cloud", cloud)):
            days = sum(count for key, count in tables["agg"].items() if key[3] == "1d")
            if days != len(tables["raw"]):
                self._break(f"{name}: {len(tables['raw'])} samples are stored, its days count {days}")
        self._settle_content(edge, cloud)
        for node in world.nodes:
            self._settle_node(node, cloud)
        self._settle_strangers(cloud)

    def _settle_content(self, edge: Tables, cloud: Tables) -> None:
        """Blocks of which both tiers have the same sequences have the same digest."""
        for stream_id, block in {*edge["content"], *cloud["content"]}:
            held = [{seq for seq in _received(one, stream_id) if seq >> BLOCK_BITS == block} for one in (edge, cloud)]
            contents = [tables["content"].get((stream_id, block)) for tables in (edge, cloud)]
            for name, seqs, content in zip(("edge", "cloud"), held, contents, strict=True):
                if len(seqs) != (content.samples if content else 0):
                    self._break(
                        f"{name}: the digest of block {block} of {stream_id} is {content}, of {len(seqs)} samples"
                    )
            if held[0] == held[1] and contents[0] != contents[1]:
                self._break(
                    f"block {block} of {stream_id} has the digest {contents[0]} at the edge, {contents[1]} in the cloud"
                )

    def _settle_node(self, node: "Node", cloud: Tables) -> None:
        stored = Counter[float]()
        for (stream_id, seq), value in cloud["raw"].items():
            if stream_id in node.written:
                stored[value] += 1
                if node.written[stream_id].get(seq) != value:
                    self._break(
                        f"{node.device_id}: sequence {seq} is {value} in the cloud and something else on the node"
                    )
        lost = self._lost_values(node, cloud)
        for value in sorted(node.accepted):
            if stored[value] > 1:
                self._break(f"{node.device_id}: sample {value} is {stored[value]} times in the cloud")
            if not stored[value] and value not in lost:
                self._break(
                    f"{node.device_id}: sample {value} was accepted, and is neither in the cloud nor declared lost"
                )

    def _lost_values(self, node: "Node", cloud: Tables) -> set[float]:
        found: set[float] = set()
        for stream_id, written in node.written.items():
            stream = cloud["streams"].get(stream_id)
            spans = stream.lost if stream else ()
            records = [loss for loss in cloud["losses"].values() if loss.stream_id == stream_id]
            for seq in (seq for span in spans for seq in range(*span)):
                reasons = {loss.reason for loss in records if loss.first_seq <= seq <= loss.last_seq}
                if seq in written:
                    found.add(written[seq])
                    self._check_need(node, seq, written[seq], reasons)
            if stream and any(seq in _within(stream.received) for span in spans for seq in range(*span)):
                self._break(f"{node.device_id}: something is received and lost at once")
        return found

    def _check_need(self, node: "Node", seq: int, value: float, reasons: set[str]) -> None:
        """Naming a loss is no excuse for one that nothing forced."""
        if not reasons:
            self._break(f"{node.device_id}: sequence {seq} counts as lost, and no record says why")
        if value not in node.accepted or reasons & {Cause.CAP_REACHED, Cause.AGED_OUT}:
            return
        if Cause.NOT_KEPT in reasons and not self.restores:
            self._break(f"{node.device_id}: sequence {seq} was not kept, although no backup was restored")
        if reasons <= _BY_THE_DISK and not node.disk_has_failed:
            self._break(f"{node.device_id}: sequence {seq} was lost ({sorted(reasons)}) on a disk that never failed")

    def _settle_strangers(self, cloud: Tables) -> None:
        ours = {stream_id for node in self._world.nodes for stream_id in node.written}
        produced = {value for node in self._world.nodes for value in node.produced}
        for (stream_id, seq), value in cloud["raw"].items():
            if stream_id not in ours or value not in produced:
                self._break(f"the cloud holds {value} as {seq} of {stream_id}, which nobody measured")

    def _break(self, what: str) -> None:
        if what not in self.broken:
            self.broken.append(what)

    def figures(self) -> dict[str, Any]:
        cloud = self._world.cloud_database.committed_tables()
        return {
            "accepted": sum(len(node.accepted) for node in self._world.nodes),
            "in_cloud": len(cloud["raw"]),
            "declared_lost": sum(span.upper - span.lower for one in cloud["streams"].values() for span in one.lost),
        }


def _received(tables: Tables, stream_id: UUID) -> set[int]:
    stream = tables["streams"].get(stream_id)
    return _within(stream.received) if stream else set()


def _filled(tables: Tables, stream_id: UUID) -> set[int]:
    stream = tables["streams"].get(stream_id)
    return _within(stream.received) | _within(stream.lost) if stream else set()


def _within(spans: Any) -> set[int]:
    return {seq for span in spans for seq in range(span.lower, span.upper)}
