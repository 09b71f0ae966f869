"""What was said is found again: ten conversations (of 300 turns in the long lane), compacted, then twenty questions."""

import asyncio
import re
from collections.abc import Iterator
from random import Random

import pytest

from goclaw.clients.tui.client import attach
from goclaw.common.core.events import TurnFinished
from tests.acceptance.daemon import Installation
from tests.fake_telegram.server import FakeTelegram
from tests.lanes import repeats

pytestmark = [pytest.mark.slow]

ANN = 5
ENDS = re.compile(r"\n\(end\)$")
"""Of an answer that repeats what was found; the marks in it are taken out."""
TURNS = repeats(6, 30)
"""Of each of the ten conversations."""
PLANTED = {
    "My boat is called Wilhelmina and lies in Enkhuizen.": ("What is the name of my boat?", "Wilhelmina"),
    "We named the new puppy Pepper, she is a border collie.": ("Which name did we give the puppy?", "Pepper"),
    "The spare key hangs behind the blue shutter of the shed.": ("Where does the spare key hang?", "blue shutter"),
    "I am allergic to hazelnuts, so no nougat for me.": ("What am I allergic to?", "hazelnuts"),
    "The plumber who fixed the boiler was Mr Okonkwo, 020-5551234.": ("Who fixed our boiler?", "Okonkwo"),
    "Please call me at my office on extension 4417.": ("What is the extension of my office?", "4417"),
    "Our wedding was on the 14th of June 2011 in Delft.": ("In which town was our wedding?", "Delft"),
    "The build broke because of getUserProfile in auth_service.py.": ("What broke in auth_service?", "getUserProfile"),
    "For the passport photo you must go to the shop in Korte Straat.": ("Where do I get a passport photo?", "Korte"),
    "Grandmother's apple cake needs a pinch of cardamom.": ("What does grandmother put into her cake?", "cardamom"),
}
"""What Ann tells in Telegram, what she asks much later, and what the answer must hold."""
ELSEWHERE = {
    "The server in the attic listens on port 8472.": ("On which port does the attic server listen?", "8472"),
    "My sister Ines moved to Valparaíso last autumn.": ("Where did my sister Ines move?", "Valparaíso"),
    "The tax office wants the form by the 3rd of March.": (
        "By when wants the tax office its form?",
        "3rd of March",
    ),
    "My blood type is AB negative.": ("Which blood type do I have?", "AB negative"),
    "The wifi of the cabin is called otter-den.": ("What is the wifi of the cabin called?", "otter-den"),
    "We paid 1,250 euros for the piano.": ("How much did we pay for the piano?", "1,250"),
    "The train to Leipzig leaves from platform 11.": ("From which platform does the train to Leipzig leave?", "11"),
    "Doctor Lindqvist wants to see the knee again in May.": ("Which doctor wants to see my knee?", "Lindqvist"),
    "The book that I lent to Tomas is Middlemarch.": ("Which book did I lend to Tomas?", "Middlemarch"),
    "昨日讨论了认证和部署。": ("讨论了什么?", "认证"),
}
"""The same in terminals."""
SMALL_TALK = [
    "garden",
    "weather",
    "lunch",
    "music",
    "cycling",
    "football",
    "shopping",
    "neighbours",
    "holidays",
    "cooking",
    "painting",
    "trains",
]


def said(session: int, planted: list[str]) -> Iterator[str]:
    """The turns of one conversation: small talk with what is planted somewhere in it."""
    chance = Random(f"remembering {session}")
    places = dict(zip(sorted(chance.sample(range(TURNS), len(planted))), planted, strict=True))
    for turn in range(TURNS):
        words = " and ".join(chance.sample(SMALL_TALK, 3))
        yield f"m{session}x{turn} plain {places.get(turn, f'Let us talk about {words} for a while, number {turn}.')}"


async def in_telegram(telegram: FakeTelegram, *texts: str) -> list[str]:
    """Write in Telegram; the answers, in order."""
    before = len(telegram.sent(ANN))
    for text in texts:
        await telegram.world.say(text)
    return [sent.text for sent in (await telegram.wait_sent(ANN, before + len(texts)))[before:]]


async def recalled(telegram: FakeTelegram, question: str) -> str:
    """The whole answer to one question: ten quotes are longer than a message of Telegram may be."""
    before = len(telegram.sent(ANN))
    await telegram.world.say(question)
    sent = (await telegram.wait_sent(ANN, before + 1))[before:]
    while not ENDS.search(sent[-1].text):
        sent = (await telegram.wait_sent(ANN, before + len(sent) + 1))[before:]
    return "\n".join(part.text for part in sent)


def pairs(facts: dict[str, tuple[str, str]], number: int) -> list[str]:
    """Which facts are planted in a conversation: two in each of five."""
    return list(facts)[2 * number : 2 * number + 2]


async def in_terminal(home: Installation, session: str, *texts: str) -> list[str]:
    """Write in a terminal; the answers, in order."""
    async with asyncio.timeout(60), attach(home.state / "goclaw.sock", session) as client:
        for text in texts:
            await client.submit(text)
        answers = []
        async for event in client.receive():
            if isinstance(event, TurnFinished):
                answers.append(event.text)
                if len(answers) == len(texts):
                    return answers
    raise AssertionError("the daemon closed the connection")


@pytest.mark.deep
async def test_twenty_things_that_were_told_in_300_turns_are_found_again(
    home: Installation, telegram: FakeTelegram
) -> None:
    await home.start(telegram)
    for number in range(5):
        await in_telegram(telegram, *said(number, pairs(PLANTED, number)))
        assert "Compaction completed!" in (await in_telegram(telegram, "/compact"))[0]
        await in_telegram(telegram, "/new")
        session = f"tui:evening{number}"
        await in_terminal(home, session, *said(5 + number, pairs(ELSEWHERE, number)))
        assert (await home.run("send", "--session", session, "/compact")).code == 0
    assert home.read("SELECT count(*) FROM messages WHERE role = 'user'") == [(10 * TURNS,)]
    asked = [f"m9{number} recall {question}" for number, (question, _) in enumerate(PLANTED.values())]
    answers = [await recalled(telegram, question) for question in asked]
    asked = [f"m8{number} anywhere {question}" for number, (question, _) in enumerate(ELSEWHERE.values())]
    answers += await in_terminal(home, "tui:morning", *asked)
    expected = [word for _, word in (*PLANTED.values(), *ELSEWHERE.values())]
    lacking = [word for word, answer in zip(expected, answers, strict=True) if word not in answer]
    assert not lacking, answers
