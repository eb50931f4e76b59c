from farmiq.kit.amqp_outgoing import GROUP_BYTES_MAX, Outgoing, groups


def message(message_id: str, size_bytes: int = 1) -> Outgoing:
    return Outgoing("exchange", "key", bytes(size_bytes), message_id)


def ids(messages: list[Outgoing], messages_max: int = 100) -> list[list[str]]:
    return [[one.message_id for one in group] for group in groups(messages, messages_max)]


def test_messages_are_grouped_in_their_order_and_none_is_left_out() -> None:
    assert ids([message(str(number)) for number in range(7)], messages_max=3) == [
        ["0", "1", "2"],
        ["3", "4", "5"],
        ["6"],
    ]
    assert ids([]) == []


def test_an_id_is_in_a_group_once() -> None:
    assert ids([message("a"), message("b"), message("a"), message("a")]) == [["a", "b"], ["a"], ["a"]]


def test_a_group_holds_so_many_bytes_and_a_larger_message_is_alone() -> None:
    half, large = GROUP_BYTES_MAX // 2, GROUP_BYTES_MAX + 1
    messages = [message("a", half), message("b", half), message("c", large), message("d")]
    assert ids(messages) == [["a", "b"], ["c"], ["d"]]
