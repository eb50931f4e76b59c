"""The schema of the cloud database: `farmiq migrate cloud`, or `migrate(url, "farmiq.cloud.migrations")`.

| Revision | Tables |
|---|---|
| `0001_telemetry` | `telemetry_raw` in monthly partitions, `telemetry_agg`, `streams`, `stream_losses`: columns as at the edge |
| `0002_ingestion` | `edges`, `ingest_dedupe` in partitions by event id |
| `0003_weighvision` | `weight_sessions`, `media_objects`, `inference_results`, keyed by tenant |
| `0004_queries` | the index of series, as at the edge |
| `0005_jobs` | `job_runs`, `retired_samples` |
| `0006_edge_tokens` | `edge_tokens`, `received_buckets` |
| `0008_viewers` | `viewer_tokens` |
| `0009_events` | `recorded_weights`, `captured_images`, `sync_batches`, `device_events` by month, `telemetry_agg_unsent` |
| `0013_identity` | `cloud_identity` |
| `0014_station_losses` | `station_losses`, filled from `device_events`, which are not kept for ever |
| `0015_bus_users` | `bus_users` |
| `0016_saved_letters` | `dead_letters` |
| `0017_drains` | `drains` |
| `0018_sample_keys` | the tenant in the keys of `telemetry_raw`, `telemetry_agg` and `streams` |
| `0019_dedupe_content` | `ingest_dedupe`: the digest of the content, and the edge that delivered it first |
| `0020_device_owners` | `device_owners`, `device_moves`, `session_owners`, `held_deliveries`, `edge_grants` |
| `0021_content` | `stream_content`: a digest of each block of samples |
| `0022_identity` | the secret of the cloud's event ids, in `cloud_identity`; the tenant in the key of places of pictures |
| `0023_row_security` | policies for reading, `reader_role()` and `read_as()` |
| `0024_erasures` | `tenant_erasures` |
| `0025_service_roles` | `writer_role()`, `write_as()`, `drop_partition()`; who may write what is in `writers.py` |
| `0026_edge_answers` | `edge_answers`, `edge_answer_marks` |
| `0028_believed_clock` | how far each job believes the clock, in `job_runs` |
| `0029_device_times` | the time on the device's clock, in `telemetry_raw` |
| `0030_discards` | who declared a loss and why, in `stream_losses`, `station_losses` and `dead_letter_actions` |
| `0031_audited` | `empty_bus_queues`; reading of `telemetry_agg_unsent`; an index of single readings in `telemetry_raw` |

Upgrades only, never back: a downgrade would drop columns and tables with accepted samples in them. What a revision got wrong,
the next one corrects; what is worse, a backup restores.
"""
