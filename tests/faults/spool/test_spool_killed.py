import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from farmiq.spool import Limits, Spool, SyncPolicy
from unit.spool.spool_world import BOOT, CHANNELS, kept, lost, samples

WRITER = Path(__file__).with_name("append_for_ever.py")
TESTS = Path(__file__).parents[2]


def acknowledged_before_the_kill(folder: Path, policy: SyncPolicy, lines: int) -> int:
    """Let the writer acknowledge `lines` groups, kill it while it writes on, and give the last one it told of."""
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), policy], stdout=subprocess.PIPE, env=environ, text=True
    ) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        whole_lines = "".join([*told, writer.stdout.read()]).rpartition("\n")[0]
        return int(whole_lines.split()[-1])


@pytest.mark.parametrize("policy", list(SyncPolicy))
def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path, policy: SyncPolicy) -> None:
    rng = random.Random(policy)
    for _ in range(3):
        acknowledged = acknowledged_before_the_kill(tmp_path, policy, rng.randint(1, 40))
        spool = Spool(tmp_path, Limits())
        readable = kept(spool)
        assert len(readable) >= acknowledged
        assert list(readable) == list(range(1, len(readable) + 1))
        assert [frame.value for frame in readable.values()] == [float(seq) for seq in readable]
        assert lost(spool) == set()
        spool.begin(BOOT, CHANNELS)
        assert spool.append_many(samples(2, len(readable) + 1)) == (len(readable) + 1, len(readable) + 2)
        spool.close()
