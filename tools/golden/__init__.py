"""Makes a golden farm: a whole farm of one release, stopped in the middle of its work, as files in `tests/golden/VERSION`.

Runs in the environment of that release and uses what the release shows to the outside: its commands, settings, topics and routes,
its databases and its bus. Of its inner parts it starts the supervisor, with some of the services, and the generators of
`farmiq torture`. Nothing here imports `farmiq`.

Start reading at `story`, which is the order of things. `farm` starts, stops and cuts the farm, `devices` are those that it
is fed by, `kinds` lists what has to be there at the end, `capture` writes it down, `responses` records what services answer."""
