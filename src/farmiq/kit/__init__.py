"""How we run: settings, logging, errors, clock, ids, retry, metrics, life cycle, and thin clients of the real servers.

Nothing here knows what a sample or a session is. A service takes from here:

- `settings.load(MySettings, environ)`: a frozen struct read from the environment, or one error that names every wrong variable;
- `lifecycle.Lifetime`: start, run, drain, stop on SIGTERM, and the readiness checks behind `GET /api/ready`;
- `http_server.serve_http`: an HTTP port with health, readiness, metrics, API pages and the one error shape;
- `jobs`: work that comes round, once in an interval however many replicas there are;
- `sampling`: figures for the metrics that are looked up now and then, because a scrape must not read a table;
- `postgres`, `mqtt`, `amqp`, `s3`, `http_client`: clients that reconnect by themselves and never acknowledge on their own.

Import rule: `kit` and `contracts` know nothing of each other, and nothing of what is above them. Modules that need a web
stack or a database driver import it at the top, so a device that never imports them never needs it installed.
"""
