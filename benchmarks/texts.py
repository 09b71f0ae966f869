"""What people, models and tools send: texts of several kinds and languages, from this repository, Python's standard
library, and sentences written for this purpose. The estimate's weights were fitted to other texts than these.
"""

import difflib
import http
import inspect
import json
import mimetypes
import random
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gateways import ROOT

PIECE = 1_600
"""Characters of one text: between a chat message and a tool's answer."""

CHAT: Mapping[str, Sequence[str]] = {
    "English": (
        "Could you look at the numbers from last week and tell me why Tuesday is so low?",
        "Thanks! The harbour master called back: berth 14 is free from Friday, but only until the regatta begins.",
        "I tried what you said and it still fails, though now with another message. Let me paste it below.",
        "Sure, that works for me. Please book the 9:40 train and send the confirmation to both of us.",
        "There are three ways to do this. The first is the quickest, the second is easier to undo, and the third costs "
        "nothing at all but takes a weekend. I would begin with the second one and see how far we get.",
        "Honestly I don't remember who decided that, but it was before the summer and Anna was there as well.",
    ),
    "German": (
        "Kannst du dir bitte die Zahlen der letzten Woche ansehen und mir sagen, warum der Dienstag so niedrig ist?",
        "Danke! Der Hafenmeister hat zurückgerufen: Liegeplatz 14 ist ab Freitag frei, allerdings nur bis zur Regatta.",
        "Ich habe es so gemacht, wie du vorgeschlagen hast, aber es schlägt weiterhin fehl, jetzt mit einer anderen "
        "Fehlermeldung. Ich füge sie unten ein.",
        "Die Geschwindigkeitsbegrenzung auf der Umgehungsstraße gilt übrigens erst ab übernächstem Montag.",
        "Es gibt drei Möglichkeiten. Die erste ist die schnellste, die zweite lässt sich leichter rückgängig machen, "
        "und die dritte kostet gar nichts, dauert aber ein ganzes Wochenende. Ich würde mit der zweiten anfangen.",
        "Ehrlich gesagt weiß ich nicht mehr, wer das entschieden hat, aber es war vor dem Sommer, und Änne war dabei.",
    ),
    "French": (
        "Peux-tu regarder les chiffres de la semaine dernière et me dire pourquoi le mardi est si bas ?",
        "Merci ! Le capitaine du port a rappelé : la place 14 est libre à partir de vendredi, mais seulement jusqu'au "
        "début de la régate.",
        "J'ai essayé ce que tu as proposé et cela échoue toujours, avec un autre message d'erreur cette fois-ci.",
        "D'accord, réserve le train de 9 h 40 et envoie-nous la confirmation à tous les deux, s'il te plaît.",
        "Il y a trois façons de s'y prendre. La première est la plus rapide, la deuxième est plus facile à défaire et "
        "la troisième ne coûte rien du tout, mais elle prend un week-end. Je commencerais par la deuxième.",
        "Franchement, je ne me souviens plus de qui a décidé cela ; c'était avant l'été, et Hélène était là aussi.",
    ),
    "Russian": (
        "Посмотри, пожалуйста, цифры за прошлую неделю и скажи, почему во вторник так мало.",
        "Спасибо! Начальник порта перезвонил: четырнадцатое место свободно с пятницы, но только до начала регаты.",
        "Я сделал так, как ты предложил, но ошибка осталась, только теперь сообщение другое. Вставлю его ниже.",
        "Хорошо, забронируй поезд на 9:40 и отправь подтверждение нам обоим.",
        "Есть три способа. Первый самый быстрый, второй легче отменить, а третий ничего не стоит, но займёт целые "
        "выходные. Я бы начал со второго и посмотрел, что получится.",
        "Честно говоря, я не помню, кто это решил, но это было до лета, и Анна тоже присутствовала.",
    ),
    "Chinese": (
        "请看一下上周的数据，告诉我为什么星期二的数字这么低。",
        "谢谢！港口负责人回电话了：十四号泊位从星期五开始空着，但是只能用到帆船比赛开始之前。",
        "我按照你说的做了，还是失败，不过这次的错误信息不一样，我把它贴在下面。",
        "好的，请预订九点四十分的火车，并把确认信发给我们两个人。",
        "有三种办法：第一种最快，第二种比较容易撤销，第三种完全不花钱，但是要用一整个周末。我建议先试第二种，看看效果怎么样。",
        "说实话，我不记得是谁决定的了，不过那是夏天以前的事，当时安娜也在场。",
    ),
    "Japanese": (
        "先週の数字を見て、火曜日がなぜこんなに低いのか教えてもらえますか。",
        "ありがとうございます。港の責任者から電話がありました。十四番の場所は金曜日から空いていますが、レガッタが始まるまでだそうです。",
        "言われたとおりにやってみましたが、まだ失敗します。今度は別のエラーメッセージが出るので、下に貼り付けますね。",
        "はい、大丈夫です。九時四十分の電車を予約して、確認メールを二人に送ってください。",
        "方法は三つあります。一番目は一番速く、二番目は元に戻しやすく、三番目はお金がかかりませんが、週末が丸ごと必要です。まず二番目から試してみましょう。",
        "正直に言うと、誰が決めたのか覚えていません。でも夏の前のことで、アンナさんもいました。",
    ),
    "emoji": (
        "haha yes 😂😂 see you at 7 🍕",
        "Done ✅ the boat is back in the water ⛵️🌊 weather tomorrow: ☀️ 24°",
        "🎉 Happy birthday!!! 🎂🥳 hope you have a great day ❤️",
        "not sure 🤔 maybe ask Tom? he knows the way 🗺️➡️🏔️",
        "👍👍 thx",
        "omg the 🦞 escaped again 😱 it's behind the fridge 🙈",
    ),
}
"""Messages of people, by language."""
LANGUAGES = tuple(name for name in CHAT if name not in ("English", "emoji"))


