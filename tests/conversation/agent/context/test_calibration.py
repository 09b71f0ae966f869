"""Estimates are corrected by what a provider counts, and by nothing that is nonsense."""

import pytest

from goclaw.common.core.messages import AssistantMessage, Image, Native, UserMessage
from goclaw.conversation.agent.context.calibration import LEAST_TOKENS, Calibration
from goclaw.conversation.agent.context.window import ContextEntry, Window
from goclaw.llm.base import PDF, Finished, Stop, Usage


def test_an_unknown_model_is_taken_at_its_estimate() -> None:
    assert Calibration().of("m") == 1.0


def test_the_first_count_is_believed_and_later_ones_move_it() -> None:
    calibration = Calibration()
    calibration.learn("m", 1_000, 1_500)
    assert calibration.of("m") == 1.5
    calibration.learn("m", 1_000, 1_100)
    assert calibration.of("m") == pytest.approx(1.4)
    assert calibration.of("other") == 1.0


@pytest.mark.parametrize(
    ("estimated", "counted"), [(LEAST_TOKENS - 1, 900), (1_000, 0), (1_000, 10), (1_000, 9_000), (0, 5), (1_000, -5)]
)
def test_nonsense_teaches_nothing(estimated: int, counted: int) -> None:
    calibration = Calibration({"m": 1.2})
    calibration.learn("m", estimated, counted)
    assert calibration.of("m") == 1.2


def test_it_settles_on_what_a_tokenizer_really_does() -> None:
    calibration = Calibration()
    for _ in range(40):
        calibration.learn("m", 2_000, 2_600)
    assert calibration.of("m") == pytest.approx(1.3)


def test_only_news_are_to_be_kept_and_an_earlier_run_is_gone_on_with() -> None:
    calibration = Calibration({"m": 1.2, "broken": 99.0})
    assert calibration.news() is None and calibration.of("broken") == 1.0
    calibration.learn("m", 1_000, 1_600)
    news = calibration.news()
    assert news == {"m": 1.3} and calibration.news() is None
    assert Calibration(news).of("m") == 1.3


@pytest.mark.parametrize("native", [None, Native("anthropic", 1, [{"type": "thinking"}])], ids=["gone", "sent back"])
def test_a_count_reaches_the_window_and_what_comes_after_it_is_corrected(native: Native | None) -> None:
    asked, answer, more = (
        UserMessage("word " * 2_000),
        AssistantMessage("so it is", (), native),
        UserMessage("x y z " * 500),
    )
    window, calibration = Window(entries=[ContextEntry(1, asked)]), Calibration()
    counted = 2 * window.estimate(overhead=300)
    window.append(ContextEntry(2, answer))
    usage = Usage(input=counted, output=70, reasoning=50)
    calibration.calibrate(Finished(answer, usage, Stop.END, "m"), window, overhead=300)
    kept = counted + (70 if native else 20)
    assert calibration.of("m") == window.scale == pytest.approx(2.0)
    assert window.tokens(overhead=300) == kept
    window.append(ContextEntry(3, more))
    assert window.tokens(overhead=300) == pytest.approx(kept + 2 * window.entries[-1].tokens, abs=1)


def test_the_pages_of_a_document_teach_nothing_about_texts() -> None:
    said = UserMessage("What do I owe?", (Image("a" * 64, PDF, 20),))
    window, calibration, answer = Window(entries=[ContextEntry(1, said)]), Calibration(), AssistantMessage("77 euros")
    window.append(ContextEntry(2, answer))
    calibration.calibrate(Finished(answer, Usage(input=20_000, output=5), Stop.END, "m"), window, overhead=300)
    assert calibration.of("m") == 1.0 and window.tokens(overhead=300) == 20_005
