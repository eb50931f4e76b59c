"""Micro-batches: filled up to their limits, woken when it is worth it, nothing lost by a cancellation."""

import asyncio

import pytest

from farmiq.kit.inbox import Inbox, Turns


async def taking(inbox: Inbox[int], items_max: int, seconds_max: float) -> "asyncio.Task[list[int]]":
    task = asyncio.create_task(inbox.take(items_max, seconds_max))
    await settle()
    return task


async def settle() -> None:
    """Lets everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_there_is_given_at_once_and_in_order() -> None:
    inbox: Inbox[int] = Inbox()
    for item in range(5):
        inbox.put(item)

    assert await asyncio.wait_for(inbox.take(3, 60.0), 5) == [0, 1, 2]
    assert len(inbox) == 2


async def test_a_batch_ends_when_it_is_full() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 3, 60.0)
    for item in range(2):
        inbox.put(item)
        await settle()
        assert not task.done()
    inbox.put(2)

    assert await asyncio.wait_for(task, 5) == [0, 1, 2]


async def test_a_batch_ends_when_its_time_is_over() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 100, 0.01)
    inbox.put(1)

    assert await asyncio.wait_for(task, 5) == [1]


async def test_the_time_of_a_batch_starts_with_its_first_item() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 100, 0.0)
    assert not task.done()
    inbox.put(1)

    assert await asyncio.wait_for(task, 5) == [1]


async def test_cancelling_leaves_every_item_where_it_was() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 3, 60.0)
    inbox.put(1)
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    inbox.put(2)

    assert await inbox.take(2, 0.0) == [1, 2]


async def test_a_cancellation_at_the_very_moment_of_filling_loses_nothing() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 2, 60.0)
    inbox.put(1)
    inbox.put(2)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert await inbox.take(2, 0.0) == [1, 2]


async def test_an_inbox_emptied_while_a_batch_gathers_makes_it_wait_for_new_items() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 2, 60.0)
    inbox.put(1)
    await settle()
    inbox.clear()
    inbox.put(2)
    inbox.put(3)

    assert await asyncio.wait_for(task, 5) == [2, 3]


async def test_two_takers_get_different_items() -> None:
    inbox: Inbox[int] = Inbox()
    tasks = [await taking(inbox, 2, 60.0) for _ in range(2)]
    for item in range(4):
        inbox.put(item)

    assert sorted(await asyncio.wait_for(asyncio.gather(*tasks), 5)) == [[0, 1], [2, 3]]


async def test_closing_ends_the_wait_with_nothing() -> None:
    inbox: Inbox[int] = Inbox()
    inbox.put(1)
    task = await taking(inbox, 2, 60.0)
    inbox.close()

    assert await asyncio.wait_for(task, 5) == []
    assert await inbox.take(1, 0.0) == []


async def test_closing_with_an_error_raises_it_to_whoever_takes() -> None:
    inbox: Inbox[int] = Inbox()
    task = await taking(inbox, 2, 60.0)
    inbox.close(ValueError("the queue has other settings"))

    for attempt in (task, inbox.take(1, 0.0)):
        with pytest.raises(ValueError, match="other settings"):
            await asyncio.wait_for(attempt, 5)


def test_everybody_has_a_turn_and_a_senders_own_stay_in_order() -> None:
    turns: Turns[str] = Turns(lambda item: item[0])
    for item in ("a1", "a2", "a3", "b1", "a4", "b2", "c1"):
        turns.append(item)
    assert len(turns) == 7
    assert [turns.popleft() for _ in range(5)] == ["a1", "b1", "c1", "a2", "b2"]
    turns.append("c2")
    assert [turns.popleft() for _ in range(3)] == ["a3", "c2", "a4"]
    assert len(turns) == 0


async def test_one_message_of_a_neighbour_is_in_the_next_batch_however_many_are_before_it() -> None:
    inbox: Inbox[str] = Inbox(Turns(lambda item: item[0]))
    for number in range(1_000):
        inbox.put(f"a{number}")
    inbox.put("b0")
    assert await inbox.take(10, 0.0) == ["a0", "b0", *(f"a{number}" for number in range(1, 9))]
