"""The schema of the edge database: `farmiq migrate edge`, or `migrate(url, "farmiq.edge.migrations")`.

| Revision | Tables |
|---|---|
| `0001_telemetry` | `telemetry_raw` in monthly partitions, `telemetry_agg`, `streams`, `stream_losses`, liveness |
| `0002_outbox` | `sync_outbox` with its rules, `sync_state` |
| `0003_ingress` | `devices`, `ingress_dedupe`, `ingress_rejected`, `edge_identity` |
| `0004_weighvision` | `weight_sessions`, `media_objects`, `inference_results` |
| `0005_alerts` | `ops_alerts` |
| `0006_queries` | the index of series, goodbyes in `device_liveness`, `telemetry_agg_unsent` |
| `0008_jobs` | `job_runs`, `retired_samples`, indexes for retention |
| `0010_media` | uploads from presign to verification in `media_objects`, `media_presign_pace` |
| `0017_station_losses` | `station_losses` |
| `0019_schedules` | whether a device has a schedule, in `device_liveness` |
| `0020_sample_keys` | the tenant in the keys of `telemetry_raw`, `telemetry_agg` and `streams` |
| `0021_broker_refusals` | `canary_receipts`, `broker_refusals` |
| `0022_registrations` | `station_id` of `devices`; in `sync_outbox` an event for each device that was registered before |
| `0023_content` | `stream_content`: a digest of each block of samples |
| `0024_identity` | the tenant in the keys of events, sessions, pictures and results; the secret of event ids in `edge_identity` |
| `0025_picture_bytes` | `media_bytes_of_day` |
| `0026_sent_pictures` | what of a picture leaves the edge, in `media_objects` and `media_transfers` |
| `0027_row_security` | policies for reading, `reader_role()` and `read_as()` |
| `0028_erasures` | `tenant_erasures` |
| `0029_service_roles` | `writer_role()`, `write_as()`, `drop_partition()`; who may write what is in `writers.py` |
| `0030_cloud_answers` | the number of the cloud's answer, in `sync_outbox`, `sync_state` and `media_transfers` |
| `0031_streams_of_boots` | `stream_boots`; the PostgreSQL server that was seen last, in `edge_identity` |
| `0033_believed_clock` | how far each job believes the clock, in `job_runs` |
| `0034_device_times` | the time on the device's clock, in `telemetry_raw` |
| `0035_lost_pictures` | when a picture of `media_objects` is declared lost, and whether it was adopted from the object store |
| `0036_audited` | reading of `telemetry_agg_unsent`; an index of single readings in `telemetry_raw` |

Upgrades only, never back: a downgrade would drop columns and tables with accepted samples in them, and the promise leaves
room for stored and declared lost alone. What a revision got wrong, the next one corrects; what is worse, a backup restores.

A farm updates months late, so a change comes in three releases: a revision that old and new code both live with, then the
code, then the clean-up. The cloud's revisions are a history of their own, also where the tables are alike: the text of a
released revision stays as it is, and one tier must be able to change without the other.
"""
