"""Adds and removes a user of the broker in the folder that is named, until it is killed."""

import sys
from pathlib import Path

from farmiq.edge.ingress_gateway.broker_logins import MqttLogin
from farmiq.stack.mosquitto_users import change_logins

folder = Path(sys.argv[1])
always, sometimes = (MqttLogin(name, "$7$1$a$b", ("topic read x",)) for name in ("always", "sometimes"))
while True:
    change_logins(folder, put=[always, sometimes])
    change_logins(folder, drop=["sometimes"])
