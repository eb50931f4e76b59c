#!/bin/sh
# Sets this checkout up so that it can run: Debian packages, a virtual environment, the locked Python packages, farmiq itself.
#
#   tools/bootstrap.sh up      what `make up` needs
#   tools/bootstrap.sh test    what `make test` needs (a superset)
#   tools/bootstrap.sh bench   what `make bench` needs: the same, and the peers in an environment of their own
#   tools/bootstrap.sh train   what `make train` needs: an environment of its own, and no servers
#
# Does nothing, quickly, when everything is there. Needs the internet only when something is missing.
set -eu

PURPOSE=${1:-}
VENV=.venv
case $PURPOSE in
    up) LOCK=requirements.lock ;;
    test | bench) LOCK=requirements-dev.lock ;;
    train)
        VENV=.venv-training
        LOCK=training/requirements.lock
        ;;
    *)
        echo "usage: tools/bootstrap.sh up|test|bench|train" >&2
        exit 64
        ;;
esac

cd "$(dirname "$0")/.."
CHECKOUT=$(pwd -P)
# Debian keeps mosquitto in /usr/sbin, which is not on the PATH of a normal user.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

say() {
    echo "farmiq: $*"
}

fail() {
    for line in "$@"; do
        echo "farmiq: $line" >&2
    done
    exit 1
}

# --- Debian packages -------------------------------------------------------------------------------------------------------

missing_programs() {
    [ "$PURPOSE" != train ] || return 0
    # A server that the environment replaces is not needed to run the farm. Tests and benchmarks always bring their own.
    if [ "$PURPOSE" != up ] || [ -z "${MQTT_URL:-}" ]; then
        command -v mosquitto >/dev/null || printf ' mosquitto'
    fi
    if [ "$PURPOSE" != up ] || [ -z "${AMQP_URL:-}" ]; then
        [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || printf ' rabbitmq-server'
    fi
    # Tests make a disk fail with it, and benchmarks cut its power.
    if [ "$PURPOSE" = test ] || [ "$PURPOSE" = bench ]; then
        command -v strace >/dev/null || printf ' strace'
    fi
    # Tests look at pages with the first, speak as any device would with the second, and have the alert rules read by the
    # program that comes with the third.
    if [ "$PURPOSE" = test ]; then
        command -v chromium >/dev/null || printf ' chromium'
        command -v mosquitto_pub >/dev/null || printf ' mosquitto-clients'
        command -v promtool >/dev/null || printf ' prometheus'
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null || return 1
    # With a terminal sudo may ask for the password; without one it must do without.
    [ -t 0 ] || sudo -n true 2>/dev/null
}

# Debian starts a server as soon as it is installed. This file tells it not to; a file that is already there stays as it is.
POLICY=/usr/sbin/policy-rc.d
POLICY_IS_OURS=no

forbid_autostart() {
    [ -e "$POLICY" ] && return 0
    POLICY_IS_OURS=yes
    trap allow_autostart EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    printf '#!/bin/sh\n# Written by farmiq for the time of one installation.\nexit 101\n' | as_root tee "$POLICY" >/dev/null
    as_root chmod 0755 "$POLICY"
}

allow_autostart() {
    [ "$POLICY_IS_OURS" = yes ] || return 0
    POLICY_IS_OURS=no
    as_root rm -f "$POLICY"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
        install -y --no-install-recommends "$@"
}

install_packages() {
    by_hand="    sudo apt-get update && sudo apt-get install --no-install-recommends $*"
    command -v apt-get >/dev/null ||
        fail "these programs are missing, and this machine has no apt-get to install them: $*" \
            "Install them with this machine's package manager, then run the same command again."
    can_be_root ||
        fail "these Debian packages are missing, and installing them needs root: $*" "Run this, then the same command again:" "$by_hand"
    say "installing Debian packages: $*"
    log=$(mktemp)
    forbid_autostart
    if ! apt_install "$@" >"$log" 2>&1; then
        say "refreshing the package lists"
        if ! { as_root apt-get -qq update && apt_install "$@"; } >"$log" 2>&1; then
            cat "$log" >&2
            rm -f "$log"
            fail "apt-get could not install: $*" "Is there a connection to the package server? To try by hand:" "$by_hand"
        fi
    fi
    rm -f "$log"
    allow_autostart
}

# The farm starts its own private servers. The system-wide ones that came with the packages just now shall not start at the next boot.
disable_at_boot() {
    command -v systemctl >/dev/null || return 0
    for package in "$@"; do
        case $package in
            mosquitto) as_root systemctl --quiet disable mosquitto.service 2>/dev/null || true ;;
            rabbitmq-server) as_root systemctl --quiet disable rabbitmq-server.service epmd.socket epmd.service 2>/dev/null || true ;;
            prometheus) as_root systemctl --quiet disable prometheus.service 2>/dev/null || true ;;
        esac
    done
}

