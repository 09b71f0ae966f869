"""Moments as people say them, in six languages: `tomorrow 8`, `heute Abend um acht`, `dans 20 minutes`.

The words of a language become signs (`D1` tomorrow, `W4` Friday, `N12` December, `@` at, `#8` eight, `P2` in the
evening, `p2` evening …), and one grammar reads the signs of all. A day without a time is no moment, nor is a number
alone. The libraries for it understand a third (`benchmarks/spoken_times.py`).
"""

import re
import unicodedata
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from goclaw.conversation.schedules.times import Moment, in_zone

_VOCABULARIES = (  # English, German, French, Spanish, Italian, Portuguese
    "D0=today|D1=tomorrow|D2=the day after tomorrow,day after tomorrow|D0 P3=tonight|D0 P1=this morning|"
    "D0 P2=this afternoon,this evening|P1=in the morning|P2=in the afternoon,in the evening|P3=at night|p1=morning|"
    "p2=afternoon,evening|p3=night|W=monday,tuesday,wednesday,thursday,friday,saturday,sunday|W=mon,tue,wed,thu,fri,"
    "sat.,sun.|N=january,february,march,april,may,june,july,august,september,october,november,december|N=jan,feb,mar,"
    "apr,may,jun,jul,aug,sep,oct,nov,dec|in=in|one=a,an|half h=half an hour|s=second,seconds,sec|m=minute,minutes,min,"
    "mins|h=hour,hours|d=day,days|w=week,weeks|o=o'clock|pm=pm,p.m.|am=am,a.m.|@=at|30 +=half past|15 +=quarter past|"
    "15 -=quarter to|+=past|-=to|12:00=noon,midday|24:00=midnight|=on,the,next,of|#=zero,one,two,three,four,five,six,"
    "seven,eight,nine,ten,eleven,twelve",
    "D0=heute|D1=morgen|D2=übermorgen|P1=morgens,vormittags,am morgen,am vormittag|P2=nachmittags,abends,am nachmittag,"
    "am abend|P3=nachts,in der nacht|p1=früh,morgen,vormittag|p2=nachmittag,abend|p3=nacht|D0 P1=heute früh,"
    "heute morgen|W=montag,dienstag,mittwoch,donnerstag,freitag,samstag,sonntag|W=mo.,di.,mi.,do.,fr.,sa.,so.|N=januar,"
    "februar,märz,april,mai,juni,juli,august,september,oktober,november,dezember|N=jan,feb,mär,apr,mai,jun,jul,aug,sep,"
    "okt,nov,dez|in=in|one=ein,eine,einer,einem|half h=einer halben stunde|s=sekunde,sekunden|m=minute,minuten,min|"
    "h=stunde,stunden,std|d=tag,tagen|w=woche,wochen|o=uhr,h|@=um,gegen|-30=halb|15 +=viertel nach|15 -=viertel vor|"
    "+=nach|-=vor|12:00=mittag,mittags,am mittag|15 m=einer viertelstunde|24:00=mitternacht|=am,den,der,nächsten,"
    "kommenden|#=null,eins,zwei,drei,vier,fünf,sechs,sieben,acht,neun,zehn,elf,zwölf",
    "D0=aujourd'hui|D1=demain|D2=après-demain,après demain|D0 P1=ce matin|D0 P2=ce soir,cet après-midi|"
    "D0 P3=cette nuit|P1=du matin|P2=du soir,de l'après-midi|p1=matin|p2=soir,après-midi|W=lundi,mardi,mercredi,jeudi,"
    "vendredi,samedi,dimanche|N=janvier,février,mars,avril,mai,juin,juillet,août,septembre,octobre,novembre,décembre|"
    "in=dans|one=un,une|half h=une demi-heure,une demi heure|s=seconde,secondes|m=minute,minutes,min|h=heure,heures,h|"
    "d=jour,jours|w=semaine,semaines|@=à,vers|+30=et demie,et demi|+15=et quart|-15=moins le quart|less=moins|"
    "15 m=un quart d'heure|12:00=midi|24:00=minuit|=le,prochain|#=zéro,une,deux,trois,quatre,cinq,six,sept,huit,neuf,"
    "dix,onze,douze",
    "D0=hoy|D1=mañana|D2=pasado mañana|D0 P1=esta mañana|D0 P2=esta tarde|D0 P3=esta noche|P1=por la mañana,"
    "de la mañana|P2=por la tarde,de la tarde|P3=por la noche,de la noche|W=lunes,martes,miércoles,jueves,viernes,"
    "sábado,domingo|N=enero,febrero,marzo,abril,mayo,junio,julio,agosto,septiembre,octubre,noviembre,diciembre|in=en,"
    "dentro de|one=un,una|half h=media hora|s=segundo,segundos|m=minuto,minutos,min|h=hora,horas,h|d=día,días|w=semana,"
    "semanas|@=a las,las|@ #1=a la una|+30=y media|+15=y cuarto|-15=menos cuarto|less=menos|15 m=un cuarto de hora|"
    "12:00=mediodía,a mediodía|24:00=medianoche,a medianoche|=el,al,de,del,próximo|#=cero,una,dos,tres,cuatro,cinco,"
    "seis,siete,ocho,nueve,diez,once,doce",
    "D0=oggi|D1=domani|D2=dopodomani|D0 P1=stamattina|D0 P2=stasera,oggi pomeriggio|D0 P3=stanotte|P1=di mattina,"
    "del mattino|P2=di sera,della sera,di pomeriggio,del pomeriggio|P3=di notte|p1=mattina|p2=sera,pomeriggio|p3=notte|"
    "W=lunedì,martedì,mercoledì,giovedì,venerdì,sabato,domenica|N=gennaio,febbraio,marzo,aprile,maggio,giugno,luglio,"
    "agosto,settembre,ottobre,novembre,dicembre|in=tra,fra|one=un,una|half h=mezz'ora,mezzora|one h=un'ora|s=secondo,"
    "secondi|m=minuto,minuti,min|h=ora,ore|d=giorno,giorni|w=settimana,settimane|@=alle,alle ore,verso le|@ #1=all'una|"
    "+30=e mezza,e mezzo|+15=e un quarto|-15=meno un quarto|less=meno|12:00=a mezzogiorno,mezzogiorno|"
    "24:00=a mezzanotte,mezzanotte|=il,prossimo|#=zero,una,due,tre,quattro,cinque,sei,sette,otto,nove,dieci,undici,"
    "dodici",
    "D0=hoje|D1=amanhã|D2=depois de amanhã|D0 P1=esta manhã|D0 P2=esta tarde|D0 P3=esta noite|P1=de manhã,da manhã|"
    "P2=à tarde,da tarde|P3=à noite,da noite|W=segunda,terça,quarta,quinta,sexta,sábado,domingo|W=segunda-feira,"
    "terça-feira,quarta-feira,quinta-feira,sexta-feira,-,-|N=janeiro,fevereiro,março,abril,maio,junho,julho,agosto,"
    "setembro,outubro,novembro,dezembro|in=em,daqui a,dentro de|one=um,uma|half h=meia hora|s=segundo,segundos|"
    "m=minuto,minutos,min|h=hora,horas,h|one d=um dia|d=dias|w=semana,semanas|@=às|@ #1=à uma|+30=e meia|"
    "15 -=quinze para as|less=menos|12:00=meio-dia,ao meio-dia|24:00=meia-noite,à meia-noite|=na,no,de,próxima,próximo,"
    "dia|#2=dois|#=zero,uma,duas,três,quatro,cinco,seis,sete,oito,nove,dez,onze,doze",
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_COUNT = r"(?P<count>#?[0-9]{1,4}|one|half)"
_IN = rf"in {_COUNT} (?P<unit>[smhdw])"
_PART = r"P([1-3])|(?<=[DW][0-6] )p([1-3])"
_DAYS = tuple(
    rf"(?<![^ ]){form}(?![^ ])"
    for form in (
        r"D(?P<on>[0-2])",
        r"(?:W[0-6] )?(?P<day>[0-9]{1,2})\.? N(?P<month>[0-9]{1,2})(?: (?P<year>[0-9]{4}))?",
        r"(?:W[0-6] )?N(?P<month>[0-9]{1,2}) (?P<day>[0-9]{1,2})(?: (?P<year>[0-9]{4}))?",
        r"(?:W[0-6] )?(?P<day>[0-9]{1,2})(?P<sign>[./])(?P<month>[0-9]{1,2})(?:(?P=sign)(?P<year>[0-9]{4})?)?",
        r"W(?P<weekday>[0-6])",
        rf"in {_COUNT} (?P<unit>[dw])",
    )
)
_TIME = (
    r"(?P<at>@ )?(?:(?P<before>15|30|#[0-9]+|[0-9]{1,2} m) (?P<way>[+-]) |(?P<half>-30 ))?(?P<hour>#?[0-9]{1,2}|one)"
    r"(?:[:.](?P<minute>[0-9]{2}))?(?P<suffix> [ho]| [ap]m)?(?: (?P<minutes>[0-9]{2})(?<= [ho] [0-9]{2}))?"
    r"(?: (?P<more>[+-][0-9]{2})| less (?P<less>#?[0-9]{1,2}))?"
)
_ORDINAL = r"(?<=[0-9])(?:st|nd|rd|th|er|[º°])(?=\s|,|$)"
"""None is compiled before it is used: `re` keeps them then."""
_NOON, _NIGHT, _DAWN, _LAST_HOUR, _MINUTES = 12, 3, 6, 24, 60
_LONGEST = 4  # words of an entry of a vocabulary


def read_moment(text: str, now: float, zone: tzinfo) -> Moment | None:
    """Return the moment that the whole text says in one of the languages; None: it says none."""
    for language in range(len(_VOCABULARIES)):
        if (signs := _signs(text, language)) and (found := _parse(signs, now, zone)):
            return found
    return None


def _signs(text: str, language: int) -> str:
    """Return a text in signs; empty if it has an unknown word, or ends in one that says nothing."""
    words, known, found = _plain(re.sub(_ORDINAL, "", text)).split(), _vocabulary(language), [""]
    while words:
        count = next((size for size in range(_LONGEST, 0, -1) if " ".join(words[:size]) in known), 0)
        if not count and not words[0][0].isdecimal():
            return ""
        found.append(known[" ".join(words[:count])] if count else words[0])
        words = words[count or 1 :]
    return " ".join(filter(None, found)) if found[-1] else ""


def _plain(text: str) -> str:
    """Return a text in small letters without accents, with a space between a number and letters."""
    letters = unicodedata.normalize("NFD", text.lower().replace("’", "'"))
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"(?<=[0-9])(?=[a-z])|(?<=[a-z])(?=[0-9])|,(?=\s|$)", " ", bare)


