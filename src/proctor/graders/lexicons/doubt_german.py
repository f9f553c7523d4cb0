"""German words of not knowing. Data; `refusal_words` says how a pattern is written."""

from __future__ import annotations

Phrases = tuple[tuple[str, str], ...]

MODAL = r"""(?: (?:kann|könnte|darf|dürfte|werde|will|möchte|würde|mag|vermag|soll|sollte)\b|(?<=kann.ich)
        |(?<=könnte.ich)|(?<=darf.ich)|(?<=dürfte.ich)|(?<=werde.ich)|(?<=will.ich)|(?<=möchte.ich)
        |(?<=würde.ich)|(?<=mag.ich)|(?<=vermag.ich)|(?<=sollte.ich))"""
SOURCE = r"""(?:kontext\w{0,2}|text\w{0,3}|dokument\w{0,3}|abschnitt\w{0,2}|auszug|auszüge|bericht\w{0,2}
        |artikel|vertrag|vertrags?|tabellen?|quellen?|unterlagen?|passagen?|textstelle|brief\w{0,2}
        |interview|protokoll\w{0,2}|absatz|absätze|material\w{0,4}|e-?mails?|mails?|seiten?|kapitel
        |dateien|datei|aufsatz|studien?|mitschrift|transkript|notiz(?:en)?|rechnung|broschüre
        |handbuch|anleitung|prospekt|bescheid|schreiben|nachricht|angebot|datensatz|daten|fahrplan
        |speisekarte|rezept|aushang|formular|anlage|anhang|wissensbasis|gutachten|urteil|gesetz
        |satzung|merkblatt|chat|verlauf|chronik|buch|roman|gedicht|ausschnitt|textauszug|fassung
        |akten?|bild|foto|grafik|diagramm|lebenslauf|satzung|erklärung|mitteilung|meldung
        |beschreibung|liste|vorlage|snippets?|informationen|angaben|ausdruck|scan|website|webseite
        |hausordnung|mietvertrag|zeitung|inserat|anzeige)\b"""
FINDS = r"""(?:sagen|bestimmen|ermitteln|feststellen|finden|beurteilen|bestätigen|überprüfen|prüfen
        |nachvollziehen|entnehmen|beantworten|wissen|abschätzen|einschätzen|berechnen|ableiten|erkennen
        |schließen|herauslesen|vorhersagen|klären|nachsehen|abrufen|einsehen|herausfinden|belegen
        |verifizieren|erinnern|sehen|lesen|angeben|nennen|beziffern|nachschlagen|recherchieren|zuordnen
        |beantwortet|garantieren|vorhersehen|absehen|aufspüren|mitteilen|benennen|entdecken|ausfindig machen
        |rekonstruieren|folgern|ersehen|herleiten|identifizieren|datieren|zugreifen)\b"""
_FACTS = r"""(?:angaben?|information(?:en)?|auskunft|auskünfte|hinweise?|daten|kenntnisse?|antwort|ahnung
        |zugriff|zugang|zahlen|aussagen?|belege?|erwähnung|idee|details?|anhaltspunkte?|wissen
        |erkenntnisse|einblick|unterlagen|quellen?|möglichkeit|vorstellung|schimmer|plan|dunst
        |erinnerung|werte?|nachweise?|stelle|passage|treffer|einträge?|eintrag)\b"""
_SAID = r"""(?:angegeben|erwähnt|genannt|spezifiziert|enthalten|ersichtlich|aufgeführt|vermerkt|beschrieben
        |thematisiert|mitgeteilt|bekannt(?! für)|dokumentiert|beziffert|verzeichnet|überliefert|benannt
        |beantwortet|ausgewiesen|abgedruckt|festgehalten|behandelt|präzisiert|konkretisiert|dargelegt
        |ausgeführt|aufgelistet|angeführt|zu finden|zu entnehmen|zu erkennen|zu ermitteln|zu ersehen
        |zu lesen|nachzulesen|zu klären|eindeutig|erkennbar|bestimmbar|feststellbar|vorhanden(?!,)
        |hinterlegt|definiert|abgedeckt|bestimmt worden|verfügbar(?! (?:in|ab|bis|für|auf)\b)
        |aufgeschlüsselt|veröffentlicht|übermittelt|gesagt worden|geschrieben|erläutert|erfasst
        |gegeben worden|zu beantworten|zu sagen|zu bestimmen)\b"""