ensure_programs() {
    packages=$(missing_programs)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086 # a list of package names
    install_packages $packages
    # shellcheck disable=SC2086 # as above
    disable_at_boot $packages
    still_missing=$(missing_programs)
    [ -z "$still_missing" ] || fail "installed, but still not found:$still_missing"
}

# --- Python ----------------------------------------------------------------------------------------------------------------

# The functions below work on $VENV, with the packages of $LOCK.

find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.11 python3.12 python3.13 python3.14; do
        command -v "$candidate" >/dev/null || continue
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        command -v "$candidate"
        return 0
    done
    fail "Python 3.11 or newer is needed, and none was found on PATH." \
        "Install it, for instance on Debian 12 or Ubuntu 24.04:" "    sudo apt-get install python3 python3-venv" \
        "or name one: PYTHON=/path/to/python make up"
}

create_venv() {
    python=$(find_python) || exit 1
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        install_packages "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    fi
    say "creating $VENV with $("$python" --version)"
    # The folder itself stays: it holds the lock that keeps a second set-up out.
    (cd "$VENV" && rm -rf bin lib lib64 include pyvenv.cfg)
    "$python" -m venv "$VENV"
}

pip_install() {
    log=$(mktemp)
    if ! "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

install_python_packages() {
    say "installing the Python packages of $LOCK (about a minute, once)"
    pip_install --no-deps --require-hashes -r "$LOCK" ||
        fail "pip could not install the packages of $LOCK (see above)." "Is there a connection to the package index?"
    [ "$VENV" != .venv-peers ] || return 0
    say "installing farmiq from this checkout"
    pip_install --no-deps --no-build-isolation -e . || fail "pip could not install the checkout itself (see above)."
}

# What the virtual environment was made from. It holds absolute paths, so a checkout that moved needs a new one.
stamp_of() {
    cksum "$1"
    [ "$VENV" = .venv-peers ] || cksum pyproject.toml
    echo "$CHECKOUT"
}

stamp_file() {
    echo "$VENV/.stamp-$(basename "$1")"
}

is_stamped() {
    [ -x "$VENV/bin/python" ] && [ -f "$(stamp_file "$1")" ] && [ "$(stamp_of "$1")" = "$(cat "$(stamp_file "$1")")" ]
}

is_python_ready() {
    is_stamped "$LOCK" || { [ "$PURPOSE" = up ] && is_stamped requirements-dev.lock; }
}

has_moved() {
    for stamp in "$VENV"/.stamp-*; do
        [ -f "$stamp" ] || continue
        [ "$(tail -n 1 "$stamp")" = "$CHECKOUT" ] || return 0
    done
    return 1
}

ensure_python() {
    is_python_ready && return 0
    mkdir -p "$VENV"
    exec 9>"$VENV/.bootstrap.lock"
    if command -v flock >/dev/null && ! flock -n 9; then
        say "waiting for another set-up of this checkout"
        flock 9
    fi
    is_python_ready && return 0
    if [ ! -x "$VENV/bin/python" ] || has_moved; then
        rm -f "$VENV"/.stamp-*
        create_venv
    fi
    install_python_packages
    stamp_of "$LOCK" >"$(stamp_file "$LOCK")"
    exec 9>&-
}

ensure_programs
ensure_python
if [ "$PURPOSE" = bench ]; then
    VENV=.venv-peers
    LOCK=benchmarks/peers.lock
    ensure_python
fi
