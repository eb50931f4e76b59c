"""Adds and removes a user of the broker in the folder that is named, until it is killed."""

import sys
from pathlib import Path

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, may_read
from farmiq.stack.mosquitto_users import change_files

folder = Path(sys.argv[1])
always, sometimes = (MqttLogin(name, "$7$1$a$b", may_read("x")) for name in ("always", "sometimes"))
while True:
    change_files(folder, put=[always, sometimes])
    change_files(folder, drop=["sometimes"])
