"""The 200 terms that string constraints of the experiment U8 compare with.

Paper U takes the 200 most common meaningful terms of a large corpus of news reports. That list is
not available, so this one was written for the purpose: nouns, verbs and adjectives that are common
in English news reports, roughly the most common first. No corpus was counted.
"""

from __future__ import annotations

from typing import Final

_LIST: Final = """
    said year people government president new time state market company percent million country
    police minister city week world group party report official leader day month home work war house
    school law trade price court public power bank case right service health money plan program deal
    vote election child man woman family american national political international foreign local
    military economic federal former high big early late last next first second long small large
    major good bad attack force army peace death troop security crime charge trial judge lawyer
    prison victim fire storm water oil gas food drug hospital doctor patient research study student
    university teacher team game season player coach win loss score record club film music book show
    star art street road car train air flight ship port border town village island region north
    south east west member office board chief director manager worker union job strike wage tax
    budget cost cut rate rise fall growth loan debt share stock fund investor profit sale product
    industry factory farm land property building computer network phone internet technology science
    space energy nuclear weapon missile test treaty talk meeting summit agreement crisis effort
    issue problem question decision policy reform rule campaign poll candidate
"""
TERMS: Final = tuple(_LIST.split())
