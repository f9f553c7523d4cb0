"""Italian words of not knowing. Data; `refusal_words` says how a pattern is written."""

from __future__ import annotations

Phrases = tuple[tuple[str, str], ...]

CLITIC = r"""(?:(?:ti|vi|le|gli|la|lo|mi|ne|ve|te|glie|me|ce|ci|li|si|te ne|te lo|glielo|ve lo|se ne
        |me ne) ){0,2}"""
SOURCE = r"""(?:contest[oi]|test[oi]|document[oi]|documentazione|bran[oi]|estratt[oi]|articol[oi]|rapport[oi]
        |relazion[ei]|contratt[oi]|tabell[ae]|font[ei]|paragraf[oi]|letter[ae]|trascrizion[ei]
        |passagg[io]{1,2}|pagin[ae]|capitol[oi]|not[ae]|e-?mail|mail|messagg[io]{1,2}|file|verbal[ei]
        |bilanc[io]{1,2}|stud[io]{1,2}|allegat[oi]|sezion[ei]|base (?:di )?dati|base di conoscenza
        |riassunt[oi]|manual[ei]|opuscol[oi]|fattur[ae]|preventiv[oi]|men[uù]|ricett[ae]|orar[io]{1,2}
        |sched[ae]|dati (?:forniti|disponibili|a disposizione)|conversazion[ei]|chat|informazioni (?:fornite
        |disponibili|a disposizione|date|ricevute)|raccont[oi]|romanz[oi]|poesi[ae]|discors[oi]
        |intervist[ae]|sentenz[ae]|regolament[oi]|legg[ei]|statut[oi]|avvis[oi]|guid[ae]|immagin[ei]|foto
        |grafic[oi]|diapositiv[ae]|presentazion[ei]|comunicat[oi]|modul[oi]|elenc[oh]i?|list[ae]
        |annunc[io]{1,2}|curriculum|ricevut[ae]|accord[oi]|polizz[ae]|sit[oi]|risultat[oi]|certificat[oi]
        |material[ei]|istruzioni|prospett[oi]|clausol[ae]|fascicol[oi]|registr[oi]|circolar[ei]|bolletta
        |volantin[oi]|appunt[oi]|memorandum|atto|atti)\b"""
FINDS = r"""(?:determinar|saper|trovar|verificar|confermar|dir|precisar|risponder|identificar|calcolar|veder
        |rintracciar|reperir|capir|dedurr|stabilir|concluder|consultar|preveder|desumer|ricavar|accertar
        |individuar|indicar|garantir|ricordar|evincer|affermar|stimar|valutar|giudicar|inferir|risalir
        |conoscer|legger|estrarr|azzardar|indovinar|acceder|nominar|citar|appurar|specificar|datar
        |quantificar|assicurar)\w{0,5}\b"""
_SAID = r"""(?:specificat|menzionat|indicat|dett|fornit|precisat|not|riportat|reperibil|chiarit|trattat
        |affrontat|esplicitat|definit|scritt|disponibil(?!\w (?:in|per|fino|da|nei|nelle|su)\b)|presente
        |presenti|pubblicat|elencat|inclus|contenut|contemplat|documentat|rivelat|conosciut|chiar|citat
        |pervenut|dichiarat|comunicat|nominat|registrat|quantificat|descritt|segnalat|rintracciabil
        |deducibil|desumibil|divulgat|evidente|esplicit|spiegat|rilevabil|ricavabil|verificabil
        |compres)[oaie]?\b(?!-)"""
_MENTIONS = r"""(?:contiene|contengono|menziona|specifica|include|includono|indica|dice|dicono|fornisce
        |forniscono|precisa|nomina|comprende|prevede|riporta|chiarisce|chiariscono|offre|offrono|dà
        |danno|cita|tratta|risponde|rispondono|fa|fanno|parla|spiega|rivela|affronta|accenna|emerge
        |risulta|figura|compare|compaiono|appare|descrive|elenca|stabilisce|esplicita|dichiara
        |si evince|si desume|si pronuncia|c'è|ci sono|vi è
        |vi sono|trovo|viene|è|sono|ho trovato|si trova|ha|mostra|segnala|definisce|scende|si deduce
        |si legge|mette|menzionava|espone|diceva|riportava|indicava|presenta|presentano|si ricava
        |risultano|si sofferma|entra|comunica|reca|copre|coprono|riferisce|lascia
        |si esprime)(?:no)?\b"""
