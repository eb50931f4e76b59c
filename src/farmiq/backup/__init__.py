"""Backups of a tier, and its way back from one.

In:       a tier's database and its bucket, while its services go on working (`create`); a folder (`verify`, `restore`).
Out:      a folder for each tier: `database/` (pg_dump's directory format), `objects/` and `objects.jsonl` (the pictures), and,
          last of all, `manifest.json`, which names every file with its checksum and says what the database held.
Promises: without a manifest it is no backup, so one that was cut is never taken for one; it goes on where it was cut. A backup
          is read to its last byte before anything is replaced. A restore that was cut is repeated by the same command, and no
          service starts on a database that is half restored. A restored edge has a new epoch, so that devices send again what
          it lacks; no secret is in a manifest or on a command line.
Away:     a database or an object store that does not answer ends the command with its reason. Nothing is half believed.

The files, in the order of a backup's life: `tiers` (a tier's places), `frozen` (one moment of a database), `pg_tools`,
`object_copies`, `manifest`, `create`; `verify`, `scratch`; `restore`, `object_returns`, `reconciling`, `replaced` (what is not in
the backup), `lives` (what begins then); `troubles`. The drill: `drill`, `drill_from`, `drill_farm`, `drill_ledger`,
`drill_report`; `servers` is for both.
"""
