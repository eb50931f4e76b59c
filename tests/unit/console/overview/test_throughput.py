import pytest

from farmiq.console.overview.throughput import HEIGHT, STEP_SECONDS, WIDTH, WINDOW_SECONDS, nice_top, plot, rates

STEPS = round(WINDOW_SECONDS / STEP_SECONDS)


def steady(per_second: float, since: float, until: float, start: float = 0.0) -> list[tuple[float, float]]:
    return [(at, start + per_second * (at - since)) for at in range(int(since), int(until) + 1)]


def test_rates_of_a_steady_flow_are_that_flow() -> None:
    found = rates(steady(10, 0, 1000), 1000.0)
    assert len(found) == STEPS
    assert found == pytest.approx([10.0] * STEPS)


def test_before_the_first_look_and_across_a_restart_nothing_is_known() -> None:
    history = [*steady(10, 900, 950, start=5000), *steady(10, 955, 1000)]
    found = rates(history, 1000.0)
    assert found[: STEPS - 10] == [None] * (STEPS - 10)
    assert found[STEPS - 10 : STEPS - 5] == pytest.approx([10.0] * 5)
    assert found[STEPS - 5] is None
    assert found[STEPS - 4 :] == pytest.approx([10.0] * 4)


def test_a_service_that_is_away_ends_its_line() -> None:
    assert rates(steady(10, 0, 900), 1000.0)[-10:] == [None] * 10
    assert rates([], 1000.0) == [None] * STEPS


def test_two_lines_that_coincide_have_a_gap_without_width() -> None:
    history = steady(10, 0, 1000)
    drawn = plot(history, history, 1000.0)
    assert drawn.edge == drawn.cloud
    upper, lower = drawn.gaps[0].split()[:STEPS], drawn.gaps[0].split()[STEPS:]
    assert upper == lower[::-1]
    assert (drawn.edge_now, drawn.cloud_now, drawn.seconds) == (10.0, 10.0, WINDOW_SECONDS)


def test_a_cut_opens_the_gap_and_everything_stays_inside_the_picture() -> None:
    edge = steady(10, 0, 1000)
    cloud = [*steady(10, 0, 900), *((at, 9000.0) for at in range(901, 1001))]
    drawn = plot(edge, cloud, 1000.0)
    assert drawn.cloud_now == 0.0
    assert drawn.edge[0] != drawn.cloud[0]
    for line in (*drawn.edge, *drawn.cloud, *drawn.gaps):
        for point in line.split():
            x, y = (float(part) for part in point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_nothing_known_is_an_empty_picture() -> None:
    drawn = plot([], [], 1000.0)
    assert (drawn.edge, drawn.cloud, drawn.gaps, drawn.edge_now, drawn.seconds) == ((), (), (), None, 0.0)


@pytest.mark.parametrize(
    ("highest", "top"), [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (10.0, 10.0), (10.1, 20.0), (34.0, 50.0), (51.0, 100.0)]
)
def test_the_top_is_a_round_number_above_everything(highest: float, top: float) -> None:
    assert nice_top(highest) == top
