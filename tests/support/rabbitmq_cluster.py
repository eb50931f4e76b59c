"""Three nodes of RabbitMQ that are one cluster, each a process of its own that can be killed and brought back."""

import dataclasses
import re
import secrets
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from farmiq.stack.ports import free_port
from farmiq.stack.private_files import write_private
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from support.server_process import ServerProcess
from support.waiting import wait_for

START_SECONDS = 180.0


@dataclass(frozen=True)
class ClusterNode(RabbitMq):
    """`folders` are those of all nodes, this one among them: a node's name follows from its folder."""

    folders: tuple[Path, ...]

    def prepare(self) -> None:
        super().prepare()
        settings = self.folder / "rabbitmq.conf"
        lines = ["cluster_formation.peer_discovery_backend = classic_config"]
        for number, folder in enumerate(self.folders, start=1):
            name = dataclasses.replace(self, folder=folder).node_name
            lines.append(f"cluster_formation.classic_config.nodes.{number} = {name}")
        # A minute's patience is for nodes that boot on other machines.
        lines += [f"cluster_formation.randomized_startup_delay_range.{end} = 0" for end in ("min", "max")]
        write_private(settings, settings.read_text(encoding="utf-8") + "\n".join(lines) + "\n")
        # A queue of three has a leader as long as two of them are there; only one that is alone has to be told to choose itself.
        self._without_election.unlink()


class Cluster:
    def __init__(self, folder: Path, home: Path, nodes: int = 3) -> None:
        epmd = Epmd(free_port())
        folders = tuple(folder / f"node{number}" for number in range(nodes))
        password, cookie = secrets.token_urlsafe(16), secrets.token_hex(16)
        self._epmd = ServerProcess(epmd, home, folder / "epmd.log")
        self.nodes = [
            ServerProcess(
                ClusterNode(one, free_port(), free_port(), epmd.port, password, cookie, folders),
                home,
                one.with_suffix(".log"),
            )
            for one in folders
        ]

    @property
    def url(self) -> str:
        """Of all nodes, in their order."""
        first = self.server(0)
        ports = ",".join(f"127.0.0.1:{self.server(number).port}" for number in range(len(self.nodes)))
        return f"amqp://{first.user}:{quote(first.password, safe='')}@{ports}/%2F"

    def server(self, number: int) -> ClusterNode:
        server = self.nodes[number].server
        assert isinstance(server, ClusterNode)
        return server

    def start(self) -> None:
        """All at once, as after a power cut: each waits for the others."""
        self._epmd.start()
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(lambda node: node.start(START_SECONDS), self.nodes))
        self.wait_for_all()

    def stop(self) -> None:
        for node in self.nodes:
            if node.is_running:
                node.kill()
        self._epmd.stop()

    def wait_for_all(self) -> None:
        """Every node sees every other."""
        names = {self.server(number).node_name for number in range(len(self.nodes))}

        def is_whole() -> bool:
            seen = [self.ask(number, "rabbit_nodes:all_running()") for number in range(len(self.nodes))]
            return all(name in text for text in seen for name in names)

        wait_for(is_whole, START_SECONDS, "the cluster to be whole")

    def leader_of(self, queue: str) -> int | None:
        """The number of the node that leads the queue, as one that lives sees it."""
        asked = next(number for number, node in enumerate(self.nodes) if node.is_running)
        told = self.ask(asked, *_member(queue), "{ok, _, {_, Leader}} = ra:members({Name, node()})", "Leader")
        return next((number for number in range(len(self.nodes)) if self.server(number).node_name in told), None)

    def has_caught_up(self, number: int, queue: str) -> bool:
        """Whether a node's copy of the queue has everything that the leader had when it was asked."""
        leader = self.leader_of(queue)
        if leader is None:
            return False
        wanted, own = self._applied(leader, queue), self._applied(number, queue)
        return wanted is not None and own is not None and own >= wanted

    def _applied(self, number: int, queue: str) -> int | None:
        """How far a node's copy has come in the queue's history."""
        query = "{ok, {{Index, _}, _}, _} = ra:local_query({Name, node()}, fun(_) -> ok end)"
        found = re.search(r"\{ok, (\d+)\}", self.ask(number, *_member(queue), query, "Index"))
        return int(found[1]) if found else None

    def ask(self, number: int, *expressions: str) -> str:
        """What Erlang expressions say inside a node; empty when it does not answer."""
        server = self.server(number)
        finished = subprocess.run(
            ["erl_call", "-r", "-timeout", "30", "-n", server.node_name, "-e"],
            input=", ".join(expressions) + ".\n",
            env=server.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return finished.stdout if finished.returncode == 0 else ""


def _member(queue: str) -> tuple[str, str]:
    """Binds `Name` to what every node calls its copy of the queue."""
    return (
        f'{{ok, Q}} = rabbit_amqqueue:lookup({{resource, <<"/">>, queue, <<"{queue}">>}})',
        "{Name, _} = amqqueue:get_pid(Q)",
    )


@contextmanager
def rabbitmq_cluster(folder: Path, home: Path) -> Iterator[Cluster]:
    folder.mkdir(exist_ok=True)
    cluster = Cluster(folder, home)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