def texts() -> dict[str, list[str]]:
    """The corpus, by kind."""
    spoken = {name: [" ".join(said[at : at + 2]) for at in range(0, len(said), 2)] for name, said in CHAT.items()}
    return {**spoken, "Markdown": markdown(), "Python": python(), "JSON": data(), "tool output": tool_output()}


def markdown() -> list[str]:
    """The documentation."""
    return [piece for path in sorted((ROOT / "docs").glob("*.md")) for piece in cut(path.read_text("utf-8"))[:3]]


def python() -> list[str]:
    """Our code, and that of others."""
    library = Path(sysconfig.get_path("stdlib"))
    chosen = [
        *sorted((ROOT / "goclaw" / "durable" / "engine").glob("*.py"))[:6],
        *(library / name for name in ("http/client.py", "email/message.py", "unittest/case.py", "logging/config.py")),
    ]
    return [piece for path in chosen for piece in cut(path.read_text("utf-8"))[1:4]]


def data() -> list[str]:
    """JSON, written for people and for machines."""
    people = [
        {
            "id": 1_000 + 37 * number,
            "name": f"user{number}",
            "mail": f"user{number}@example.org",
            "old": number % 3 == 0,
        }
        for number in range(40)
    ]
    statuses = [{"code": int(status), "name": status.name, "phrase": status.phrase} for status in http.HTTPStatus]
    values: list[object] = [statuses, people, mimetypes.types_map, dict(list(sysconfig.get_config_vars().items())[:60])]
    written = [json.dumps(value, default=str, indent=indent) for indent in (None, 2) for value in values]
    return [piece for text in written for piece in cut(text)[:3]]


def tool_output() -> list[str]:
    """Listings, logs, differences, search results, a traceback."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    old, new = (inspect.getsource(module).splitlines()[:400] for module in (difflib, traceback))
    kinds = (
        [f"-rw-r--r-- 1 root root {path.stat().st_size:>7} Mar  3 09:41 {path.name}" for path in files],
        _log(random.Random(4)),
        list(difflib.unified_diff(old, new, "a/difflib.py", "b/difflib.py", lineterm="")),
        [found for path in files[:60] for found in _found("import", path)],
    )
    return [*(piece for lines in kinds for piece in cut("\n".join(lines))[:5]), _traceback()]


def _log(chance: random.Random) -> list[str]:
    return [
        f"2026-03-03 09:{number // 60:02}:{number % 60:02},{chance.randrange(1_000):03} "
        f"{chance.choice(('INFO', 'DEBUG', 'WARNING'))} worker-{chance.randrange(8)} "
        f"request {chance.randbytes(6).hex()} took {chance.random() * 900:.1f} ms status=200"
        for number in range(120)
    ]


def _found(word: str, path: Path) -> list[str]:
    lines = enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
    return [f"{path.name}:{number}:{line}" for number, line in lines if word in line]


def _traceback() -> str:
    try:
        json.loads("{'a': 1}")
    except ValueError:
        return traceback.format_exc()
    raise AssertionError("this is no JSON")


def cut(text: str) -> list[str]:
    """Pieces of the usual length; a shorter rest is left out, unless it is all there is."""
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    return pieces[:-1] or pieces
