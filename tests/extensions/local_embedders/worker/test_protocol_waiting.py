"""The order in which the worker embeds: a query overtakes what nobody waits for, in the middle of it."""

import threading

from goclaw.extensions.local_embedders.worker.protocol import EmbeddingRequest, Waiting


def texts_done(waiting: Waiting, portion: int, requests: int, arrives: dict[int, EmbeddingRequest]) -> list[str]:
    """What the worker's loop would embed, when more requests arrive after so many portions."""
    order: list[str] = []
    steps = 0
    while requests:
        request = waiting.first()
        order += [request.texts[place] for place in request.next_places(min(portion, len(request.left)))]
        steps += 1
        if not request.left:
            waiting.remove(request)
            requests -= 1
        if steps in arrives:
            waiting.put(arrives[steps])
    return order


def test_a_query_goes_before_the_rest_of_a_batch_and_batches_keep_their_order() -> None:
    waiting = Waiting()
    waiting.put(EmbeddingRequest(1, ["a1", "a2", "a3"], query=False))
    waiting.put(EmbeddingRequest(2, ["b1"], query=False))
    order = texts_done(
        waiting, 1, 4, {1: EmbeddingRequest(3, ["q1"], query=True), 2: EmbeddingRequest(4, ["q2"], query=True)}
    )
    assert order == ["a1", "q1", "q2", "a2", "a3", "b1"]


def test_a_batch_is_worked_on_from_its_shortest_text() -> None:
    waiting = Waiting()
    waiting.put(EmbeddingRequest(1, ["long text", "x", "text"], query=False))
    assert texts_done(waiting, 2, 1, {}) == ["x", "text", "long text"]


def test_whoever_waits_for_work_is_woken_by_it() -> None:
    waiting = Waiting()
    threading.Timer(0, waiting.put, [EmbeddingRequest(1, ["x"], query=False)]).start()
    assert waiting.first().number == 1
