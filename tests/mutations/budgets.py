"""Bugs in what people may spend, where requests run side by side."""

from tests.mutations.bug import Bug, bug

_TESTS = "tests/conversation/turns/test_costs_reserved.py"
_SIDE_BY_SIDE = f"{_TESTS}::test_side_by_side_and_in_any_process_one_request_at_most_goes_beyond"
_COSTS = "goclaw/conversation/turns/costs.py"
_RESERVATIONS = "goclaw/durable/store/postgres/reservations.py"

BUGS: list[Bug] = [
    bug(
        "requests that run are not counted before another one begins",
        "class money: ten agents at once spend ten times the rest of the day",
        _COSTS,
        "        before = await self.reservations.before(wanted)\n",
        "        before = ()\n",
        _SIDE_BY_SIDE,
    ),
    bug(
        "a reservation ends before its request is booked",
        "class money: for a moment neither reserved nor spent",
        _COSTS,
        "        except BaseException:\n            self.reservations.release(wanted.id)\n            raise",
        "        finally:\n            self.reservations.release(wanted.id)",
        _SIDE_BY_SIDE,
    ),
    bug(
        "a reservation of a process that is gone is kept",
        "class money: a person waits forever after a crash",
        _RESERVATIONS,
        "        with under_fence(None):\n            ending = self._database.write(_END_THE_DEAD())",
        "        with under_fence(None):\n            ending = self._database.write()",
        f"{_TESTS}::test_a_reservation_of_a_process_that_is_gone_holds_up_no_one",
    ),
    bug(
        "a process that was paused ends the reservation of the one that goes on",
        "class money: what runs counts nowhere",
        _RESERVATIONS,
        """f"DELETE FROM reservations WHERE id = :id AND {REPLICA} = current_setting('goclaw.replica', true)\"""",
        """"DELETE FROM reservations WHERE id = :id\"""",
        f"{_TESTS}::test_a_request_that_another_process_makes_again_takes_the_reservation_over",
    ),
    bug(
        "a request that fails stays reserved",
        "class money: a person waits for what is over",
        _COSTS,
        "            self.reservations.release(wanted.id)\n            raise",
        "            raise",
        _SIDE_BY_SIDE,
    ),
    bug(
        "an answer that is stopped while a hook judges it stays reserved",
        "class money: a person waits for what is over",
        "goclaw/conversation/turns/turn.py",
        "            self._services.release_reservation(step)\n",
        "",
        f"{_TESTS}::test_an_answer_that_is_stopped_while_a_hook_judges_it_leaves_its_share_to_others",
    ),
]
