"""Weigh sessions, put together from what the edge and the cloud each know of them.

`answers` (what the services say), `asking` (the requests), `cards` (one session in a list), `whereabouts` (where each picture
is), `story` (what happened when, and how well scale and camera agree), `picture_files` (the bytes). All but `asking` and
`picture_files` are pure. The page is `pages/sessions.py`.
"""
