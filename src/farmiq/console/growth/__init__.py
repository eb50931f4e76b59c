"""What each day came to: weights, gain, how well camera and scale agree, climate, and whether the day is all there.

`answers` (what cloud-analytics-service says), `figures` (which of it each chart and table shows, pure). The page is
`pages/growth.py`.
"""
