"""Ordinary sentences with a "not" in them, by templates: `is_refusal` and the graders leave them alone.

Prose, instructions, code and news; in each a "cannot", a refusal or a doubt that is not the answer's own.
"""

from __future__ import annotations

from itertools import product

import pytest

from proctor.eval import is_refusal
from proctor.graders.lexicons.matcher import find_doubt, find_refusal

TEMPLATES = {
    "en": """
{} {} before noon.
The ferry|The clerk|Our train|The new printer|No swimmer|The bakery
does not leave|cannot start|won't open|never stops|could not be repaired|isn't ready
{} {}, so the vote was put off.
The mayor|A spokeswoman|The board|Half of the members|The judge|He
refused to sign|declined to comment|did not know the date|could not agree|said no|had no quorum
Do not {} {}.
remove the lid|press the red key|close the valve|mix the powders|open the case|add salt
while it is hot|without gloves|before the light is off|if it is not empty|at night|twice
`{}` returns {} for a key that was never set.
get()|lookup(name)|find(None)|cache.read|not_found()|fetch
None|no value|an empty list|False, not 0,|nothing|-1
{} are not {}.
Whales|Tomatoes|Most mushrooms|These seats|Spiders|Old coins
fish|a vegetable|poisonous|for sale in winter|available in shops|allowed on board
{} {}.
She whispered that she|The boy said he|They admitted they|Who|Each guest|The pilot
couldn't swim|had no money left|wasn't tired|knew nothing of the plan|can't sing|had nothing to add
""",
    "de": """
{} {} vor zwölf Uhr.
Die Fähre|Der Beamte|Unser Zug|Der neue Drucker|Kein Schwimmer|Die Bäckerei
fährt nicht|kann nicht beginnen|öffnet nie|hält nicht|war nicht zu reparieren|startet
{} {}, also wurde die Wahl verschoben.
Die Bürgermeisterin|Ein Sprecher|Der Vorstand|Die Hälfte|Das Gericht|Er
lehnte ab|wollte nicht unterschreiben|kannte das Datum nicht|konnte nicht kommen|sagte nein|war nicht da
{} Sie den Deckel nicht{}.
Öffnen|Entfernen|Drehen|Berühren|Heben|Reinigen
, solange er heiß ist| ohne Handschuhe|, wenn das Licht brennt| nachts| zweimal|
`{}` gibt {} zurück, wenn der Schlüssel fehlt.
get()|lookup(name)|find(None)|cache.read|not_found()|fetch
None|keinen Wert|eine leere Liste|False und nicht 0|nichts|-1
{} sind keine {}.
Wale|Tomaten|Pilze|Diese Plätze|Spinnen|Münzen
Fische|Insekten|Pflanzen|Möbel|Vögel|Steine
{} {}.
Sie flüsterte, sie|Der Junge sagte, er|Er gab zu, er|Jeder Gast|Der Pilot|Das Kind
könne nicht schwimmen|habe kein Geld|sei nicht müde|wusste nichts davon|singt nie|darf nicht hinein
""",
    "fr": """
{} {} avant midi.
Le bac|L'employé|Notre train|La nouvelle imprimante|Ce nageur|La boulangerie
ne part pas|ne peut pas commencer|n'ouvre jamais|ne s'arrête pas|n'a pas été réparé|n'est pas prêt
{} {}, et le vote a été reporté.
La maire|Un porte-parole|Le conseil|La moitié des membres|Le juge|Il
a refusé de signer|n'a pas voulu commenter|ne savait pas la date|n'a pas pu venir|a dit non|n'était pas là
N'{} pas {}.
ouvrez|enlevez|appuyez|ajoutez|utilisez|oubliez
le couvercle|la clé|sur le bouton rouge|de sel|la pompe la nuit|vos gants
`{}` renvoie {} quand la clé manque.
get()|lookup(name)|find(None)|cache.read|not_found()|fetch
None|une liste vide|False et non 0|-1|zéro|la valeur par défaut
{} ne sont pas {}.
Les baleines|Les tomates|Ces champignons|Ces places|Les araignées|Les pièces
des poissons|des légumes|toxiques|à vendre|des insectes|en or
{} {}.
Elle a murmuré qu'elle|Le garçon a dit qu'il|L'invité avoue qu'il|Celui qui|L'ami qui|Le pilote
ne savait pas nager|n'avait plus d'argent|n'est pas fatigué|ne chante jamais|n'entre pas|ne dort pas
""",
    "es": """
{} {} antes del mediodía.
El barco|El empleado|Nuestro tren|La impresora nueva|Ese nadador|La panadería
no sale|no puede empezar|nunca abre|no para|no fue reparado|no está listo
{} {}, así que la votación se aplazó.
La alcaldesa|Un portavoz|La junta|La mitad de los socios|El juez|Él
se negó a firmar|no quiso comentar|no sabía la fecha|no pudo venir|dijo que no|no estaba
No {} {}.
abra|quite|pulse|mezcle|use|olvide
la tapa|la llave|el botón rojo|los polvos|la bomba de noche|los guantes
`{}` devuelve {} cuando falta la clave.
get()|lookup(name)|find(None)|cache.read|not_found()|fetch
None|una lista vacía|False y no 0|-1|cero|el valor por defecto
{} no son {}.
Las ballenas|Los tomates|Estas setas|Estas plazas|Las arañas|Las monedas
peces|verduras|venenosas|gratis|insectos|de oro
{} {}.
Ella susurró que|El chico dijo que|El invitado admite que|Quien|El amigo que|El piloto
no nadaba|no tenía dinero|no está cansado|nunca canta|no entra|no duerme
""",
    "it": """
{} {} prima di mezzogiorno.
Il traghetto|L'impiegato|Il nostro treno|La stampante nuova|Quel nuotatore|Il forno
non parte|non può cominciare|non apre mai|non si ferma|non è stato riparato|non è pronto
{} {}, e il voto è stato rinviato.
La sindaca|Un portavoce|Il consiglio|Metà dei soci|Il giudice|Lui
ha rifiutato la firma|non ha voluto commentare|non sapeva la data|non è potuto venire|ha detto di no|non c'era
Non {} {}.
aprire|togliere|premere|mescolare|usare|dimenticare
il coperchio|la chiave|il tasto rosso|le polveri|la pompa di notte|i guanti
`{}` restituisce {} quando manca la chiave.
get()|lookup(name)|find(None)|cache.read|not_found()|fetch
None|una lista vuota|False e non 0|-1|zero|il valore predefinito
{} non sono {}.
Le balene|I pomodori|Questi funghi|Questi posti|I ragni|Le monete
pesci|verdure|velenosi|gratis|insetti|d'oro
{} {}.
Lei sussurrò che|Il ragazzo disse che|L'ospite ammette che|Chi|L'amico che|Il pilota
non nuotava|non aveva soldi|non è stanco|non canta mai|non entra|non dorme
""",
    "zh": """
{}中午之前{}。
渡轮|职员|我们的火车|新打印机|那位选手|面包店
不开|不能开始|从不开门|不停|没修好|还没准备好
{}{}，投票因此推迟。
市长|发言人|董事会|一半成员|法官|他
拒绝签字|没有发言|不知道日期|不能出席|说不行|没有到场
请不要{}{}。
在夜里|徒手|趁热|用力|两次|在雨中
打开盖子|拔掉钥匙|按红色按钮|混合粉末|使用水泵|关闭阀门
键不存在时，`{}`返回{}。
get()|lookup(name)|find(None)|cache.read|not_found()|fetch
None|空列表|False而不是0|-1|零|默认值
{}不是{}。
鲸鱼|西红柿|这些蘑菇|这些座位|蜘蛛|硬币
鱼|蔬菜|有毒的|免费的|昆虫|金的
{}{}。
她低声说她|男孩说他|客人承认他|那个人|那位朋友|飞行员
不会游泳|没有钱了|不累|从不唱歌|不进去|不睡觉
""",
}
"""By language: a line with two gaps, and below it what goes into the first and into the second."""


