"""The web page for people: is anything missing, since when, where is it now, and what do I do.

In:       people with a browser (login, roles viewer < operator < admin), on port 8080.
Out:      requests to the HTTP APIs of the services, with their admin tokens. It opens no database of theirs.
Promises: every action is in the audit trail before it is carried out. A tenant that a person may not see is not asked for.
          Nothing is loaded from another host. What devices send is shown as text, never run.
Away:     a service that does not answer is shown as away, with since when; the rest of the page goes on.

Read in this order: `main` (wiring), `desk` (what a page is given), `pulse` (the farm's state, asked once for all who look),
`pages/` (one file a page), `neighbours` (the services), `store` (people, their sessions, the audit trail), `guarding`
(login, roles, CSRF).
"""
