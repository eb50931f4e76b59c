"""The spool: an append-only log of samples on a node's own disk.

What it promises: a sample at or below `Spool.safe_seq` is, after any crash, readable or named in the loss journal, until
the edge has acknowledged it. Sequences are never used twice for two samples that somebody was told about.

Limits in numbers
-----------------
    frame                40 bytes, always; one sample each
    sequence             1 .. 2^62 - 1, no gaps within a segment, one more for every sample in the life of the folder
    wall time            microseconds since 1970, signed 64 bits
    monotonic time       microseconds since boot, 48 bits: 8.9 years of uptime
    channel              0 .. 65,535; the channel table takes at most 32,696 bytes of JSON
    header region        512 bytes .. 64 KiB, a power of two
    segment              4 KiB or more; 128 MiB or 1 hour by default, whichever comes first
    spool                at least 4 segments; by default min(max(1 GiB, 5 % of the file system), 25 GiB)
    age                  no cap by default; `Limits.max_spool_seconds`, to the segment
    loss record          128 bytes, in a journal that is reserved ahead in steps of 64 KiB and is exempt from the cap

Files
-----
    00000000000000000001-00000000000000003600.seg   a closed segment and the sequences it holds; never changed again
    00000000000000003601.open                       the open segment; there is one, or none before the first sample
    stream     the stream's UUID, in text, see below lock     held by the one writer; names its process id
    synced     how far syncs have reached            acked    how far the edge has acknowledged, and which edge
    losses     the loss journal                      quarantine/   bytes that could not be read, for a person to look at
    set-aside/ what another device had in this folder: neither read, sent nor deleted here

A segment is its header region followed by frames, back to back. While it is open, reserved space stands behind the last
frame: the logical end is before the physical end, and zeros are not a frame. All numbers are little-endian.

    header, twice: at 0 and at half of the region       frame n, at region + 40 * n
    offset size                                         offset size
         0    8  magic "FIQSPOOL"                            0    2  length, 40
         8    2  format version, 1                           2    1  kind, 1 = sample
        10    2  frame length, 40                            3    1  quality of the wall time
        12    4  length of the region                        4    8  sequence = first sequence + n
        16   16  stream UUID                                12    8  wall time
        32   16  boot UUID                                  20    2  channel
        48    8  first sequence                             22    6  monotonic time
        56    8  created at, microseconds                   28    8  value, IEEE 754 double
        64    4  length of the channel table                36    4  CRC-32 of bytes 0 to 35
        68    4  CRC-32 of bytes 0 to 67 and the table
        72    .  channel table: JSON [{"metric", "unit", "sensor"}]

Frozen on disk: everything drawn above, the file names, the slots of `losses`, `synced` and `acked`. Moving a field,
widening the frame, numbering with gaps or renaming a closed segment makes stored data unreadable. A new shape takes a new
format version; magic, version and the header's CRC keep their places in every version.

Streams
-------
The folder numbers its samples once. Towards the edge they have the number in their stream: the same one, as long as there is one
stream. A second line of `stream` has the device that writes here, a fingerprint of its machine, and the parts: from which
sequence on which stream counts, and from where.

The disk may have been set back to an image, and the edge then holds other samples under the sequences that are written
next. `first_unlike` compares what the edge says with what is here, and `begin_stream` gives what it can't have a stream of
its own. That is one replaced file: a process that is killed before it or after it leaves no third state, and nothing is
copied. In another machine the folder goes on under a new stream too, because a copy of it may go on in the first one. In the
hands of another device, what it holds belongs to somebody else: it is set aside as a whole.

Writing
-------
`append_many` packs a group of samples and writes it with one call at the logical end. `sync` is one `fdatasync` for all
that was written since the last one; then, and under the policy `os` before that, the producer may be told. Space is
reserved 4 MiB ahead, so a full disk shows before a frame is begun. A segment that is full, an hour old, or of another
boot or channel table is synced, cut to its logical end, renamed, and the folder is synced. When the disk refuses a write
or a sync, the segment ends at its last synced frame, the writer raises `SyncFailed`, and a new segment begins: a second
`fdatasync` may report success over pages that the kernel has dropped.

A start reads the open segment only. It walks to the last good frame, cuts off a torn tail and goes on there. A bad frame
with a good one behind it, or frames missing below the synced mark, is damage: it is declared lost, the bytes go to the
quarantine, the segment is closed, and a new one begins above every sequence ever used.

Before a start believes anything it syncs it: a killed process leaves names, marks and records that only memory holds, and
a power cut after that would take them back. A sector is taken to be stored whole or not at all; a slot lies within one.

Reading
-------
`Reader.read` returns runs of frames of one segment, in capture order, up to the last sync. The place of a frame follows
from its sequence, so a read is one `pread` anywhere in the spool. Damage found on the way is declared and passed over.

Deleting
--------
Only whole closed segments, oldest first. Acknowledged ones stay up to a budget, because an edge restored from an old
backup asks for them again; then they go. Unacknowledged ones go only when the cap leaves no choice, each with a loss
record. The reason is synced first, then the file is unlinked, then the folder is synced. Usage is counted from the files
at every start.

When the journal is full and the disk has no room for more of it, a loss joins the record that it follows, under a new id.

Where there is an age cap, a closed segment goes when it has been held for longer, acknowledged or not, and in the second
case with a loss record `aged_out`. Somebody has to call `Spool.trim` now and then for that. Age is running time of the
node: in the life of a process its monotonic clock since the segment was closed; across a start the monotonic times that
the frames carry. A wall clock is never asked, so one that jumps by years in either direction makes nothing old or young.
Time without power is not counted: a node that was off for a season still delivers what it held. The open segment and the
newest frames never go by age.

Looking from outside
--------------------
`inspection.inspect` shows a folder, `inspection.read` its frames and `verification.verify` what is wrong with them. They
take no lock, write nothing, and may be used while the one writer works: what they read, in that order, is the synced mark,
the open segments, the closed ones, the acknowledgement and the losses. So whatever goes meanwhile has its reason on disk
when they look for it. `farmiq spool ls | cat | verify | export` is made of these.
"""

from farmiq.spool.comparison import HeldBoot
from farmiq.spool.errors import (
    AckRefused,
    BadChannels,
    BadSample,
    NotASpool,
    NotBegun,
    SpoolError,
    SpoolFull,
    SpoolLocked,
    SyncFailed,
    UnknownFormat,
)
from farmiq.spool.format import FRAME_BYTES, Channel, Frame, Header, Sample
from farmiq.spool.losses import Cause, Loss
from farmiq.spool.marks import Acked
from farmiq.spool.ranges import Range
from farmiq.spool.reader import Reader, Run
from farmiq.spool.retention import Limits, default_max_spool_bytes, fitting_segment_bytes
from farmiq.spool.spool import Spool, Usage
from farmiq.spool.streams import Owner
from farmiq.spool.writer import Capture, SyncPolicy

__all__ = [
    "FRAME_BYTES",
    "AckRefused",
    "Acked",
    "BadChannels",
    "BadSample",
    "Capture",
    "Cause",
    "Channel",
    "Frame",
    "Header",
    "HeldBoot",
    "Limits",
    "Loss",
    "NotASpool",
    "NotBegun",
    "Owner",
    "Range",
    "Reader",
    "Run",
    "Sample",
    "Spool",
    "SpoolError",
    "SpoolFull",
    "SpoolLocked",
    "SyncFailed",
    "SyncPolicy",
    "UnknownFormat",
    "Usage",
    "default_max_spool_bytes",
    "fitting_segment_bytes",
]
