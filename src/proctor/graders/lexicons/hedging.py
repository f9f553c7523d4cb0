"""Phrases of doubt and missing facts, in six languages, and where they stand in a text. Pure.

A phrase stands for its other spellings too: contractions ("don't", "do not"), tenses ("doesn't", "did not"),
ways of being unable ("can't", "unable to") and an adverb between ("don't really know"). Where nobody chose
the phrases, the words of not knowing of `refusal_words` count as well.
"""

from __future__ import annotations

import re
from functools import lru_cache

from proctor.graders.lexicons.matcher import doubting_words, outright, straight, trie

HEDGE_PHRASES: tuple[str, ...] = (
    *("do not know", "cannot know", "no way to know", "no reliable way", "have no idea"),
    *("not sure", "uncertain", "unclear", "is unknown", "cannot be sure"),
    *("cannot say", "cannot tell", "cannot determine", "cannot find", "cannot access", "unable to"),
    *("i do not have", "no access to", "without access", "you have not"),
    *("no information", "no mention", "not enough information", "not in my context"),
    *("not stated", "not specified", "not mentioned", "not provided", "not disclosed", "not available"),
    *("do not say", "do not mention", "not told"),
)
"""English phrases by which an answer admits that it does not know, is not sure or was not told."""

MORE_HEDGE_PHRASES: tuple[str, ...] = (
    *("not aware of", "not familiar with", "hard to say"),
    *("cannot verify", "cannot confirm", "do not have access"),
    *(
        "could be wrong",
        "may be wrong",
        "might be wrong",
        "may be mistaken",
        "might be mistaken",
        "could be mistaken",
    ),
    *(
        "if i remember correctly",
        "if i recall",
        "if memory serves",
        "if i am not mistaken",
        "if i'm not mistaken",
    ),
    *(
        "best guess",
        "educated guess",
        "my guess",
        "at a guess",
        "i would guess",
        "i'd guess",
        "i guess",
        "i suspect",
    ),
    *(
        "not certain",
        "no certainty",
        "without certainty",
        "not positive",
        "not confident",
        "hard to know",
        "not clear",
    ),
    *(
        "do not quote me",
        "as far as i know",
        "to the best of my knowledge",
        "cannot guarantee",
        "cannot vouch",
    ),
    *(
        "cannot swear",
        "not 100% sure",
        "not a hundred percent",
        "grain of salt",
        "pinch of salt",
        "i may be off",
    ),
    *("i believe", "i want to say", "remains disputed", "is disputed", "i am guessing"),
    *(
        "i'm guessing",
        "double-check",
        "off the top of my head",
        "from memory",
        "roughly speaking",
        "anyone's guess",
    ),
)
"""More of them, which the grader `hedges` looks for too."""

