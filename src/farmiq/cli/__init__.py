"""The `farmiq` command: one file a command, and nothing here that another program could need.

- In: arguments, the environment, the files of a stack's home, the HTTP ports of the services.
- Out: lines on stdout, errors on stderr as *what happened / why / what to do*, and one of the exit codes of `exits`.
- Promise: the first byte comes early. A command module imports at its top only what parsing the arguments needs; the rest is
  imported inside the function that uses it, after something has been printed.
- When a neighbour is away: `status` shows which hop does not answer and why. Only `up` waits.

Files: `app` puts the commands together, `__main__` turns errors into exit codes, `explain` renders them, `terminal` knows
whether a person is looking, `hops` asks each hop of a sample's path for its counts, `checks` are what `doctor` looks at. `flow`
asks all hops at one moment for `watch` and `demo`, `flow_sums` adds up what they say, `flow_picture` draws it.
"""
