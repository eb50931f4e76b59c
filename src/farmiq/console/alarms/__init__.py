"""What stands on the page Alerts: alerts of the rules, which this console evaluates itself, beside those that the edge's
services raise about one thing each (a picture that did not come), and what the runbook says about them."""