_FACTS = r"""(?:informazion[ei]|dat[oi]|menzione|menzioni|riferiment[oi]|idea|accesso|conoscenz[ae]
        |dettagli[oi]?|rispost[ae]|cenn[oi]|tracci[ae]|indicazion[ei]|notizi[ae]|cifr[ae]
        |element[oi]|fonti|fonte|modo di|mezzi|ricordo|ricordi|certezza|contesto|nozion[ei]|parola
        |indizi[oi]?|passagg[io]{1,2}|risultat[oi]|documenti|riscontr[oi]|spiegazion[ei]|data
        |specifiche|precisazion[ei]|chiariment[oi]|evidenz[ae])\b"""
NOT_KNOWING: Phrases = (
    (
        "non (?:l'ho|li ho|le ho|lo ho|ne ho) ",
        r"""(?:mai )?(?:trovat|vist|reperit|sentit|lett
        |rintracciat)[oaie]\b""",
    ),
    ("non (?:era|erano|venne|vennero|fu|furono|veniva|venivano) ", rf"(?:\w{{3,14}} )?{_SAID}"),
    (
        "non ",
        r"""(?:lo |la |ne |ti |ve |vi |te lo |glielo |le )?(?:so|sappiamo|si sa|saprei|è dato sapere
        |so proprio)\b(?! (?:se ridere|come ringraziar))""",
    ),
    ("non (?:ne )?ho ", r"(?:[^\s.!?]{1,14} ){0,3}idea\b"),
    ("(?:ignoro|lo ignoro|si ignora|si ignorano|ignoriamo|non conosco|non mi è noto|non mi è nota)", r"\b"),
    (
        "(?:nessuna|alcuna|minima|nessunissima|la più pallida|manco)",
        r" idea\b(?<!aveva.alcuna.idea)(?<!avevano.alcuna.idea)",
    ),
    (
        "non ",
        rf"""(?:ne |vi |ci |mi )?(?:ho|dispongo|possiedo|avevo|abbiamo|disponiamo|ho trovato|trovo
        |ho ricevuto|ho avuto|vedo|riscontro|esistono|esiste|risultano|risulta|sono fornit[ie]
        |sono disponibili|viene fornit[oa]|ho reperito|rilevo|sono present[ie]|compare|compaiono
        |emergono|detengo) (?:[^\s.!?]{{1,30}} ){{0,4}}?{_FACTS}""",
    ),
    (
        "non ",
        rf"""{CLITIC}(?:posso|riesco a|saprei|sono riuscit[oa] a|sono in grado di|potrei|possiamo|so
        |mi sento di|mi azzardo a|oso|potrò|riesco|ho modo di|ho potuto|è stato possibile
        |riuscirei a) (?:[^\s.!?]{{1,20}} ){{0,4}}?{FINDS}""",
    ),
    (
        "non ",
        r"""(?:lo |la |li |ne |mi |ti |ci )?(?:trovo|conosco|ricordo|mi risulta|risulta|rammento
        |viene in mente|dice (?:nulla|niente)|suona|è not[oa]|è chiar[oa]|hai (?:detto|indicato
        |fornito|specificato|menzionato|allegato|condiviso)|ha (?:detto|indicato|fornito|specificato
        |menzionato|allegato) |hanno detto|è stat[oa] (?:detto|comunicat[oa]|fornit[oa]|spiegato)
        |ho mai (?:sentito|letto|visto)|ho (?:presente|la risposta|risposta|trovato (?:nulla|niente)
        |gli elementi|modo|sotto mano|memoria)|sono (?:a conoscenza|al corrente|informat[oa]
        |aggiornat[oa]|pratico|esperto)|ne so)\b""",
    ),
    ("non ", r"(?:ne |lo )?(?:sono|siamo) (?:[^\s.!?]{1,16} ){0,3}(?:sicur[oa]|cert[oa])\b"),
    (
        SOURCE,
        rf""",? (?:[^\s.!?]{{1,30}} ){{0,5}}(?:non|mai|nemmeno|neppure
        |neanche) (?:lo |la |si |ne |ci |vi |mi |li )?(?:ha |hanno |viene |vengono )?{_MENTIONS}(?! (?:solo
        |soltanto|altro che|che un))""",
    ),
    (
        SOURCE,
        r""",? (?:[^\s.!?]{1,30} ){0,4}?(?:tace|tacciono|sorvola|sorvolano|omette|omettono|nulla (?:dice
        |dicono|riporta)|glissa|è muto|manca\w{0,2} di (?:indicare|precisare|specificare|riportare))\b""",
    ),
    (
        "non ",
        rf"""(?:(?:è|sono|viene|vengono|è stat[oa]|sono stat[ei]|mi è|ci è|ne è|risulta|risultano|appare
        |sembra|si è|è ancora|è mai|sia|siano|vengano|venga) ){{0,2}}(?:(?:stat[oaie]|esplicitamente
        |chiaramente|mai|nemmeno) )?{_SAID}""",
    ),
    (
        "non ",
        r"""(?:si (?:fa|trova|trovano|riscontra|riscontrano|dà|danno|dice|evince|desume|ricava|deduce|legge
        |parla|specifica|menziona|precisa|accenna)|c'è|vi è|è fatta|ci sono|vi sono|esiste|esistono|compare
        |compaiono|figura|figurano|emerge|emergono|appare|contiene) (?:[^\s.!?]{1,30} ){0,4}?(?:menzione
        |informazion[ei]|indicazion[ei]|dati|cenno|traccia|tracce|riferiment[oi]|nulla|niente|alcun\w{0,2}
        |nessun\w{0,2}|parola|rispost[ae]|modo di (?:saper|stabilir|verificar|capir)\w{0,2}|notizi[ae]
        |dettagli)\b""",
    ),
    (
        r"""non (?:compare|compaiono|figura|figurano|appare|appaiono|emerge|risulta|è|si trova)""",
        rf""" (?:\w{{3,14}} )?(?:nel|nei|nella|nelle|nell'|negli|in|tra i|tra le|dal|dai|dalla
        |dalle) ?(?:[^\s.!?]{{1,16}} ){{0,3}}{SOURCE}""",
    ),
    ("non si (?:evince|desume|ricava|deduce)", r"\b"),
    (
        "(?:da cui|dai|dal|dalle|dalla|dall'|nei|nel|nelle|nella|nell'|negli)",
        rf""" ?(?:[^\s.!?]{{1,20}} ){{0,2}}{SOURCE} (?:[^\s.!?]{{1,20}} ){{0,4}}?non (?:si |c'è
        |ci |vi |è |viene |compare
        |figura|risulta|emerge|trovo|riesco|ho )""",
    ),
    ("da nessuna parte", r"\b"),
    (
        "(?:nulla|niente)",
        rf""" (?:[^\s.!?]{{1,20}} ){{0,3}}?(?:(?:nel|nei|nella|nelle|nell'|negli
        |in) ?(?:[^\s.!?]{{1,20}} ){{0,3}}{SOURCE}|si (?:dice|sa)|(?:viene|è) (?:detto|specificato|indicato
        |riportato)|risulta|in merito|al riguardo|a riguardo|in proposito)\b""",
    ),
    (
        "nessun",
        rf"""(?:a|o|')? ?(?:de[il]\w{{0,3}} )?(?:[^\s.!?]{{1,20}} ){{0,3}}(?:informazione|menzione
        |indicazione|riferimento|notizia|traccia|cenno|dettaglio|elemento|dato|passaggio|risposta
        |accenno|mi ha (?:detto|informato)|{SOURCE} [^.!?\n]{{0,30}}?{_MENTIONS})\b(?! personal)""",
    ),
    (r"insufficient(?=[ei])", r"\w\b"),
    (
        "non ",
        r"""(?:ci sono|vi sono|ho|c'è|dispongo di|contiene|contengono|bastano|basta|sono|fornisce|forniscono
        |è) (?:\w{3,14} )?(?:abbastanza|sufficient[ei]|per (?:stabilire|rispondere|dire))\b(?<!bastano)""",
    ),
    (
        "non bast",
        r"""(?:a|ano) (?:\w{3,14} )?(?:per|a) (?:stabilire|rispondere|dire|capire|determinare|sapere)\b""",
    ),
    (
        """(?:non è (?:possibile|dato|facile|mai possibile)|non si (?:può|riesce a|possono)|impossibile
        |difficile|arduo|non mi è possibile|non (?:consente|consentono|permette|permettono) di
        |non c'è modo di|non è stato possibile|non ci è dato|mi (?:è|riesce|risulta) (?:impossibile
        |difficile)|è (?:impossibile|difficile))""",
        rf" (?:di )?(?:[^\s.!?]{{1,14}} )?{FINDS}",
    ),
    (
        "non può essere",
        r""" (?:\w{3,16} )?(?:determinat|stabilit|dedott|ricavat|accertat|verificat|confermat|calcolat
        |desunt)[oa]\b""",
    ),
    (
        """(?:mancano|manca|in mancanza di|mancanza di|privo di|assenza di|scarse|scarsi|scarsità di
        |carenza di|mi mancano|mi manca)""",
        rf" (?:l'|le |i |gli |la |il |di )?{_FACTS}",
    ),
    ("mi sfugge", r"\b"),
    (
        "manca(?:no)?",
        rf""" (?:\w{{3,14}} )?(?:nel|nei|nella|nelle|nell'|dal|dai|dalla|dalle|dall'|tra i
        |fra i) ?(?:[^\s.!?]{{1,16}} ){{0,2}}{SOURCE}""",
    ),
    (
        "non si (?:capisce|specifica|precisa|chiarisce|comprende|dice|sa|accenna|legge|vede|parla)",
        r""" (?:[^\s.!?]{1,20} ){0,3}?(?:chi|quando|quale|quanto|dove|se|perché|come|che cosa|di)\b""",
    ),
    ("mi è (?:del tutto |completamente |totalmente )?(?:ignot|sconosciut|oscur|nuov)", r"[oa]\b"),
    (
        "(?:chissà|chi lo sa|vai a sapere|vattelapesca|dio solo lo sa|lo sa il cielo|mistero|chi può dirlo)",
        r"(?=\s{0,3}(?:[.!?,;]|$))",
    ),
    ("né ", rf"(?:nel|nei|nella|nelle|il|la|i|le|l'|nell') ?(?:[^\s.!?]{{1,14}} ){{0,2}}{SOURCE} … né\b"),
    (
        "(?:fuori|al di fuori|al di là|oltre)",
        r""" (?:da|dal|dalle|delle|dei|le) ?(?:mie |miei )?(?:mie )?conoscenze\b""",
    ),
    (
        "le mie (?:conoscenze|informazioni)",
        r""" (?:si fermano|arrivano|non|terminano|sono (?:limitate|ferme))""",
    ),
    ("i miei dati", r" (?:si fermano|arrivano|non|terminano|sono (?:limitati|fermi))"),
    (
        "(?:posso|potrei) solo",
        r""" (?:indovinare|ipotizzare|speculare|supporre|congetturare|tirare a indovinare)\b""",
    ),
    ("mai sentit", r"[oaie]\b (?:nominare|parlare|dire|prima)?"),
    (
        r"(?:\A|[.!?\n,]\s{0,2})\W{0,9}",
        r"""(?:(?:mi dispiace|mi spiace|scusa|mah|eh|beh),? )?(?:sconosciut[oa]|ignot[oa]|n/?d|boh
        |non pervenut[oa]|non saprei|nessuna idea|difficile (?:a )?dir\w{1,3}|non specificat[oa]
        |non disponibile|non noto|non indicat[oa]|mistero|passo|bella domanda, (?:non
        |ma))\s{0,3}(?=[.,!?;:–]|\Z)(?<!passo,)""",
    ),
)
ANSWERED = r"""(?>[^\n]{0,90}?(?:\b(?:ma|però|tuttavia|forse|probabilmente|comunque|anche se|benché|direi
        |pare|sembra)\b|[;:,–—]))[^.!?\n]{0,60}?(?:\d|\b(?:credo|penso|direi|probabilmente|circa|è
        |era|fu|forse|sono|saranno|sarà|pare|sembra|dovrebbe\w{0,3}|erano|suppongo|stimo|presumo
        |parlano)\b)|[^\n.!?]{0,60}?[.!?]\s(?:direi|probabilmente|forse|secondo me|credo|penso
        |immagino|la mia (?:stima|ipotesi))\b"""