HEDGE_PHRASES_ELSEWHERE: dict[str, tuple[str, ...]] = {
    "de": (
        *("weiß ich nicht", "weiß nicht", "weiß es nicht", "weiß leider nicht", "keine ahnung"),
        *("nicht sicher", "unsicher", "ungewiss", "schwer zu sagen", "unklar", "unbekannt", "nicht bekannt"),
        *("nicht sagen", "nicht bestimmen", "nicht feststellen", "nicht ermitteln", "nicht beurteilen"),
        *(
            "nicht bestätigen",
            "nicht überprüfen",
            "keinen zugriff",
            "keine informationen",
            "bin ich mir nicht",
            "bin ich mir aber nicht",
            "bin ich nicht",
            "bin ich aber nicht",
        ),
        *("nicht angegeben", "nicht erwähnt", "nicht genannt", "geht nicht hervor", "nicht ersichtlich"),
        *("steht nichts", "kann mich irren", "nicht genau sagen", "nicht hervor", "weiß ich es nicht"),
        *("nennt keine", "enthält keine", "reichen nicht aus", "reicht nicht aus"),
        *(
            "nicht ganz sicher",
            "irre ich mich",
            "mich irren",
            "wenn ich mich recht erinnere",
            "ohne gewähr",
            "meines wissens",
        ),
        *(
            "soweit ich weiß",
            "ich vermute",
            "ich tippe",
            "vermutlich",
            "ich schätze",
            "mit vorsicht",
            "ohne garantie",
            "bin mir nicht",
        ),
        *(
            "soviel ich weiß",
            "schätzungsweise",
            "wenn ich nicht irre",
            "falls ich mich nicht irre",
            "aus dem kopf",
        ),
    ),
    "fr": (
        *("ne sais pas", "sais pas", "aucune idée", "j'ignore", "pas sûr", "pas sûre", "pas certain"),
        *("pas certaine", "incertain", "difficile à dire", "pas clair", "est inconnu", "est inconnue"),
        *("ne peux pas dire", "impossible de dire", "impossible de déterminer", "ne peux pas vérifier"),
        *("ne peux pas confirmer", "pas accès", "ne dispose pas", "aucune information", "aucune mention"),
        *("pas précisé", "non précisé", "pas mentionné", "pas indiqué", "ne précise pas", "ne dit pas"),
        *("ne mentionne pas", "peux me tromper", "sans certitude", "ne connais pas"),
        *("ne connais aucun", "ne donne aucun", "ne contient pas", "insuffisant", "insuffisants"),
        *("insuffisante", "insuffisantes"),
        *(
            "me trompe",
            "me tromper",
            "si je me souviens bien",
            "sauf erreur",
            "à ma connaissance",
            "sous toute réserve",
        ),
        *(
            "sous réserve",
            "je suppose",
            "je dirais",
            "vraisemblablement",
            "il me semble",
            "sans en être",
            "pas entièrement sûr",
        ),
        *(
            "pas tout à fait sûr",
            "pas sûre à",
            "de mémoire",
            "autant que je sache",
            "sans garantie",
            "si ma mémoire est bonne",
        ),
        *("pas totalement", "je crois", "sans pouvoir l'affirmer", "à vue de nez"),
    ),
    "es": (
        *("no lo sé", "no sé", "ni idea", "desconozco", "no estoy seguro", "no estoy segura"),
        *(
            "incierto",
            "difícil de decir",
            "difícil decir",
            "no está claro",
            "se desconoce",
            "es desconocido",
            "es desconocida",
        ),
        *("no puedo decir", "no se puede determinar", "no puedo determinar", "no puedo verificar"),
        *("no puedo confirmar", "no sabría decir", "no tengo acceso", "no tengo información"),
        *("no hay información", "información insuficiente", "no especificado", "no se especifica"),
        *("no se menciona", "no menciona", "no dice", "no indica", "puedo equivocarme", "no consta"),
        *("no dispongo", "no contiene", "no aparece", "insuficientes"),
        *(
            "equivocarme",
            "me equivoque",
            "si no me equivoco",
            "si mal no recuerdo",
            "si no recuerdo mal",
            "que yo sepa",
            "diría",
        ),
        *(
            "sin certeza",
            "sin total certeza",
            "no estoy del todo",
            "no del todo",
            "difícil decirlo",
            "supongo",
            "creo recordar",
        ),
        *(
            "no sabría",
            "no lo tengo claro",
            "a ojo",
            "de memoria",
            "salvo error",
            "no con certeza",
            "no podría asegurar",
            "no aseguro",
        ),
        *("hasta donde sé", "calculo que", "no pondría la mano", "no es seguro", "tal vez"),
    ),
    "it": (
        *("non lo so", "non so", "nessuna idea", "non ne ho idea", "ignoro", "non sono sicuro"),
        *("non sono sicura", "non sono certo", "non ne sono certo", "incerto", "difficile dire"),
        *(
            "difficile dirlo",
            "non è chiaro",
            "è sconosciuto",
            "è sconosciuta",
            "non posso dire",
            "non saprei",
        ),
        *("non è possibile stabilire", "non posso determinare", "non posso verificare"),
        *("non posso confermare", "non ho accesso", "non ho informazioni", "non ci sono informazioni"),
        *("informazioni insufficienti", "non specificato", "non è specificato", "non è indicato"),
        *("non menziona", "non dice", "potrei sbagliarmi", "non dispongo", "non contiene"),
        *("non mi risulta", "senza certezza", "non è possibile stabilirlo"),
        *(
            "sbagliarmi",
            "mi sbaglio",
            "se non sbaglio",
            "se ricordo bene",
            "se non ricordo male",
            "salvo errori",
            "per quanto ne so",
        ),
        *(
            "a quanto so",
            "che io sappia",
            "suppongo",
            "direi",
            "non del tutto",
            "non ne ho la certezza",
            "a occhio",
            "a memoria",
        ),
        *(
            "non ci giurerei",
            "con beneficio d'inventario",
            "non conosco",
            "presumo",
            "non ho la certezza",
            "non metterei la mano",
        ),
        *("non è certo", "non garantisco", "se la memoria non", "forse"),
    ),
    "zh": (
        *("不知道", "不清楚", "不了解", "不确定", "不太确定", "不敢肯定", "很难说", "说不准", "说不好"),
        *("无法确定", "无法判断", "无法得知", "无法确认", "不能确定", "难以确定", "不得而知", "没有权限"),
        *("没有相关信息", "信息不足", "未说明", "未提及", "未提到", "没有提到", "没有说明", "没有提供"),
        *("未提供", "未公开", "不详", "未知", "可能记错", "查不到", "找不到", "没有这方面"),
        *("没有包含", "未包含"),
        *(
            "不一定准确",
            "不能保证",
            "不敢保证",
            "仅供参考",
            "如果没记错",
            "如果我没记错",
            "没记错的话",
            "据我所知",
            "我猜",
            "可能不准",
        ),
        *(
            "不太肯定",
            "不能肯定",
            "不完全确定",
            "没有把握",
            "没把握",
            "拿不准",
            "记不太清",
            "记不清",
            "不好说",
            "说不清",
            "可能有误",
        ),
        *(
            "不确切",
            "印象中",
            "好像是",
            "多半",
            "难说",
            "也许",
            "未必准确",
            "不敢断言",
            "存疑",
            "有待核实",
            "凭记忆",
            "说不定",
        ),
    ),
}
"""The same in German, French, Spanish, Italian and Chinese."""