NOT_KNOWING: Phrases = (
    ("steh(?:t|en)", r" (?:da|dort|hier|darin|drin|so|das) nicht\b(?! (?:zur|auf der kippe))"),
    (
        "*" + SOURCE,
        r""" (?:gibt|geben|führt|weist|nennt
        |legt) (?:[^\s.!?]{1,30} ){0,3}kein\w{0,4} (?:[^\s.!?]{1,30} ){1,4}(?:an|auf|aus|dar|preis
        |wieder)\b""",
    ),
    (
        "(?:übersteigt|jenseits|überschreitet)",
        r""" (?:leider )?mein\w{0,2} (?:wissen|kenntnis|wissensstand
        |horizont)\w{0,3}\b""",
    ),
    (
        r"(?:\A|[.!?\n]\s{0,2})nicht (?:im|in de[rmn]|auf de[rm])",
        rf""" (?:\w{{3,20}} )?{SOURCE}\s{{0,3}}
        (?:[.!]|\Z)""",
    ),
    ("ich ", r"wei(?:ß|ss) (?:[^\s.!?,]{1,20} ){0,4}(?:nichts?|kaum)\b(?! (?:nur|mehr als))"),
    ("wei(?:ß|ss) ich", r" (?:[^\s.!?,]{1,20} ){0,4}nichts?\b(?! (?:nur|mehr als))"),
    ("ich", r" … (?:nicht|nichts|auch nicht|selbst nicht) (?:genau |sicher |mehr )?wei(?:ß|ss)\b"),
    (
        "kein(?:e|en)? (?:blasse[nr]? |leise(?:ste|ster)? |leiseste )?(?:ahnung|schimmer|plan|dunst|idee)",
        r"""\b(?<!hatte.keine.ahnung)(?<!hatten.keine.ahnung)(?<!haben.keine.ahnung)(?<!hat.keine.ahnung)
        (?! hatte)(?! von \w{3,15} (?:hatte
        |hat)\b)""",
    ),
    (
        "kein(?:e[nr]?|erlei)?",
        r""" (?:\w{1,20} ){0,3}(?:angaben?|information(?:en)?|hinweise?|erwähnung|aussagen?|auskunft
        |anhaltspunkte?|erkenntnisse)\b(?! (?:zu )?(?:machen|machte|gemacht
        |mehr))(?!,)(?! \w{2,12} (?:machen|gemacht)\b)""",
    ),
    (
        "kein(?:e[nr]?|erlei)?",
        rf""" (?:\w{{1,20}} ){{0,2}}{_FACTS} (?:(?:dazu|darüber|hierzu|darauf|zu diese\w|dafür|gefunden|vor\b
        |im \w{{0,12}}{SOURCE}|in (?:de[nrm]|diese[nrm]) (?:\w{{3,20}} )?{SOURCE})|[^\s.!?]{{3,20}} (?:im
        |in de[nrm]) {SOURCE})""",
    ),
    (
        "kein",
        r""" (?:wort|sterbenswort|einziges wort|treffer|eintrag)\b (?:zu|über|davon|darüber|dazu|von
        |gefunden|im|in|darin)""",
    ),
    ("kein wort", r"(?<=dazu.kein.wort)|(?<=davon.kein.wort)|(?<=darüber.kein.wort)|(?<=darin.kein.wort)"),
    (
        "ich",
        rf"""(?: (?:habe|besitze|finde|sehe|kenne|verfüge über|erkenne|fand|hatte|entdecke|erhielt|bekam)
        |(?<=habe.ich)|(?<=finde.ich)|(?<=sehe.ich)|(?<=kenne.ich)|(?<=besitze.ich)
        |(?<=verfüge.ich)) … (?:kein|keine[nmrs]?|keinerlei|nichts?
        |zu wenig)\b(?: (?:\w{{1,20}} ){{0,2}}(?:{_FACTS}|\w{{3,20}}))?""",
    ),
    (
        "mir ",
        r"""(?:(?:ist|sind|liegen?|fehl(?:t|en)|lag|wurden?|sagt|war) … (?:nichts?
        |kein\w{0,2}) … (?:bekannt|vor|mitgeteilt|gesagt|geläufig|erinnerlich|klar|zugänglich
        |vorliegend|ein)\b|fehl(?:t|en) … (?:information\w{0,2}|angaben?|daten|wissen|zugang|zugriff
        |grundlage\w?|kenntnisse?|unterlagen|kontext|details?)\b|(?:völlig |gänzlich |ganz |leider ){0,2}
        (?:unbekannt
        |fremd|schleierhaft|neu|ein rätsel|unklar|entfallen|nicht (?:bekannt|geläufig|klar
        |erinnerlich|zugänglich))\b|sagt … (?:nichts?)\b)""",
    ),
    (
        "fehl",
        r"""(?:t|en) mir … (?:information\w{0,2}|angaben?|daten|wissen|zugang|zugriff|grundlage\w?
        |kenntnisse?|unterlagen|kontext|details?)\b""",
    ),
    ("lieg(?:t|en) mir", r" … (?:nicht|kein\w{0,2}) "),
    (
        "(?:ist|sind|bleibt|war)",
        r""" mir … (?:nicht … (?:bekannt|geläufig|klar|erinnerlich|zugänglich)|unbekannt|schleierhaft
        |entfallen|ein rätsel|fremd)\b""",
    ),
    ("überfragt", r"\b"),
    ("entzieht sich", r" (?:leider )?(?:meiner|unserer) kenntnis\b"),
    ("au(?:ß|ss)erhalb", r" meines (?:wissens|kenntnisstands?|wissensstands?)\w{0,6}\b"),
    ("mein", r" (?:wissen|kenntnisstand|wissensstand) (?:reicht|endet|hört)\b"),
    (
        "ich",
        rf"""{MODAL} … (?:nicht|kein\w{{0,2}}|nichts|nirgends|nur raten|nur spekulieren|nur mutmaßen
        |nur vermuten)\b(?: …)?(?: )?(?:(?:zu )?{FINDS}|(?<=nur.raten)|(?<=nur.spekulieren)
        |(?<=nur.mutmaßen)|(?<=nur.vermuten))""",
    ),
    ("ich", rf"{MODAL} … (?:nicht|kein\w{{0,2}}|nichts) … (?:zu )?{FINDS}"),
    ("ich konnte", rf" … (?:nicht|kein\w{{0,2}}|nichts) … {FINDS}"),
    ("konnte ich", rf" … (?:nicht|kein\w{{0,2}}|nichts) … {FINDS}"),
    (
        "ich",
        r"""(?: bin|(?<=bin.ich)) (?:mir )?(?:[^\s.!?]{1,20} ){0,4}(?:nicht (?:\w{1,12} ){0,2}(?:sicher
        |gewiss)|unsicher|ratlos)\b""",
    ),
    ("ich (?:kenne|erinnere|finde|sehe|entdecke)", r" … (?:nicht|nichts|kein\w{0,2})\b"),
    ("(?:kenne|finde|sehe|erinnere) ich", r" … (?:nicht|nichts|kein\w{0,2})\b"),
    (
        "(?:habe|hab) ich",
        r""" … (?:nie (?:etwas )?gehört|nichts gehört|noch nie|nicht parat|nicht gefunden|nichts gefunden
        |nicht im kopf)\b""",
    ),
    ("noch nie", r" (?:etwas )?(?:davon |von \S{2,20} )?gehört\b"),
    (
        "(?:wir|man)",
        rf""" (?:wissen|weiß|kann|können|erfährt|erfahren|findet|finden|haben) … (?:nichts?
        |kein\w{{0,2}}) … (?:{FINDS}|erfahren|darüber|davon|dazu|{_FACTS})""",
    ),
    ("wissen wir", r" (?:[^\s.!?]{1,20} ){0,2}nicht\b"),
    (
        "*" + SOURCE,
        rf""",? (?:[^\s.!?]{{1,30}} ){{0,5}}(?:enthält|enthalten|erwähn(?:t|en)|nenn(?:t|en)|gib(?:t|en)?
        |geben|mach(?:t|en)|verlier(?:t|en)|liefer(?:t|n)|sag(?:t|en)|beinhalte(?:t|n)|steht|stehen
        |finde(?:t|n)|äußer(?:t|n)|geht|gehen|bezifer\w{{1,2}}|verrät|verraten|klärt|klären
        |beantworte(?:t|n)|erläuter(?:t|n)|spezifizier(?:t|en)|schreib(?:t|en)|spricht|sprechen
        |taucht|tauchen|wird|werden|ist|sind|behandel\w{{1,2}}|erfährt|erfahren|informier(?:t|en)
        |weist|weisen|hat|haben|zeigt|zeigen|bietet|bieten|kommt|kommen|legt|führt|deckt|listet
        |fehl(?:t|en)|(?:lässt|lassen) (?:sich )?) (?:[^\s.!?]{{1,30}} ){{0,6}}(?:(?:nichts
        |kein\w{{0,4}} (?:\w{{1,20}} ){{0,2}}(?:{_FACTS}|wort\b|erwähnung|rede))
        |nicht (?:[^\s.!?]{{1,30}} ){{0,3}}(?:{_SAID}|{FINDS}|ein\b|hervor|vor\b|auf\b|die rede|an\b
        |dar\b|drin)|nicht\s{{0,3}}(?:[,.;]|$)|offen\b)""",
    ),
    (
        "*" + SOURCE,
        r""" (?:[^\s.!?]{1,30} ){0,4}(?:erwähnt|nennt|sagt|verrät|schweigt|schweigen|verschweigt
        |spezifiziert|beziffert|präzisiert|gibt nicht|beantwortet|klärt|lässt offen)\b(?:(?<=schweigt)
        |(?<=schweigen)|(?<=verschweigt)|(?<=offen)|(?<=gibt.nicht)|(?: [^\s.!?]{1,30}){0,6} (?:nicht
        |nichts|nirgends)\b)""",
    ),
    (
        "nicht ",
        rf"""(?:(?:näher|explizit|ausdrücklich|direkt|genau|weiter|eindeutig|namentlich|konkret|klar
        |genauer|mehr) ){{0,2}}{_SAID}""",
    ),
    (
        "nirgend",
        rf"""(?:s|wo) (?:[^\s.!?]{{1,30}} ){{0,4}}(?:{_SAID}|steht|erwähn\w{{1,2}}|die rede|genannt|angegeben
        |auf\b|vor\b)""",
    ),
    ("nicht die rede", r"\b"),
    (
        "bleibt",
        r""" (?:[^\s.!?]{1,20} ){0,4}(?:offen|unklar|ungewiss|unerwähnt|ungenannt|unbeantwortet)\b""",
    ),
    ("(?:verschwiegen|verschweigt|ausgespart|ausgelassen)", r"(?:\s{0,3}[.,!;]|$)"),
    ("(?:wissensstand|wissen|kenntnisstand)", r" (?:reicht|geht) (?:\w{2,8} )?(?:nur )?bis\b"),
    ("woher soll", r"(?:te)? ich (?:das|es)\b"),
    ("(?:ich wüsste|wüsste ich)", r" (?:[^\s.!?]{1,14} ){0,3}nicht\b"),
    (
        "äußer",
        rf"""(?:t|n) sich (?:[^\s.!?]{{1,20}} ){{0,4}}{SOURCE} (?:[^\s.!?]{{1,20}} ){{0,3}}(?:nicht
        |nichts)\b""",
    ),
    (
        "(?:nennt|erwähnt|verrät|sagt|macht|gibt|enthält|liefert|schweigt|bietet)",
        rf""" (?:sich )?(?:der|die|das|dieser|diese|dieses|ihr
        |dein) (?:\w{{3,20}} ){{0,2}}{SOURCE} (?:[^\s.!?]{{1,20}} ){{0,5}}(?:nicht|nichts|keine?\w?
        |aus)\b""",
    ),
    (
        "nirgend",
        r"""(?:s|wo) (?:\w{3,12} )?(?:gesagt|erklärt|beschrieben|festgehalten|verzeichnet|auffindbar
        |zu finden|aufgeführt|auf|vor)\b""",
    ),
    ("keine rede", r"\b"),
    ("geht", r" (?:[^\s.!?]{1,30} ){0,6}nicht (?:[^\s.!?]{1,30} ){0,4}hervor\b"),
    ("nicht ", r"(?:\w{3,14} )?hervor\b"),
    ("steh(?:t|en)", r" … (?:nichts|nicht (?:drin|darin|im|in|auf|unter|dabei|da\b))"),
    (
        "nichts ",
        rf"""(?:zu |über |von |davon |darüber |dazu )(?:[^\s.!?]{{1,30}} ){{0,4}}(?:{_SAID}|steht|gefunden
        |bekannt|vermerkt|erwähnt|geschrieben|in (?:de[nrm]|diese[nrm])|im) """,
    ),
    (
        "(?:darüber|dazu|davon|hierzu|hierüber)",
        r""" (?:ist|steht|findet sich|enthält|gibt|sagt|liegt|wird|erfährt|schweigt|weiß) … (?:nichts?
        |kein\w{0,4}|sich|das \w{3,15}|der \w{3,15})\b""",
    ),
    ("(?:darüber|dazu) schweig", r"(?:t|en)\b"),
    ("nicht hervor", r"\b"),
    ("nicht ersichtlich", r"\b"),
    ("(?:lässt|ließ|lassen) sich", rf" … (?:nicht|kein\w{{0,2}}|nichts|kaum|weder) … {FINDS}"),
    (
        "(?:ist|sind|war|wäre)",
        r""" (?:es )?(?:mir )?(?:[^\s.!?]{1,20} ){0,4}(?:nicht|unmöglich|schwer
        |kaum) (?:[^\s.!?]{1,20} ){0,4}(?:zu (?:sagen|beantworten|bestimmen|ermitteln|erkennen|entnehmen
        |beurteilen|klären|finden|wissen|schätzen)|festzustellen|einzuschätzen|abzuschätzen|herauszufinden
        |vorherzusagen|abzuleiten)\b""",
    ),
    ("schwer ", r"(?:zu sagen|zu beurteilen|einzuschätzen|abzuschätzen)\b"),
    (
        "kann",
        r""" … (?:nicht|kaum|weder) … (?:bestimmt|ermittelt|beantwortet|festgestellt|abgeleitet
        |beurteilt|gesagt|geklärt|berechnet|entnommen|bestätigt|nachvollzogen|geschlossen
        |verifiziert|überprüft|gefunden) werden\b""",
    ),
    ("reich", r"(?:t|en) … (?:nicht|dafür nicht|dazu nicht|leider nicht) (?:aus\b|für|um)"),
    (
        "(?:nicht|zu|kaum)",
        r""" (?:genug|genügend|ausreichend\w{0,2}|hinreichend\w{0,2}|wenig|wenige) … (?:informationen
        |information|angaben|daten|kontext|details|anhaltspunkte)\b""",
    ),
    ("unzureichende?", r" (?:informationen|angaben|daten|information|datenlage)\b"),
    ("lückenhaft", r"\b"),
    ("unklar", r"\b"),
    ("unbekannt", r"\s{0,2}[.!,;](?<!soldat.)"),
    (
        "(?:bleibt|offen)",
        r""" (?:offen|unerwähnt|unklar|ungenannt|ungewiss|unbeantwortet|im dunkeln|gelassen
        |im unklaren)\b""",
    ),
    (
        "(?:informationen|angaben|daten|information|angabe|details)",
        r""" … (?:fehl(?:t|en)|lieg(?:t|en) (?:mir |uns )?nicht vor|(?:ist
        |sind) (?:\w{2,14} )?nicht (?:enthalten|verfügbar|vorhanden|angegeben|zu finden))\b""",
    ),
    ("fehlen", r" … (?:informationen|angaben|daten|details)\b"),
    ("es fehl", r"(?:t|en) … (?:information\w{0,2}|angaben?|daten|details|kontext|hinweise?)\b"),
    ("weder ", rf"(?:in |im |aus |der |die |das |dem |den |von )*(?:\w{{3,20}} ){{0,2}}{SOURCE}"),
    ("(?:wer weiß|weiß der himmel|weiß der geier|weiß der kuckuck|weiß gott)", r"(?=\s{0,3}(?:[.!?,;]|$))"),
    (
        "sie haben (?:mir )?(?:nicht|kein)",
        r"""\w{0,3} … (?:gesagt|mitgeteilt|genannt|angegeben|erwähnt|verraten|hochgeladen|angehängt
        |beigefügt)\b""",
    ),
    (
        "du hast (?:mir )?(?:nicht|kein|nie|noch nicht)",
        r"""\w{0,3} … (?:gesagt|mitgeteilt|genannt|angegeben|erwähnt|verraten|hochgeladen|angehängt|beigefügt
        |erzählt)\b""",
    ),
    (
        "(?:wurde|hat) mir",
        r""" (?:[^\s.!?]{1,20} ){0,4}(?:nicht|nie|niemand|nichts) … (?:gesagt|mitgeteilt|genannt|verraten
        |erzählt|gegeben|bereitgestellt|übermittelt)\b""",
    ),
    (
        r"(?:\A|[.!?\n]\s{0,2})\W{0,9}",
        r"""(?:(?:sorry|tja|hm+|leider|tut mir leid|ehrlich gesagt),? )?(?:unbekannt|wei(?:ß
        |ss) (?:ich )?(?:leider |es )?nicht|k\.\s?a\.|keine angaben?|keinen schimmer|nicht sicher
        |schwer zu sagen|keinen plan|nicht angegeben|null ahnung|nicht bekannt
        |fragen sie mich (?:etwas leichteres|nicht)|frag mich (?:was leichteres|nicht))\b(?:, (?:sorry
        |leider))?\s{0,3}(?=[.,!?;:–]|\Z|\s(?:wer|was|wann|wo|wie|warum|ob|welche))""",
    ),
)
ANSWERED = r"""(?>[^\n]{0,90}?(?:\b(?:aber|doch|jedoch|vermutlich|wahrscheinlich|allerdings|dennoch
        |trotzdem|wohl|am ehesten|tippe)\b|[;:–—]|,(?! (?:wie|wer|was|wann|wo|warum|ob|welche\w?
        |woher|wohin|wieso|weshalb|wem|wen|wessen|dass)\b)))[^.!?\n]{0,60}?(?:\d|\b(?:glaube|denke
        |schätze|vermut\w{1,4}|wahrscheinlich|ungefähr|etwa|rund|ist|war|liegt|sind|waren|wird
        |dürften?|müssten?|sollten?|tippe|wohl|richtig|spricht|gilt|meist\w{0,4}|nennen)\b)
        |[^\n.!?]{0,60}?[.!?]\s(?:vermutlich|wahrscheinlich|ich (?:schätze|vermute|tippe|glaube
        |denke)|am ehesten|meine vermutung|ungefähr)\b"""
