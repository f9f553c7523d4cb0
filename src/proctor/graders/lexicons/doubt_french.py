"""French words of not knowing. Data; `refusal_words` says how a pattern is written."""

from __future__ import annotations

Phrases = tuple[tuple[str, str], ...]

_NOT = r"(?:pas|point|jamais|aucune?|rien|guère|plus|ni|nullement|en aucun cas|nulle part)"
CLITIC = r"""(?:(?:le|la|les|l'|vous|te|t'|m'|me|lui|leur|y|en|vous le|vous la|vous les|vous en|te le
        |te la|m'en|m'y) ?){0,2}"""
SOURCE = r"""(?:contextes?|textes?|documents?|passages?|extraits?|articles?|rapports?|contrats?|tableaux?
        |sources?|paragraphes?|lettres?|dossiers?|transcriptions?|pages?|chapitres?|notes?|courriels?
        |e-?mails?|messages?|mails?|fichiers?|comptes?[ -]rendus?|procès-verbal|bail|baux|bilans?|études?
        |annexes?|sections?|pièces? jointes?|base de (?:données|connaissances)|résumés?|manuels?|brochures?
        |notices?|factures?|devis|menus?|recettes?|horaires?|fiches?|éléments? (?:fournis?|transmis)|données
        |informations (?:fournies|disponibles|données|transmises)|conversations?|échanges?|récits?|romans?
        |poèmes?|discours|entretiens?|jugements?|arrêts?|décisions?|règlements?|lois?|statuts|avis|guides?
        |images?|photos?|graphiques?|diapositives?|présentations?|mémos?|mémoires?|communiqués?|formulaires?
        |listes?|annonces?|cv|relevés?|accords?|conventions?|polices?|sites?|résultats?|attestations?)\b"""
FINDS = r"""(?:dire|déterminer|savoir|trouver|retrouver|vérifier|confirmer|préciser|répondre|identifier
        |calculer|voir|déduire|établir|conclure|consulter|prédire|prévoir|localiser|affirmer|juger
        |estimer|chiffrer|connaître|inférer|repérer|situer|certifier|garantir|trancher|évaluer
        |deviner|citer|nommer|attester|lire|indiquer|accéder\b(?! à (?:votre|ta|cette|sa) )|rappeler
        |souvenir|tirer|dater|extraire|renseigner|découvrir|apprendre|répondre à (?:cette|la|votre
        |ta) question)\b"""
_SAID = r"""(?:précisée?s?|mentionnée?s?|indiquée?s?|spécifiée?s?|abordée?s?|traitée?s?|détaillée?s?
        |explicitée?s?|écrite?s?|disponibles?\b(?! (?:en|pour|à|au|sur|avant|le|chez|tou))|fournie?s?
        |connue?s?\b(?! pour)|donnée?s?|dite?s?|publiée?s?|communiquée?s?|renseignée?s?|divulguée?s?
        |évoquée?s?|citée?s?|stipulée?s?|énoncée?s?|incluse?s?|contenue?s?|répertoriée?s?|chiffrée?s?
        |révélée?s?|nommée?s?|documentée?s?|consignée?s?|signalée?s?|définie?s?|transmise?s?|trouvables?
        |rapportée?s?|présente?s? (?:dans|parmi)|question|clair|claire|claires|clairs|évident|explicite
        |couverte?s?|énumérée?s?|établie?s?|identifiée?s?|dedans|dans (?:le|la|les|ce|ces|cette|votre
        |l')(?:\w{2,14} ){0,2} ?(?:texte|document|contexte|contrat|rapport|extrait|dossier))\b"""
_FACTS = r"""(?:informations?|infos?|mentions?|indications?|données?|réponses?|idée|accès|renseignements?
        |détails?|précisions?|connaissances?|éléments?|chiffres?|moyens?|traces?|références?|souvenir|notion
        |certitude|visibilité|sources?|date|montant|explications?|indices?|contexte|recul|passages?
        |résultats?|allusion|trace)\b"""
_MENTIONS = r"""(?:contient|contiennent|mentionne|précise|indique|dit|disent|fournit|fournissent|donne
        |comporte|souffle|comprend|parle|fait|font|explique|aborde|répond
        |répondent|traite|révèle|évoque|spécifie|cite|inclut|incluent|dévoile|détaille|renseigne
        |apporte|offre|nomme|livre|stipule|énonce|signale|prévoit|couvre|porte|dresse|chiffre|expose
        |laisse|contenait|figure|apparaît|apparait|apparaissent|se trouve|ressort|est|sont|a|ont
        |figurent|lit|trouve|voit|rapporte|contenaient|relève|recense|mentionnait|précisait
        |indiquait|disait|énumère|se prononce|s'exprime|s'étend|éclaire|définit|communique)(?:nt)?\b"""