ALL_HEDGE_PHRASES: tuple[str, ...] = (
    *HEDGE_PHRASES,
    *MORE_HEDGE_PHRASES,
    *(phrase for phrases in HEDGE_PHRASES_ELSEWHERE.values() for phrase in phrases),
)
"""The phrases of all six languages, English first."""

_SPELLINGS = (
    *(("ß", "ss"), ("can't", "cannot"), ("can not", "cannot"), ("won't", "will not"), ("n't", " not")),
    *(("could not", "cannot"), (" been ", " ")),
    *(("does not", "do not"), ("did not", "do not"), ("do not state", "do not mention")),
    *(("do not specify", "do not mention"), ("do not disclose", "do not mention")),
    *(("unsure", "not sure"), ("not certain", "not sure"), ("be certain", "be sure")),
    *(("be determined", "determine"), ("cannot browse", "cannot access"), ("of knowing", "to know")),
    *(("impossible to know", "no way to know"), ("impossible to say", "hard to say")),
    *(("difficult to say", "hard to say"), ("insufficient ", "not enough "), ("have enough ", "enough ")),
    *(("not tell me", "not told me"), ("not shared", "not told")),
)
"""What is written in a text, and what is looked for instead; from top to bottom."""
_UNABLE = re.compile(r"(?:\bun|\bnot |n't )able to\b")
_FILLER = re.compile(
    r" (?:actually|really|currently|simply|personally|honestly|quite|entirely|completely|fully|exactly|yet"
    r"|any|that|specific|explicitly|directly|leider|genau|ganz|vraiment|malheureusement|realmente)(?= )"
)

_OTHERS = re.compile(
    r"\b(?:he|she|they|who|which|people)\s(?:\w{2,12}\s)?(?:(?:do|does|did|could|can|was|were|is|are|had|have|has)"
    r"(?:n['’]t|\snot)?|cannot)\s\w+|[他她们](?:[^，。]{0,4}?)(?:不|没)\w{0,3}"
)
"""Somebody else's doubt, in the clearest cases."""


def hedging_words(text: str, phrases: tuple[str, ...] = HEDGE_PHRASES) -> str | None:
    """The first of the phrases that stands in the text as whole words, as the phrase is written, or None.

    Case, apostrophes, white space and the spellings that the module names make no difference. "First" goes by
    the order of the phrases.

    Args:
        text: an answer.
        phrases: what is looked for anywhere in the text. With all of `HEDGE_PHRASES` among them, they add to
            the whole catalogue: all phrases of this module, and words of not knowing (then the words of the
            text are given), outside of quotations, code and conditions.
    """
    more = _beyond_the_catalogue(phrases)
    if more is None:
        return _phrase_in(text, phrases)
    catalogued = _phrase_in(_OTHERS.sub(" … ", outright(text)), ALL_HEDGE_PHRASES)
    return catalogued or _phrase_in(text, more) or doubting_words(text)


@lru_cache(maxsize=64)
def _beyond_the_catalogue(phrases: tuple[str, ...]) -> tuple[str, ...] | None:
    """What phrases add to the catalogue; None where they stand in its place."""
    if not set(HEDGE_PHRASES).issubset(phrases):
        return None
    return tuple(phrase for phrase in phrases if phrase not in ALL_HEDGE_PHRASES)


def _phrase_in(text: str, phrases: tuple[str, ...]) -> str | None:
    """The first phrase that stands in a text."""
    if not phrases:
        return None
    plain = _plain(text)
    any_form, forms = _forms(phrases)
    if any_form.search(plain) is None:
        return None
    for phrase, form in forms:
        if form in plain:
            from proctor.graders.text import place  # imports much, and most answers admit no doubt

            if place(form, plain, whole=True) >= 0:
                return phrase
    return None


def _plain(text: str) -> str:
    """The text in lower case, with one spelling for what has several."""
    plain = " ".join(straight(text.lower()).split())
    if "able to" in plain:  # both "cannot find" and "unable to" stand in "unable to find"
        plain = _UNABLE.sub(" unable to cannot", plain)
    for written, spelling in _SPELLINGS:
        plain = plain.replace(written, spelling)
    return _FILLER.sub("", plain)


@lru_cache(maxsize=64)
def _forms(phrases: tuple[str, ...]) -> tuple[re.Pattern[str], tuple[tuple[str, str], ...]]:
    """A pattern that every text with a phrase has, and each phrase with the spelling that is looked for.

    A blank phrase is left out; it would be found everywhere.
    """
    forms = [(phrase, _plain(phrase).replace("unable to cannot ", "cannot ").strip()) for phrase in phrases]
    forms = [(phrase, form) for phrase, form in forms if form]
    return re.compile(trie([form for _, form in forms])), tuple(forms)
