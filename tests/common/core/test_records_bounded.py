"""A dict that holds so many entries and no more."""

import orjson

from goclaw.common.core.records import BoundedDict


def test_one_entry_too_many_drops_the_oldest() -> None:
    bounded = BoundedDict(2, {"a": 1, "b": 2, "c": 3})
    assert dict(bounded) == {"b": 2, "c": 3}
    bounded["d"] = 4
    assert dict(bounded) == {"c": 3, "d": 4}


def test_an_entry_that_is_set_again_counts_as_new_also_in_json() -> None:
    bounded = BoundedDict(2, {"a": 1, "b": 2})
    bounded["a"] = 3
    assert orjson.dumps(bounded) == b'{"b":2,"a":3}'
    bounded["c"] = 4
    assert list(bounded) == ["a", "c"]


def test_no_way_to_add_an_entry_goes_past_the_bound() -> None:
    bounded = BoundedDict(1, {"a": 1})
    assert bounded.setdefault("b", 2) == 2 and list(bounded) == ["b"]
    bounded.update({"c": 3, "d": 4})
    bounded |= {"e": 5}
    assert dict(bounded) == {"e": 5}