@lru_cache(maxsize=len(_VOCABULARIES))
def _vocabulary(language: int) -> dict[str, str]:
    """Return the sign of each word or phrase; `W`, `N` and `#` number what they list."""
    known = dict[str, str]()
    for entry in _VOCABULARIES[language].split("|"):
        sign, _, phrases = entry.partition("=")
        for number, phrase in enumerate(phrases.split(","), start=sign == "N"):
            known.setdefault(_plain(phrase).strip(), f"{sign}{number}" if sign in ("W", "N", "#") else sign)
    return known


def _parse(signs: str, now: float, zone: tzinfo) -> Moment | None:
    if found := re.fullmatch(_IN, signs):
        return Moment(now + _count(found["count"]) * _UNITS[found["unit"]], by_duration=True)
    part = re.search(_PART, signs)
    if part:
        signs = " ".join(f"{signs[: part.start()]} {signs[part.end() :]}".split())
    for form in (*_DAYS, ""):
        if (day := re.search(form, signs)) and (
            clock := re.fullmatch(_TIME, " ".join(f"{signs[: day.start()]} {signs[day.end() :]}".split()))
        ):
            return _moment(day, clock, int(part[1] or part[2]) if part else 0, now, zone)
    return None


def _moment(day: re.Match[str], clock: re.Match[str], part: int, now: float, zone: tzinfo) -> Moment | None:
    """Return the moment of a day and a time; None: there is no such day or time, or it is too vague."""
    is_bare = not (clock["at"] or clock["minute"] or clock["suffix"] or clock["before"] or clock["half"])
    if (is_bare and (not day[0] or not clock["hour"].isdecimal())) or (
        clock["hour"] == "one" and (clock["suffix"] or "")[1:] not in ("h", "o")
    ):
        return None
    today = datetime.fromtimestamp(now, zone).date()
    try:
        minutes = _minutes(clock, part)
        said = _day(day, today)
        moment = _at(said or today, minutes, zone)
        given = day.groupdict()
        if moment <= now and given.get("on") == "0" and not (part or clock["suffix"]) and minutes < _NOON * _MINUTES:
            moment = _at(today, minutes + _NOON * _MINUTES, zone)  # "today at 6", said in the afternoon
        if moment <= now and (not said or given.get("weekday")):
            moment = _at((said or today) + timedelta(days=7 if said else 1), minutes, zone)
    except (ValueError, OverflowError):
        return None
    return Moment(moment)


