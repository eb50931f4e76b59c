#!/bin/sh
# Sets this checkout up so that it can run: Debian packages, a virtual environment, the locked Python packages, farmiq itself.
#
#   tools/bootstrap.sh up      what `make up` needs
#   tools/bootstrap.sh test    what `make test` needs (a superset)
#   tools/bootstrap.sh bench   what `make bench` needs: the same, and the peers in an environment of their own
#   tools/bootstrap.sh train   what `make train` needs: an environment of its own, and no servers
#   tools/bootstrap.sh packages NAME...   as root: Debian packages, without starting the servers in them (used by the others)
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
    packages) LOCK= ;;
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

# Between two lines of progress in a log.
LOG_SECONDS=15

say() {
    echo "farmiq: $*"
}

fail() {
    for line in "$@"; do
        echo "farmiq: $line" >&2
    done
    exit 1
}

# Runs a command, and shows that it works and how far it is: as one line that is written anew each second on a terminal, as a line
# now and then in a log. What the command prints is shown only when it fails.
#   show_work TITLE STATE COMMAND...   STATE is a function that prints how far it is, from what stands in $LOG
show_work() {
    title=$1 state=$2
    shift 2
    LOG=$(mktemp)
    began=$(date +%s)
    say "$title"
    tick &
    ticker=$!
    result=0
    "$@" >"$LOG" 2>&1 || result=$?
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    if is_terminal; then printf '\r\033[K'; fi
    if [ "$result" = 0 ]; then say "  done after $(($(date +%s) - began)) s"; else cat "$LOG" >&2; fi
    rm -f "$LOG"
    return "$result"
}

is_terminal() {
    [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]
}

# Ends with this script, however that ends. A sleep that survives it holds neither a pipe that somebody reads nor the lock.
tick() {
    seconds=0
    while sleep 1 >/dev/null 2>&1 9>&- && kill -0 $$ 2>/dev/null; do
        seconds=$((seconds + 1))
        if is_terminal; then
            printf '\r\033[Kfarmiq:   %s s · %s' "$(($(date +%s) - began))" "$($state)"
        elif [ $((seconds % LOG_SECONDS)) = 0 ]; then
            say "  $(($(date +%s) - began)) s · $($state)"
        fi
    done
}

# --- As root: `tools/bootstrap.sh packages NAME...` ----------------------------------------------------------------------------

# Debian starts a server as soon as it is installed. This file forbids it, only for installations that carry our variable: for
# everybody else it allows what would be allowed without it. A file that somebody else wrote stays as it is.
POLICY=${DPKG_ROOT:-}/usr/sbin/policy-rc.d
POLICY_MARK='Written by farmiq for the time of one installation.'

is_policy_ours() {
    [ ! -e "$POLICY" ] || grep -qF "$POLICY_MARK" "$POLICY"
}

forbid_autostart() {
    is_policy_ours || return 0
    cat >"$POLICY.farmiq" <<END
#!/bin/sh
# $POLICY_MARK
[ -z "\${FARMIQ_INSTALLS:-}" ] || exit 101
[ -d /proc/$$ ] || rm -f "\$0"
exit 0
END
    chmod 0755 "$POLICY.farmiq"
    mv "$POLICY.farmiq" "$POLICY"
}

# Passes on what the installation prints, and ends with its last process, also when this script was killed before. An interrupt
# at the terminal reaches this process too, and must not end it.
allow_autostart_afterwards() {
    trap '' INT TERM HUP
    cat || true
    ! is_policy_ours || rm -f "$POLICY" "$POLICY.farmiq"
}

apt_install() {
    FARMIQ_INSTALLS=1 DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
        install -y --no-install-recommends "$@" </dev/null
}

# The farm starts its own private servers. The system-wide ones that came with the packages just now shall not start at the next boot.
disable_at_boot() {
    command -v systemctl >/dev/null || return 0
    for package in "$@"; do
        case $package in
            mosquitto) systemctl --quiet disable mosquitto.service 2>/dev/null || true ;;
            rabbitmq-server) systemctl --quiet disable rabbitmq-server.service epmd.socket epmd.service 2>/dev/null || true ;;
            prometheus) systemctl --quiet disable prometheus.service 2>/dev/null || true ;;
        esac
    done
}

