"""`edge-vision-inference`: weight from pictures, with an ONNX model.

In:       one job for each stored picture, through `intake` and inside the transaction of `edge-media-store`; operators, who have
          pictures looked at again or put another model to work, on port 5107; the picture's bytes from the object store.
Out:      `inference_results`; in the same transaction the `inference.completed` event in `sync_outbox`, the word to the weigh
          session, and the end of the job.
Promises: one result for each picture and model version, whoever dies and however often it is repeated. What a model says is
          told as it is, a low confidence too. A picture that cannot be looked at is given up after INFERENCE_ATTEMPTS_MAX, with
          the reason, and costs no other picture its turn. A new model is tried before it replaces the one at work.
Away:     object store or model away: jobs wait, and it costs them no attempt. PostgreSQL away: nothing is looked at, nothing is
          lost. This service away: pictures are stored all the same, and weigh sessions are told to the cloud without a result.

The files, in the order of a picture's way: `intake` (what other services may call), `job` (the row), `worker` (claims),
`looking` (bytes, checksum, engine), `engine` and `engine_child` (the process that decodes and runs the model; `messages` between
them, `preparation` of pixels, `seen`: what came out), `verdicts` (pure: again or given up), `handlers` (the transactions);
models: `card` (pure), `sources` (package, file or object store), `at_work` (the one, and its successor); beside them `store` and
`model_store` (SQL), `api`, `model_routes`, `cleanup` and `jobs`, `counters`, `settings`, `main`.
"""
