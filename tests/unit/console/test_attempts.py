from farmiq.console.attempts import HALF_LIFE_SECONDS, OF_ADDRESS, OF_NAME, LoginAttempts


def _fail(
    attempts: LoginAttempts, times: int, name: str = "admin", address: str = "10.0.0.1", now: float = 0.0
) -> None:
    for _ in range(times):
        attempts.begun(name, address, now)


def test_guessing_a_password_takes_longer_and_longer() -> None:
    attempts = LoginAttempts()
    _fail(attempts, OF_NAME.free_failures - 1)
    assert attempts.wait_seconds("admin", "10.0.0.1", 0.0) == 0
    waits = []
    for _ in range(12):
        _fail(attempts, 1)
        waits.append(attempts.wait_seconds("admin", "10.0.0.1", 0.0))
    assert waits[0] > 0
    assert waits == sorted(waits)
    assert waits[-1] == OF_NAME.wait_seconds_max


def test_nobody_keeps_somebody_out_by_their_name_alone() -> None:
    attempts = LoginAttempts()
    _fail(attempts, 1000, address="10.6.6.6")
    assert attempts.wait_seconds("admin", "10.6.6.6", 0.0) > 0
    assert attempts.wait_seconds("admin", "10.0.0.1", 0.0) == 0


def test_an_address_that_guesses_many_names_waits_for_all_of_them() -> None:
    attempts = LoginAttempts()
    for number in range(OF_ADDRESS.free_failures + 1):
        _fail(attempts, 1, name=f"person-{number}")
    assert 0 < attempts.wait_seconds("somebody-else", "10.0.0.1", 0.0) <= OF_ADDRESS.wait_seconds_max


def test_typing_errors_over_months_add_up_to_nothing() -> None:
    attempts = LoginAttempts()
    for day in range(200):
        _fail(attempts, 3, now=day * 86_400.0)
        assert attempts.wait_seconds("admin", "10.0.0.1", day * 86_400.0) == 0
    later = 300 * 86_400.0
    _fail(attempts, 20, now=later)
    assert attempts.wait_seconds("admin", "10.0.0.1", later) > 0
    _fail(attempts, 1, now=later + 10 * HALF_LIFE_SECONDS)
    assert attempts.wait_seconds("admin", "10.0.0.1", later + 10 * HALF_LIFE_SECONDS) == 0


def test_a_right_password_forgives_the_name_and_not_what_was_tried_on_others() -> None:
    attempts = LoginAttempts()
    _fail(attempts, OF_ADDRESS.free_failures, name="admin")
    _fail(attempts, 4, name="mine")
    assert attempts.wait_seconds("mine", "10.0.0.1", 0.0) > 0, "the address waits"
    attempts.succeeded("mine", "10.0.0.1", 0.0)
    assert attempts.wait_seconds("admin", "10.0.0.1", 0.0) > 0
    _fail(attempts, OF_NAME.free_failures - 1, name="mine", address="10.0.0.2")
    attempts.succeeded("mine", "10.0.0.2", 0.0)
    _fail(attempts, OF_NAME.free_failures - 1, name="mine", address="10.0.0.2")
    assert attempts.wait_seconds("mine", "10.0.0.2", 0.0) == 0


def test_many_attempts_at_once_are_counted_before_any_is_answered() -> None:
    attempts = LoginAttempts()
    looked_at = 0
    for _ in range(100):
        if attempts.wait_seconds("admin", "10.0.0.1", 0.0) == 0:
            attempts.begun("admin", "10.0.0.1", 0.0)
            looked_at += 1
    assert looked_at == OF_NAME.free_failures
