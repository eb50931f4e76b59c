"""What `farmiq spool verify` tells: each finding as it is found, and the verdict in the exit code."""

from typing import Any

from farmiq.cli.errors import CommandFailed
from farmiq.cli.spool_progress import showing_bytes
from farmiq.cli.spool_times import samples
from farmiq.cli.terminal import say, say_json
from farmiq.spool.inspection import SpoolView
from farmiq.spool.verification import Finding, Kind, Standing, verify

MEANINGS = {
    Standing.ACKNOWLEDGED: "the edge has them",
    Standing.DECLARED: "a loss record names them",
    Standing.UNDECLARED: "they were promised, and no loss record names them",
    Standing.UNPROMISED: "normal: nobody was told that it was kept",
}


class PromiseBroken(CommandFailed):
    """Samples that node-forwarder has acknowledged to node-agent can neither be read nor are they declared lost."""

    code = "promise_broken"


def judge(view: SpoolView, *, as_json: bool) -> None:
    found: list[Finding] = []
    with showing_bytes("verified") as on_bytes:
        for finding in verify(view, on_bytes):
            found.append(finding)
            if not as_json:
                say(line(finding))
    read_count = sum(segment.samples for segment in view.segments)
    broken = sum(finding.count for finding in found if finding.is_breach)
    if as_json:
        say_json(as_data(view, found, read_count, broken))
    else:
        gap = "\n" if found else ""
        say(f"{gap}{samples(read_count)} in {len(view.segments)} segments were read.")
    if broken:
        raise broken_promise(view, broken)
    if not as_json:
        say("Every sample that was promised is readable, acknowledged or declared lost.")


def line(finding: Finding) -> str:
    mark = "✗" if finding.is_breach else "·" if finding.kind is Kind.TORN_TAIL else "!"
    span = f"{finding.first_seq}-{finding.last_seq}" if finding.count > 1 else f"{finding.first_seq}"
    text = "; ".join(part for part in (finding.detail, MEANINGS[finding.standing]) if part)
    return f"{mark} {finding.kind:<9}  {span:<24}  {finding.segment or 'in no segment'}\n             {text}"


def as_data(view: SpoolView, found: list[Finding], read_count: int, broken: int) -> dict[str, Any]:
    return {
        "folder": str(view.folder),
        "is_sound": broken == 0,
        "segments": len(view.segments),
        "samples": read_count,
        "undeclared_samples": broken,
        "findings": [
            {
                "kind": str(finding.kind),
                "standing": str(finding.standing),
                "segment": finding.segment,
                "first_seq": finding.first_seq,
                "last_seq": finding.last_seq,
                "count": finding.count,
                "detail": finding.detail,
            }
            for finding in found
        ],
    }


def broken_promise(view: SpoolView, broken: int) -> PromiseBroken:
    start = f"restart node-forwarder, which is process {view.writer_pid}" if view.writer_pid else "start node-forwarder"
    return PromiseBroken(
        f"neither readable nor acknowledged nor declared lost: {samples(broken)}",
        why="Something other than node-forwarder changed or removed files of the spool, or the disk is failing.",
        fix=f"{start}: it declares what is missing when it starts and what is damaged when it reads it, and tells the edge",
    )