def _day(found: re.Match[str], today: date) -> date | None:
    """Return the day that is said; None: any. Without its year it is the next one."""
    given = found.groupdict()
    if given.get("month"):
        year, month, day = int(given["year"] or today.year), int(given["month"]), int(given["day"])
        return date(year + (not given["year"] and (month, day) < (today.month, today.day)), month, day)
    if given.get("weekday"):
        return today + timedelta(days=(int(given["weekday"]) - today.weekday()) % 7)
    if given.get("count"):
        return today + timedelta(days=int(_count(given["count"]) * (7 if given["unit"] == "w" else 1)))
    return today + timedelta(days=int(given["on"])) if given.get("on") else None


def _minutes(clock: re.Match[str], part: int) -> int:
    """Return the minutes from midnight; raises ValueError for what no clock shows."""
    hour, minute = int(_count(clock["hour"])), int(clock["minute"] or clock["minutes"] or 0)
    suffix = (clock["suffix"] or "").strip()
    if hour > _LAST_HOUR or minute >= _MINUTES or (suffix in ("am", "pm") and not 1 <= hour <= _NOON):
        raise ValueError("no time of day")
    if suffix in ("am", "pm"):
        hour = hour % _NOON + _NOON * (suffix == "pm")
    elif part == _NIGHT and (hour == _NOON or hour < _DAWN):
        hour = hour % _NOON + 24
    elif part > 1 and hour < _NOON:
        hour += _NOON
    more = int(clock["more"] or 0) - int(_count(clock["less"] or "0")) - (30 if clock["half"] else 0)
    before = int(_count((clock["before"] or "0").split()[0]))
    return hour * _MINUTES + minute + more + (-before if clock["way"] == "-" else before)


def _count(text: str) -> float:
    return 0.5 if text == "half" else 1 if text == "one" else int(text.removeprefix("#"))


def _at(day: date, minutes: int, zone: tzinfo) -> float:
    return in_zone(datetime.combine(day, time()) + timedelta(minutes=minutes), zone).timestamp()
