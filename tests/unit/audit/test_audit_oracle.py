"""Whatever state the tiers are in: an audit that looks at everything balances only where somebody who sees every row agrees.

The oracle looks at rows, one after the other. What the audit is given is made of the same rows as the tiers would tell them:
ranges, counts, buckets and differences.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from farmiq.audit.balance import Balance, Reading, TenantReading, balance
from farmiq.audit.buckets import Bucket, Pair
from farmiq.audit.content import DeviceContent, Difference
from farmiq.audit.device_reading import DeviceReading, Situation
from farmiq.audit.records import READINGS, Record, RecordReading
from farmiq.audit.streams import NodeAccount, Packs
from farmiq.timeseries.accounts import DeviceAccount, StreamAccount
from farmiq.timeseries.coverage import Span, normalise
from farmiq.timeseries.rolled_up import WrongBucket
from farmiq.timeseries.stored_rows import StoredRows

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
STREAM = UUID(int=7)
HOUR = timedelta(hours=1)

FATES = ("stored", "outbox", "bus", "lost lately", "lost long ago", "dead", "forgotten by the edge", "changed")
LOSSES = ("told", "waiting", "never told", "only in the cloud")
TOLD = ("told", "waiting", "lost")

Tally = tuple[int, float, float, float]
Buckets = dict[tuple[str, datetime], Tally]


@dataclass(frozen=True)
class Row:
    """A sample of the stream, or a single reading, of one hour."""

    name: int
    hour: int
    value: float

    @property
    def at(self) -> datetime:
        return AT + self.hour * HOUR


@dataclass
class Farm:
    """Every row that there is, and where. Events on the bus are of `recent` ones, and not stored yet."""

    mode: str
    edge: dict[int, Row] = field(default_factory=dict)
    cloud: dict[int, Row] = field(default_factory=dict)
    edge_singles: dict[int, Row] = field(default_factory=dict)
    cloud_singles: dict[int, Row] = field(default_factory=dict)
    outbox: set[int] = field(default_factory=set)
    bus: set[int] = field(default_factory=set)
    recent: list[list[int]] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    outbox_singles: set[int] = field(default_factory=set)
    bus_singles: set[int] = field(default_factory=set)
    recent_singles: set[int] = field(default_factory=set)
    dead_singles: set[int] = field(default_factory=set)
    edge_lost: set[int] = field(default_factory=set)
    cloud_lost: set[int] = field(default_factory=set)
    are_losses_waiting: bool = False
    bus_messages: int = 0
    edge_buckets: Buckets = field(default_factory=dict)
    cloud_buckets: Buckets = field(default_factory=dict)
    announced: list[datetime] = field(default_factory=list)


def tallied(rows: Iterable[Row]) -> Buckets:
    values: dict[tuple[str, datetime], list[float]] = {}
    for row in rows:
        for window, at in (("1h", row.at), ("1d", AT.replace(hour=0))):
            values.setdefault((window, at), []).append(row.value)
    return {key: (len(them), sum(them), min(them), max(them)) for key, them in values.items()}


def all_of(*tables: Mapping[int, Row]) -> list[Row]:
    return [row for table in tables for row in table.values()]


def is_right(farm: Farm) -> bool:
    """The oracle. Every row is looked at."""
    return (
        not (farm.dead or farm.dead_singles)
        and are_rows_right(farm)
        and are_losses_right(farm)
        and are_buckets_right(farm)
    )


def are_rows_right(farm: Farm) -> bool:
    tables = [
        (farm.edge, farm.cloud, farm.outbox | farm.bus),
        (farm.edge_singles, farm.cloud_singles, farm.outbox_singles | farm.bus_singles),
    ]
    known = {*farm.edge, *farm.cloud, *farm.edge_lost, *farm.cloud_lost}
    if known != {*range(1, _end(farm) + 1)}:
        return False  # a sequence that nobody has
    return farm.mode == "aggregated" or all(
        all(cloud.get(name) == row or (name in on_the_way and name not in cloud) for name, row in edge.items())
        and all(edge.get(name) == row for name, row in cloud.items())
        for edge, cloud, on_the_way in tables
    )


def are_losses_right(farm: Farm) -> bool:
    return farm.edge_lost == farm.cloud_lost or (farm.are_losses_waiting and farm.cloud_lost < farm.edge_lost)


def are_buckets_right(farm: Farm) -> bool:
    """An hour that is not in the cloud as the edge has it has samples, or an aggregate, on the way."""
    if farm.edge_buckets != tallied(all_of(farm.edge, farm.edge_singles)):
        return False
    if farm.mode == "raw":
        return farm.cloud_buckets == tallied(all_of(farm.cloud, farm.cloud_singles))
    coming = {("1h", at) for at in farm.announced} | ({("1d", AT.replace(hour=0))} if farm.announced else set())
    for key, tally in farm.edge_buckets.items():
        there = farm.cloud_buckets.get(key)
        if there != tally and key not in coming and not (key in on_their_way(farm) and (there or (0,))[0] < tally[0]):
            return False
    return all(key in farm.edge_buckets for key in farm.cloud_buckets)


def on_their_way(farm: Farm) -> Buckets:
    """Of the samples and readings that are."""
    samples = [row for name, row in farm.edge.items() if name in farm.outbox | farm.bus]
    singles = [row for name, row in farm.edge_singles.items() if name in farm.outbox_singles | farm.bus_singles]
    return tallied([*samples, *singles])


@st.composite
def farms(draw: st.DrawFn) -> Farm:
    farm = Farm(draw(st.sampled_from(("raw", "aggregated", "both"))))
    seq = 1
    # Mostly whole farms: of many random ones every one would be wrong in something.
    fates = st.sampled_from(draw(st.sampled_from((FATES[:3], FATES[:4], FATES))))
    for fate, size in draw(st.lists(st.tuples(fates, st.integers(1, 3)), max_size=5)):
        names = list(range(seq, seq + size))
        seq += size
        _put(farm, fate, [Row(name, draw(st.integers(0, 2)), float(draw(st.integers(-3, 3)))) for name in names])
    for number, fate in enumerate(draw(st.lists(fates, max_size=4))):
        _put_single(farm, fate, Row(number, draw(st.integers(0, 2)), float(draw(st.integers(-3, 3)))))
    for _ in range(draw(st.integers(0, 2))):
        told = draw(st.sampled_from(LOSSES))
        farm.edge_lost |= {seq} if told != "only in the cloud" else set()
        farm.cloud_lost |= {seq} if told in ("told", "only in the cloud") else set()
        farm.are_losses_waiting |= told == "waiting"
        seq += 1
    farm.bus_messages = sum(bool(farm.bus & {*pack}) for pack in farm.recent) + len(farm.bus_singles)
    farm.edge_buckets = tallied(all_of(farm.edge, farm.edge_singles))
    farm.cloud_buckets = tallied(all_of(farm.cloud, farm.cloud_singles))
    if farm.mode != "raw":
        _tell_aggregates(farm, [draw(st.sampled_from(TOLD)) for _ in range(3)])
    for buckets in (farm.edge_buckets, farm.cloud_buckets):
        # Where an edge sends both, an hour of the cloud is no sum of its rows, and is judged when all of it is there.
        is_judged = buckets is farm.edge_buckets or farm.mode != "both" or not on_their_way(farm)
        if buckets and is_judged and draw(st.integers(0, 5)) == 0:
            _spoil(buckets, draw(st.sampled_from(sorted(buckets))), draw(st.integers(0, 3)))
    return farm


def _put(farm: Farm, fate: str, rows: Sequence[Row]) -> None:
    names = {row.name: row for row in rows}
    is_sent = farm.mode != "aggregated"
    if fate != "forgotten by the edge":
        farm.edge |= names
    if is_sent and fate in ("stored", "forgotten by the edge"):
        farm.cloud |= names
    if is_sent and fate == "changed":
        farm.cloud |= {name: Row(name, row.hour, row.value + 1) for name, row in names.items()}
    if is_sent and fate in ("outbox", "dead"):
        (farm.outbox if fate == "outbox" else farm.dead).update(names)
    if is_sent and fate in ("bus", "lost lately", "stored"):
        farm.recent.append(sorted(names))
    if is_sent and fate == "bus":
        farm.bus.update(names)


def _put_single(farm: Farm, fate: str, row: Row) -> None:
    is_sent = farm.mode != "aggregated"
    if fate != "forgotten by the edge":
        farm.edge_singles[row.name] = row
    if is_sent and fate in ("stored", "forgotten by the edge"):
        farm.cloud_singles[row.name] = row
    if is_sent and fate == "changed":
        farm.cloud_singles[row.name] = Row(row.name, row.hour, row.value + 1)
    chosen = {"outbox": farm.outbox_singles, "dead": farm.dead_singles, "bus": farm.bus_singles}.get(fate)
    if is_sent and chosen is not None:
        chosen.add(row.name)
    if is_sent and fate in ("bus", "lost lately", "stored"):
        farm.recent_singles.add(row.name)


def _tell_aggregates(farm: Farm, fates: Sequence[str]) -> None:
    """The cloud shows an hour as the edge has it, or as its own samples give it, whichever counts more; days likewise."""
    for number, fate in enumerate(fates):
        key = "1h", AT + number * HOUR
        if fate == "waiting" and key in farm.edge_buckets:
            farm.announced.append(key[1])
        if fate == "told" and key in farm.edge_buckets:
            farm.cloud_buckets[key] = max(farm.edge_buckets[key], farm.cloud_buckets.get(key, (0, 0.0, 0.0, 0.0)))
    hours = [tally for (window, _), tally in farm.cloud_buckets.items() if window == "1h"]
    if hours:
        counts, sums, lows, highs = zip(*hours, strict=True)
        farm.cloud_buckets["1d", AT.replace(hour=0)] = (sum(counts), sum(sums), min(lows), max(highs))


def _spoil(buckets: Buckets, key: tuple[str, datetime], part: int) -> None:
    tally = list(buckets[key])
    tally[part] += 1
    count, total, low, high = tally
    buckets[key] = (int(count), total, low, high)


def audited(farm: Farm) -> Balance:
    """What a deep audit makes of what the tiers would tell."""
    situation = Situation(
        tenant_id="demo", is_raw_sent=farm.mode != "aggregated", are_aggregates_sent=farm.mode != "raw"
    )
    device = DeviceReading(
        device_id="node-1",
        edge=_account(farm.edge, farm.edge_singles, farm.edge_lost, farm.edge_buckets, wrong=True),
        cloud=_account(farm.cloud, farm.cloud_singles, farm.cloud_lost, farm.cloud_buckets, wrong=farm.mode == "raw"),
        nodes={STREAM: NodeAccount(_end(farm), _end(farm))},
        packs={
            STREAM: Packs(
                _spans(farm.outbox),
                _spans(farm.dead),
                [(one[0], one[-1] + 1) for one in farm.recent],
                farm.are_losses_waiting,
            )
        },
        single_waiting=len(farm.outbox_singles),
        single_dead=len(farm.dead_singles),
        readings=_readings(farm) if farm.mode != "aggregated" else None,
        buckets=_pairs(farm),
        announced=farm.announced,
        content=_content(farm),
    )
    tenant = TenantReading(situation=situation, devices=[device], records=[_losses(farm)])
    return balance(Reading(asked_at=AT, since=AT, until=AT, tenants=[tenant], bus_messages=farm.bus_messages))


def _end(farm: Farm) -> int:
    return max([*farm.edge, *farm.cloud, *farm.edge_lost, *farm.cloud_lost], default=0)


def _spans(names: Iterable[int]) -> list[Span]:
    return normalise((name, name + 1) for name in sorted(names))


def _account(
    rows: Mapping[int, Row], singles: Mapping[int, Row], lost: set[int], buckets: Buckets, *, wrong: bool
) -> DeviceAccount:
    samples = sum(tally[0] for (window, _), tally in buckets.items() if window == "1d")
    known = StoredRows(len(rows), [], [], 0)
    right = tallied(all_of(rows, singles))
    differing = [
        WrongBucket(key[0], "m", "", "", key[1], None, None)
        for key in sorted({*right, *buckets})
        if right.get(key) != buckets.get(key)
    ]
    stream = StreamAccount(STREAM, _spans(rows), _spans(lost), AT, AT, known, _spans(lost))
    return DeviceAccount("node-1", samples, samples, [stream], [], 0, len(singles), 0, differing if wrong else None)


def _readings(farm: Farm) -> RecordReading:
    here, there = (
        {name: _record(row) for name, row in table.items()} for table in (farm.edge_singles, farm.cloud_singles)
    )
    return RecordReading(
        READINGS,
        differing=[(one, there[name]) for name, one in here.items() if name in there and there[name] != one],
        missing=[one for name, one in here.items() if name not in there],
        surplus=[one for name, one in there.items() if name not in here],
        waiting=frozenset(UUID(int=name) for name in farm.outbox_singles | farm.dead_singles),
        recent=frozenset(UUID(int=name) for name in farm.recent_singles),
    )


def _record(row: Row) -> Record:
    return Record(UUID(int=row.name), "node-1", row.at, str(row.value))


def _losses(farm: Farm) -> RecordReading:
    kind = RecordReading(READINGS).kind
    missing = [] if farm.are_losses_waiting else sorted(farm.edge_lost - farm.cloud_lost)
    return RecordReading(
        kind,
        missing=[Record(UUID(int=1000 + seq), "node-1", AT, "loss") for seq in missing],
        surplus=[
            Record(UUID(int=1000 + seq), "node-1", AT, "loss") for seq in sorted(farm.cloud_lost - farm.edge_lost)
        ],
    )


def _pairs(farm: Farm) -> list[Pair]:
    def bucket(key: tuple[str, datetime], tally: Tally | None) -> Bucket | None:
        return None if tally is None else Bucket("m", "", "", key[0], key[1], *tally)

    return [
        Pair(bucket(key, farm.edge_buckets.get(key)), bucket(key, farm.cloud_buckets.get(key)))
        for key in sorted({*farm.edge_buckets, *farm.cloud_buckets})
        if farm.edge_buckets.get(key) != farm.cloud_buckets.get(key)
    ]


def _content(farm: Farm) -> DeviceContent:
    differing = [name for name in {*farm.edge} & {*farm.cloud} if farm.edge[name] != farm.cloud[name]]
    return DeviceContent(differences=[Difference(STREAM, _spans(differing))] if differing else [])


@settings(max_examples=500, deadline=None)
@given(farms())
def test_it_balances_only_where_every_row_is_right(farm: Farm) -> None:
    """promise-cloud 4."""
    verdict = audited(farm)
    parts = (verdict.stored, verdict.lost, verdict.in_flight, verdict.dead_lettered, verdict.unexplained)
    assert verdict.captured == sum(parts)
    if verdict.balanced:
        assert is_right(farm)


@settings(max_examples=200, deadline=None)
@given(farms())
def test_what_is_right_balances(farm: Farm) -> None:
    if is_right(farm):
        assert audited(farm).findings == []


def test_the_random_farms_are_right_and_wrong_in_all_modes() -> None:
    """Else the two above would prove little."""
    seen: Counter[tuple[str, bool]] = Counter()

    @settings(max_examples=400, deadline=None, derandomize=True, database=None)
    @given(farms())
    def count(farm: Farm) -> None:
        seen[farm.mode, is_right(farm)] += bool(farm.edge)

    count()
    assert min(seen[mode, verdict] for mode in ("raw", "aggregated", "both") for verdict in (True, False)) > 10