NOT_KNOWING: Phrases = (
    (
        "on ne ",
        r"""(?:nous |le )?(?:dit|précise|mentionne|indique|sait|trouve|apprend|parle|voit|lit) (?:pas
        |rien|nulle part|ni)\b(?! que)""",
    ),
    ("ne figurai", rf"(?:t|ent) (?:\w{{3,14}} )?(?:pas|nulle part) (?:[^\s.!?]{{1,16}} ){{0,3}}{SOURCE}"),
    (
        "ne (?:permet|permettent|permettait)",
        rf" (?:\w{{3,14}} )?(?:pas|guère) (?:de |d')(?:vous |le |la |l'|les |en |y )*{FINDS}",
    ),
    ("n'(?:étai|avai)(?:t|ent) pas ", rf"(?:\w{{3,14}} )?{_SAID}"),
    ("dépasse(?:nt)? (?:mes|ma) ", r"connaissances?\b"),
    (
        "je ",
        r"""(?:(?:ne |n')(?:en |le |l'|la )?)?(?:le |l'|la )?sais (?:[^\s.!?]{2,16} ){0,2}(?:pas|rien|guère
        |point|plus)\b(?! (?:que|seulement))""",
    ),
    ("je n'en ", r"(?:sais|ai) (?:[^\s.!?]{2,16} ){0,2}(?:rien|aucune|pas)\b"),
    ("j'ignore", r"\b"),
    ("je l'ignore", r"\b"),
    ("(?:nous ignorons|on ignore)", r"\b"),
    (r"aucune (?:\w{4,12} )?idée", r"\b(?<!avait.aucune.idée)(?<!avaient.aucune.idée)"),
    ("la moindre idée", r"\b(?<=pas.la.moindre.idée)(?<!avait.pas.la.moindre.idée)"),
    (
        "je n'",
        rf"""(?:en |y )?(?:ai|avais|ai eu) (?:[^\s.!?]{{1,20}} ){{0,3}}(?:pas|aucune?|plus|nulle|jamais|rien
        |point|ni|guère) (?:[^\s.!?]{{1,20}} ){{0,4}}?(?:{_FACTS}|connaissance|entendu|trouvé|reçu|vu|lu
        |repéré|pu|su|réussi|la réponse|relevé|d'éléments?|d'information\w?|d'indication\w?|d'accès|d'idée
        |souvenir)\b""",
    ),
    (
        "j'ai ",
        r"""(?:pas|aucune?|trop peu|beau) (?:[^\s.!?]{1,20} ){0,3}(?:idée|info\w{0,9}|accès|réponse|données
        |chercher|éléments|de|d'informations?)\b""",
    ),
    ("j'ai ", r"(?:séché|un trou)\b"),
    (
        "je ne ",
        r"""(?:\w{1,4} )?(?:dispose|possède|connais|trouve|retrouve|vois|détiens|lis|relève|repère
        |m'en souviens|me souviens|me rappelle|distingue|décèle) … (?:pas|aucune?|d'aucune?|rien
        |nulle|ni|plus|nulle part)\b""",
    ),
    (
        "je ne ",
        rf"""{CLITIC}(?:peux|puis|parviens|saurais|suis|pourrais|arrive|réussis|pourrai
        |saurai) (?:[^\s.!?]{{1,20}} ){{0,5}}?(?:à |de |d'|l'|le |la |les |vous |te |t'
        |lui |en |m'en |s'en |pas |que )*{FINDS}""",
    ),
    ("je peux ", rf"pas (?:[^\s.!?]{{1,20}} ){{0,2}}?(?:vous |te |le |la |l'|les |en )*{FINDS}"),
    ("je n'ai pas (?:pu|su|réussi à|trouvé|été)", r"\b"),
    ("je ne peux que ", r"(?:deviner|supposer|spéculer|conjecturer)\b"),
    (
        "je ne suis ",
        r"""(?:[^\s.!?]{1,16} ){0,3}(?:pas|plus|guère) (?:\w{3,14} )?(?:
        (?:du tout |tout à fait |vraiment |absolument |très |bien |entièrement |totalement )?(?:sûre?
        |certaine?|au courant|informée?|au fait|au fait de|en possession|familière?)|du tout sûr
        |documentée?)\b""",
    ),
    ("je n'en suis ", r"(?:[^\s.!?]{1,16} ){0,2}pas (?:\w{3,14} )?(?:sûre?|certaine?)\b"),
    (
        "on (?:ne |n')",
        rf"""(?:sait|connaît|connait|dispose|trouve|a|y|peut|lit|voit
        |en sait) (?:[^\s.!?]{{1,20}} ){{0,4}}?(?:{_NOT}|{FINDS})\b(?! (?:que|manger|entrer))(?:(?<=pas)
        |(?<=rien)|(?<=aucun)|(?<=aucune)|(?<=nulle.part)|(?<=dire)|(?<=er)|(?<=oir)|(?<=ir)
        |(?<=re))(?<!peut.pas)""",
    ),
    ("nul ne sait", r"\b"),
    (
        "il n'(?:est|y a|existe|en est)",
        rf""" (?:[^\s.!?]{{1,20}} ){{0,3}}?(?:(?:pas|nullement|nulle part|jamais
        |aucunement) (?:\w{{3,14}} )?(?:question|mention|fait mention|{_SAID}|dit
        |possible de (?:\w{{1,5}} )?{FINDS}|d'indication|d'informations?|de (?:mention|données|trace
        |réponse|précision|détails?|renseignements?|référence))|aucune? (?:\w{{3,14}} )?{_FACTS}
        |rien (?:dans|sur|à ce sujet|qui|là-dessus|de tel))""",
    ),
    (
        SOURCE,
        rf""",? (?:[^\s.!?]{{1,30}} ){{0,5}}(?:ne |n')(?:le |la |l'|les |en |y |nous |me |m'|s'
        |se )?{_MENTIONS} (?:[^\s.!?]{{1,30}} ){{0,3}}?(?:pas|aucune?|rien|ni|nulle part|point|jamais
        |nullement|guère)\b(?! (?:seulement|que|plus))""",
    ),
    (
        SOURCE,
        r""",? (?:[^\s.!?]{1,30} ){0,4}?(?:(?:reste|est|sont|restent|demeure
        |demeurent) (?:\w{3,14} )?(?:muette?s?|silencieu(?:x|se)|floue?s?|vagues?|évasi\w{1,2}
        |lacunaires?)|passe\w{0,2} … sous silence|garde\w{0,2} le silence|omet|omettent)\b""",
    ),
    ("passée?s? sous silence", r"\b"),
    (
        "n",
        rf"""(?:'est|'a|e sont|'ont|'était|e fait|e figure|e semble|'apparaît|'apparait|e se trouve
        |'y) (?:[^\s.!?]{{1,20}} ){{0,3}}?(?:pas|ni|nulle part|nullement|jamais|point
        |aucunement) (?:[^\s.!?]{{1,20}} ){{0,3}}?{_SAID}""",
    ),
    (
        """ne (?:figure|figurent|ressort|ressortent|apparaît|apparait|apparaissent|se trouve
        |transparaît|découle)""",
        r""" (?:[^\s.!?]{1,20} )?(?:pas|nulle part|dans aucune?|en aucun|aucunement|jamais)\b""",
    ),
    ("rien ", rf"(?:dans|parmi) (?:[^\s.!?]{{1,20}} ){{0,3}}{SOURCE}|rien (?:ne|n')"),
    (
        "rien (?:ne |n')",
        r"""(?:\w{1,3} )?(?:[^\s.!?]{1,16} )?(?:permet|indique|précise|est (?:dit|précisé|indiqué|mentionné
        |écrit)|y|mentionne|dit|figure|laisse|renseigne)\b""",
    ),
    (
        r"""(?:reste|est|demeure) (?:\w{4,14} )?(?:muet|silencieux|muette|silencieuse)""",
        r" (?:sur|quant|à ce|là-dessus)",
    ),
    ("n'appara(?:ît|it|issent)", r" (?:pas|nulle part|dans aucun)"),
    ("rien (?:dans|parmi|de ce que|de tout)", r" (?:[^\s.!?]{1,20} ){1,6}(?:ne |n')"),
    ("(?:reste|demeure)", r" sans réponse\b"),
    ("nulle part", r" (?:[^\s.!?]{1,20} ){0,4}(?:dans|mention|précis|indiqu|il n'est|n'est|ne)"),
    ("non ", rf"(?!{SOURCE})(?:\w{{6,14}}ment )?(?!clair|question|dit){_SAID}"),
    (
        "aucun",
        r"""e? (?:[^\s.!?]{1,20} ){0,2}(?:informations?|mentions?|indications?|précisions?
        |renseignements?|trace|éléments?|donnée|passage|réponse|détail|référence|allusion|extrait
        |document|source|résultat)\b(?! (?:personnelle|n'a été perdue|n'est (?:perdue|conservée
        |transmise|partagée)))""",
    ),
    (
        "(?:impossible|difficile|compliqué|délicat)",
        rf""" (?:pour moi )?(?:de|d'|à) ?(?:le |la |l'|les |vous |te |t'|en |lui )*
        (?:[^\s.!?]{{1,14}} )?{FINDS}""",
    ),
    (
        "m'est ",
        rf"""(?:[^\s.!?]{{1,20}} ){{0,3}}(?:impossible|difficile|possible) (?:de |d')
        (?:vous |te |le |l')*{FINDS}""",
    ),
    ("m'échappe", r"\b"),
    ("m'est (?:inconnue?|étrang|totalement inconnue?)", r""),
    ("ne me (?:dit|disent|revient|viennent|vient|parle|semble)", r" (?:[^\s.!?]{1,14} )?(?:rien|pas)\b"),
    ("me dit (?:absolument )?rien", r"\b"),
    ("(?:assez|suffisamment|trop peu|peu)", rf" (?:de |d'){_FACTS}(?<!peu.d.idée)"),
    ("insuffisant", r"(?:e?s?)\b"),
    ("lacunaires?", r"\b"),
    (
        "ne (?:peut|peuvent|pourrait|saurait)",
        r""" (?:[^\s.!?]{1,14} )?(?:pas )?(?:être|en être|s'en|se) (?:\w{4,14} )?(?:déterminée?s?|établie?s?
        |déduite?s?|calculée?s?|connue?s?|confirmée?s?|vérifiée?s?|trouvée?s? dans|précisée?s?|tirée?s?
        |donnée?s?|déduire|extraite?s?|identifiée?s?|répondre|apportée?s?)\b""",
    ),
    ("(?:pas|peu)", r" (?:très |bien |vraiment )?clairs?e?s?\b(?! de lune)"),
    ("(?:manque|manquent)", rf" … (?:{_FACTS})"),
    ("(?:faute|manque|absence|défaut)", rf" (?:de |d')(?:[^\s.!?]{{1,14}} )?{_FACTS}"),
    ("absente?s? (?:du|de la|des|de ce|de l'|de votre)", rf" ?(?:\w{{3,14}} )?{SOURCE}"),
    ("ni ", rf"(?:le|la|les|l'|dans) ?(?:[^\s.!?]{{1,14}} ){{0,2}}{SOURCE} … ni\b"),
    ("(?:qui sait|dieu sait|allez savoir|va savoir|mystère)", r"(?=\s{0,3}(?:[.!?,;]|$))"),
    ("(?:posez|pose) une colle", r"\b"),
    (
        "(?:hors|au-delà|dépasse)",
        r""" (?:de |du )?(?:mes|mon|ma|champ de mes) (?:connaissances|savoir|connaissance
        |compétences en)\b""",
    ),
    (
        "mes (?:connaissances|données|informations)",
        r""" (?:s'arrêtent|ne vont|n'incluent|ne couvrent|ne contiennent|ne me permettent|sont limitées
        |ne remontent)\b""",
    ),
    (
        "(?:vous|tu) (?:ne |n')",
        r"""(?:m'|me |l')?(?:avez|as|a) (?:\w{2,8} )?(?:pas|rien|jamais|encore rien
        |encore pas) (?:\w{2,8} )?(?:dit|précisé|indiqué|mentionné|fourni|joint|donné|communiqué|partagé
        |transmis)\b""",
    ),
    (
        "(?:ne |n')",
        r"""m'(?:a|ont) (?:pas|jamais|rien) (?:été )?(?:dit|communiqué\w{0,2}|précisé|transmis\w{0,2}
        |fourni\w{0,2}|informée?|donné\w{0,2})\b""",
    ),
    (
        r"(?:\A|[.!?\n]\s{0,2})\W{0,9}",
        r"""(?:(?:désolée?|euh|hélas|ma foi|franchement|pardon),? )?(?:inconnue?|n/?d|sans réponse|(?:sais
        |connais) pas|aucune idée|pas la moindre idée|pas d'idée|difficile à dire|pas sûre?|non précisée?
        |non disponible|pas d'information|mystère|joker)\b(?:,? (?:désolée?|hélas))?\s{0,3}(?=[.,!?;:–]
        |\Z)(?<!mystère,)""",
    ),
)
ANSWERED = r"""(?>[^\n]{0,90}?(?:\b(?:mais|cependant|toutefois|sans doute|probablement|néanmoins|pourtant
        |quand même|je dirais|il me semble|vraisemblablement|peut-être)\b|[;:–—,]))[^.!?\n]{0,60}?(?:\d
        |\b(?:crois|pense|dirais|probablement|sans doute|environ|est|était|serait|devrait|semble|parie
        |suppose|estime|plupart|vraisemblablement|sont|fut|doit|peut-être)\b)
        |[^\n.!?]{0,60}?[.!?]\s(?:je dirais|probablement|sans doute|à mon avis|mon estimation|peut-être
        |environ)\b"""
