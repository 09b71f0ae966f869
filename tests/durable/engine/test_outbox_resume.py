"""What is promised while the outbox takes up the rest of an earlier run."""

from tests.durable.engine.test_outbox import Post, delivery, post

__all__ = ["post"]


async def test_what_is_promised_before_the_rest_is_taken_up_arrives_once(post: Post) -> None:
    async with post.open(wire=False) as outbox:
        await outbox.promise(delivery("one"))
    async with post.open(resume=False) as outbox:
        await outbox.promise(delivery("two"))
        assert await outbox.resume() == 2
        await outbox.flush(20)
    assert post.wire.texts == ["one", "two"]


async def test_what_is_committed_before_the_rest_is_taken_up_and_queued_after_arrives_once(post: Post) -> None:
    async with post.open(resume=False) as outbox:
        promise = outbox.prepare([delivery("late")])
        await post.database.write(*promise.rows)
        assert await outbox.resume() == 1
        outbox.enqueue_progress(promise.started)
        await outbox.send(delivery("next"))
    assert post.wire.texts == ["late", "next"]
