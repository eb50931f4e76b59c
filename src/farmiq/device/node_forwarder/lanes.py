"""What to send next. Two lanes: live samples as they come, and behind them everything that the edge has not acknowledged."""

from collections.abc import Sequence

Range = tuple[int, int]


class Lanes:
    """Sequences only, no I/O. `*_after` is the last one sent in a lane.

    `turn` counts how often the replay has started over: what was read in an earlier turn must not move this one forward.
    """

    def __init__(self, synced_seq: int, acked_seq: int) -> None:
        self.live_after = synced_seq
        self.replay_after = acked_seq
        self.replay_end = synced_seq
        self.published_seq = acked_seq
        self.turn = 0
        self._skipped: list[Range] = []

    def restart(self, synced_seq: int, acked_seq: int) -> None:
        """A new connection, or a silence that lasted too long: everything that is not acknowledged goes out again."""
        self.turn += 1
        self.live_after = max(self.live_after, synced_seq)
        self.replay_after = acked_seq
        self.replay_end = self.live_after

    def sent_live(self, last_seq: int) -> None:
        self.live_after = max(self.live_after, last_seq)
        self.published_seq = max(self.published_seq, last_seq)

    def sent_replay(self, last_seq: int) -> None:
        self.pass_over(last_seq)
        self.published_seq = max(self.published_seq, last_seq)

    def pass_over(self, last_seq: int) -> None:
        """Nothing up to here can be read any more: it travels as a loss."""
        self.replay_after = max(self.replay_after, last_seq)

    def acknowledged(self, acked_seq: int, received: Sequence[Range]) -> None:
        """The edge has these: the replay need not send them."""
        self.replay_after = max(self.replay_after, acked_seq)
        self._skipped = sorted(received)

    def went_back(self, acked_seq: int, received: Sequence[Range]) -> None:
        """The edge has forgotten. The replay starts again from what it still knows."""
        self.turn += 1
        self.replay_after = acked_seq
        self.replay_end = self.live_after
        self._skipped = sorted(received)

    @property
    def has_hole(self) -> bool:
        """The edge names something above what it lacks: a message in between has not reached it."""
        return bool(self._skipped)

    @property
    def is_replaying(self) -> bool:
        return self.next_replay() is not None

    def next_replay(self) -> Range | None:
        """After which sequence to read, and up to which: the next stretch that the edge has not named as received."""
        after, end = self.replay_after, self.replay_end
        for first, last in self._skipped:
            if first <= after + 1 <= last:
                after = last
            elif after + 1 < first:
                end = min(end, first - 1)
                break
        return (after, end) if after < end else None
