import subprocess

from farmiq.kit.shell import exports


def test_every_value_reaches_a_shell_as_it_is() -> None:
    values = {"PLAIN": "http://127.0.0.1:5103", "ODD": 'it\'s $HOME; `id` "x" \\ & é', "EMPTY": "", "LINES": "a\nb"}
    script = exports(values) + '\nprintf "%s|" "$PLAIN" "$ODD" "$EMPTY" "$LINES"\n'
    shown = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True).stdout
    assert shown == "|".join(values.values()) + "|"