install_as_root() {
    # Two installations at a time would remove each other's policy. The lock is on the folder, so that no file remains.
    exec 8<"$(dirname "$POLICY")"
    ! command -v flock >/dev/null || flock 8
    outcome=$(mktemp)
    {
        forbid_autostart
        if apt_install "$@" || { apt-get -q update && apt_install "$@"; }; then
            disable_at_boot "$@"
            echo installed >"$outcome"
        fi
    } 2>&1 | allow_autostart_afterwards
    result=$(cat "$outcome")
    rm -f "$outcome"
    [ "$result" = installed ]
}

if [ "$PURPOSE" = packages ]; then
    shift
    install_as_root "$@"
    exit
fi

# --- Debian packages -------------------------------------------------------------------------------------------------------

can_be_root() {
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null || return 1
    # With a terminal sudo may ask for the password; without one it must do without.
    if [ -t 0 ]; then sudo true; else sudo -n true 2>/dev/null; fi
}

run_packages_step() {
    if [ "$(id -u)" = 0 ]; then tools/bootstrap.sh packages "$@"; else sudo "$CHECKOUT/tools/bootstrap.sh" packages "$@"; fi
}

# A command of root, as this user can type it.
by_hand() {
    if [ "$(id -u)" = 0 ]; then
        echo "    $*"
    elif command -v sudo >/dev/null; then
        echo "    sudo sh -c '$*'"
    else
        echo "    su -c '$*'"
    fi
}

apt_state() {
    sed -n -e 's/^Get:[0-9]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .*/downloading \1/p' -e 's/^Unpacking \([^ ]*\) .*/unpacking \1/p' \
        -e 's/^Setting up \([^ ]*\) .*/setting up \1/p' "$LOG" | tail -n 1
}

install_packages() {
    command=$(by_hand "apt-get update && apt-get install --no-install-recommends $*")
    command -v apt-get >/dev/null ||
        fail "these programs are missing, and this machine has no apt-get to install them: $*" \
            "Install them with this machine's package manager, then run the same command again."
    can_be_root ||
        fail "these Debian packages are missing, and installing them needs root: $*" "Run this, then the same command again:" "$command"
    show_work "installing Debian packages: $*" apt_state run_packages_step "$@" ||
        fail "apt-get could not install: $*" "Is there a connection to the package server? To try by hand:" "$command"
}

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

ensure_programs() {
    packages=$(missing_programs)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086 # a list of package names
    install_packages $packages
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
        "Install it, for instance on Debian 12 or Ubuntu 24.04:" "$(by_hand apt-get install python3 python3-venv)" \
        "or name one: PYTHON=/path/to/python make up"
}

create_venv() {
    python=$(find_python) || exit 1
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        install_packages "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    fi
    # The folder itself stays: it holds the lock that keeps a second set-up out.
    (cd "$VENV" && rm -rf bin lib lib64 include pyvenv.cfg)
    show_work "creating $VENV with $("$python" --version)" no_state "$python" -m venv "$VENV" ||
        fail "$python could not make a virtual environment (see above)."
}

# pip prints a line for each package that it looks for, and installs all of them after one more line.
pip_state() {
    wanted=$(sed -n 's/^Installing collected packages: //p' "$LOG" | tr ',' '\n' | wc -l)
    if grep -q '^Successfully installed ' "$LOG"; then
        echo "$wanted of $wanted packages installed"
    elif [ "$wanted" -gt 0 ]; then
        echo "$(find "$VENV"/lib/python3*/site-packages -maxdepth 1 -name '*.dist-info' -newer "$LOG" | wc -l) of $wanted packages installed"
    else
        echo "$(grep -cE '^(Collecting|Requirement already|Ignoring) ' "$LOG") of $(grep -c '^[A-Za-z0-9].*==' "$LOCK") packages fetched"
    fi
}

no_state() {
    echo 'working'
}

pip_install() {
    "$VENV/bin/python" -m pip install --progress-bar off --disable-pip-version-check --no-input "$@"
}

install_python_packages() {
    show_work "installing the Python packages of $LOCK" pip_state install_lock ||
        fail "pip could not install the packages of $LOCK (see above)." "Is there a connection to the package index?"
    [ "$VENV" != .venv-peers ] || return 0
    show_work "installing farmiq from this checkout" no_state pip_install --no-deps --no-build-isolation -e . ||
        fail "pip could not install the checkout itself (see above)."
}

install_lock() {
    pip_install --no-deps --require-hashes -r "$LOCK"
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