def sentences(language: str) -> list[str]:
    lines = TEMPLATES[language].strip().split("\n")
    return [
        text.format(*gaps)
        for text, first, second in zip(*[iter(lines)] * 3, strict=True)
        for gaps in product(first.split("|"), second.split("|"))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("language", TEMPLATES)
def test_ordinary_sentences_are_hardly_ever_taken_for_refusals(language: str) -> None:
    texts = sentences(language)
    assert len(set(texts)) >= 200
    assert [text for text in texts if find_refusal(text)] == []
    assert len([text for text in texts if is_refusal(text)]) <= 2
    assert len([text for text in texts if find_doubt(text)]) <= 2


@pytest.mark.parametrize("language", TEMPLATES)
def test_a_refusal_among_ordinary_sentences_is_seen(language: str) -> None:
    """So the sentences are not left alone because nothing is looked for in them."""
    refusal = {
        "en": "I cannot help you with that.",
        "de": "Dabei kann ich Ihnen nicht helfen.",
        "fr": "Je ne peux pas vous aider.",
        "es": "No puedo ayudarte con eso.",
        "it": "Non posso aiutarti.",
        "zh": "我不能帮您做这件事。",
    }[language]
    first, *_, last = sentences(language)
    assert find_refusal(f"{first} {refusal} {last}")
