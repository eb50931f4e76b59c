"""What the pages about devices have in common: what the services tell of them, and what that comes to.

`answers` (what is told), `asking` (asking both tiers, either of which may be away), `cells` (device by hour: where everything
is, pure), `advice` (what to do about a cell, pure), `rows` (a device in one line, pure), `causes` (losses in words, pure).
"""
