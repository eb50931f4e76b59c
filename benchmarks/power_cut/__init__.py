"""A power cut at chosen moments, for any store, without changing it and without pulling a plug.

A writer process hands numbered samples to a store and notes, outside of the store's folder, what it has given and what the
store has acknowledged. `strace` writes down each of its system calls. From that log the disk is rebuilt as it was at any
moment, as often as wanted: `trace.py` reads the log, `disk.py` knows what a sync has made durable, `lives.py` runs writers and
readers, `verdict.py` compares. The store itself then opens what is left, in a process of its own.

What survives a cut:

- Of a file: what had been written before its last `fsync`, `fdatasync` or synchronous write began, once that had returned.
- Of its name: a sync of the folder stores creations, renames and removals in it. A sync of the file stores its own name and those
  of the folders above it too, as ext4, XFS and btrfs do although POSIX does not ask for it. A file that is renamed over another
  one takes what it holds with it, as on ext4 and btrfs.
- Whatever was there when writing began: the store was opened long ago.
- Of everything else, one of three things (`Ending`). All of it: only the process dies. Nothing of it. Or some of it: what had
  been changed up to a moment drawn between the beginning and the cut, which the kernel had written back by itself; after that
  each page of 4,096 bytes in any of its states, the size likewise, and of the names the first few changes.

What it does not show: a disk that lies about a sync or tears a page; a disk that is full; what happens after half a minute, when
the kernel would have written back whatever nobody synced (a life is shorter than that, so all of it is at stake); and pages that
a store changes through a mapping of its file, which is refused as not judged. SQLite maps its `-shm` file, which it builds anew
after a crash; that file alone is let through.
"""
