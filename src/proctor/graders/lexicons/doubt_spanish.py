"""Spanish words of not knowing. Data; `refusal_words` says how a pattern is written."""

from __future__ import annotations

Phrases = tuple[tuple[str, str], ...]

CLITIC = r"(?:(?:te|le|les|os|me|lo|la|los|las|se|nos) ){0,2}"
SOURCE = r"""(?:contextos?|textos?|documentos?|documentación|pasajes?|fragmentos?|artículos?|informes?
        |contratos?|tablas?|fuentes?|párrafos?|cartas?|extractos?|transcripci(?:ón|ones)|páginas?
        |capítulos?|notas?|correos?|mensajes?|archivos?|ficheros?|actas?|memorias?|memorandos?
        |estudios?|anexos?|secci(?:ón|ones)|adjuntos?|base de (?:datos|conocimientos?)
        |resúmen(?:es)?|resumen|manual(?:es)?|folletos?|facturas?|presupuestos?|menús?|recetas?
        |horarios?|fichas?|datos (?:facilitados|proporcionados|aportados|disponibles)
        |información (?:proporcionada|facilitada|disponible|dada|aportada|suministrada)
        |conversaci(?:ón|ones)|relatos?|novelas?|poemas?|discursos?|entrevistas?|sentencias?|fallos?
        |reglamentos?|ley(?:es)?|estatutos?|avisos?|guías?|imágen(?:es)?|imagen|fotos?|gráficos?
        |diapositivas?|presentaci(?:ón|ones)|comunicados?|formularios?|listas?|listados?|anuncios?
        |currículum|recibos?|acuerdos?|convenios?|pólizas?|sitios?|resultados?|certificados?
        |expedientes?|escritos?|materiales|material|instrucciones|balance|prospectos?|apartados?
        |cláusulas?)\b"""
FINDS = r"""(?:determinar|saber|encontrar|verificar|confirmar|decir|precisar|responder|identificar|ver|hallar
        |localizar|asegurar|calcular|deducir|establecer|concluir|consultar|predecir|comprobar|inferir
        |contestar|averiguar|afirmar|estimar|indicar|acceder|garantizar|extraer|adivinar|recordar|obtener
        |señalar|nombrar|citar|leer|ubicar|conocer|juzgar|evaluar|acordar|especificar|aclarar|fechar
        |detallar|cuantificar)(?:te|le|les|os|lo|la|los|las|me|se|telo|selo|tela|sela)?\b"""
_SAID = r"""(?:especifica|menciona|indica|dice|proporciona|precisa|detalla|facilita|consta|conoce|aparece
        |explica|aclara|recoge|figura|revela|sabe|cita|aborda|trata|señala|ofrece|nombra|informa|publica
        |incluye|encuentra|aporta|describe|contempla|registra|hace (?:ninguna )?(?:mención|referencia
        |alusión)|desprende|deduce|puntualiza|refleja|concreta|dispone de|disponible(?! (?:en|para|hasta
        |desde|a|los|por)\b))(?:d[oa]s?|n|s)?\b"""
_PART = r"""(?:especificad|mencionad|indicad|proporcionad|precisad|detallad|facilitad|conocid|aclarad|recogid
        |revelad|citad|abordad|señalad|nombrad|informad|publicad|incluid|aportad|descrit|registrad|dich
        |reflejad|concretad|claro|clara|presente|contenid|divulgad|comunicad|explicad|suministrad|documentad
        |identificad|explícit|dad|respondid)[oa]?s?\b"""
_MENTIONS = r"""(?:contiene|menciona|especifica|incluye|indica|dice|proporciona|aclara|precisa|detalla|pone
        |cuenta|consigna|alude|define|ofrece|da|aporta|señala|recoge|responde|hace|trata|aborda
        |explica|figura|aparece|habla|revela|nombra|informa|cita|facilita|describe|refleja|registra
        |concreta|consta|establece|refiere|muestra|llega a|entra|tiene|estipula|contempla
        |encuentra|encuentro|está|mencionaba|decía|indicaba|expone|deja claro|comenta|menta|cubre
        |profundiza|brinda|desglosa|suministra|existe|hay|ve|lee|dispone|veo)n?\b"""
_FACTS = r"""(?:información|datos?|mención|menciones|referencias?|idea|acceso|constancia|conocimientos?
        |detalles?|pistas?|noticias?|noción|respuestas?|indicaci(?:ón|ones)|registros?|indicios?
        |rastro|cifras?|alusi(?:ón|ones)|elementos|fuentes?|medios|forma de|manera de|modo de
        |recuerdos?|certeza|contexto|palabra|documentos?|resultados?|coincidencias|remota idea
        |evidencia|fecha|explicación|rastros)\b"""
NOT_KNOWING: Phrases = (
    (
        "no (?:lo |la |los |las )?(?:he|hemos) ",
        r"""(?:podido |logrado )?(?:encontrado|visto|hallado
        |localizado|encontrar|oído|leído)\b""",
    ),
    ("nunca (?:he|había) ", r"(?:oído|visto|leído|escuchado)\b"),
    ("no se ", r"(?:aprecian?|ven?|distinguen?|nombran?|cuentan?|leen?|alcanza)\b(?! (?:bien|mal|afectad))"),
    (
        "no (?:venían?|figurab|aparecí|estab|constab|se mencionab|se indicab|se incluí)",
        rf"(?:an?)?n? (?:\w{{3,14}} )?(?:en|entre|por) (?:[^\s.!?]{{1,16}} ){{0,3}}{SOURCE}",
    ),
    (
        "(?:escapa|escapan|excede|supera|sobrepasa)",
        r""" (?:a |de )?mis? (?:conocimientos?|saber
        |entendimiento)\b""",
    ),
    (
        "no ",
        r"""(?:lo |la |te lo |le )?(?:sé|sabemos|sabría|supe|se sabe)\b(?! si reír)(?! (?:cómo agradec
        |qué haría))""",
    ),
    ("ni ", r"(?:la (?:más )?(?:mínima|menor|remota) )?idea\b"),
    ("(?:desconozco|ignoro|lo ignoro|desconocemos|se desconoce|se desconocen|se ignora)", r"\b"),
    (
        "no ",
        rf"""(?:tengo|dispongo|poseo|cuento|tenemos|contamos|disponemos|me dieron|he recibido|recibí
        |he encontrado|encontré|hallo|he visto|veo|existe|existen|aparece|aparecen|se aporta|se aportan
        |se dispone|se tiene|consta|constan|se ofrece|se ofrecen|se dan|se da|localizo|he localizado
        |he hallado) (?:[^\s.!?]{{1,30}} ){{0,4}}?{_FACTS}""",
    ),
    (
        "no ",
        rf"""{CLITIC}(?:puedo|logro|consigo|sabría|he podido|pude|podría|podemos|me atrevo a|me atrevería a
        |soy capaz de|alcanzo a|estoy en condiciones de|he logrado|conseguí|logré|podré|me es posible
        |me resulta posible|podría) (?:[^\s.!?]{{1,20}} ){{0,4}}?{FINDS}""",
    ),
    (
        "no ",
        r"""(?:lo |la |los |las |me |te )?(?:encuentro|conozco|recuerdo|me consta|consta|acuerdo|hallo|veo
        |me suena|suena|localizo|tengo ni|tengo (?:la )?(?:menor|más mínima|mínima)|tengo claro
        |tengo constancia|tengo conocimiento|tengo esa|tengo ese|tengo forma|tengo manera|tengo modo
        |tengo cómo|tengo la respuesta|tengo respuesta|me viene|he oído|había oído|he oido|estoy al tanto
        |estoy informad[oa]|estoy enterad[oa]|estoy familiarizad[oa]|me han dicho|me dijeron|me lo han dicho
        |me lo dijeron|me ha dicho|me has dicho|me has dado|has mencionado|has dicho|has indicado
        |ha indicado|ha mencionado|ha facilitado|me ha facilitado|has adjuntado
        |ha adjuntado)\b(?! (?:ningún problema|ninguna duda))""",
    ),
    (
        "no ",
        r"""(?:lo )?(?:estoy|soy) (?:[^\s.!?]{1,14} ){0,2}(?:segur[oa]
        |ciert[oa])\b(?! de (?:haber cerrado))""",
    ),
    ("no estoy ", r"(?:[^\s.!?]{1,14} ){0,2}segur[oa]\b"),
    (
        SOURCE,
        rf""",? (?:[^\s.!?]{{1,30}} ){{0,5}}(?:no|nunca|tampoco|jamás
        |en ningún momento) (?:lo |la |se |me |nos |los |las )?
        (?:ha |han |haya |puede |llega a )?{_MENTIONS}(?! (?:lugar a dudas
        |miedo))""",
    ),
    (
        SOURCE,
        r""",? (?:[^\s.!?]{1,30} ){0,4}?(?:guarda\w? silencio|calla\w?|omite\w?|nada (?:dice|menciona|indica
        |aclara)\w?|carece\w?|pasa\w? por alto|sin (?:mencionar|precisar|indicar|especificar|aclarar))\b""",
    ),
    ("nada", rf" (?:[^\s.!?]{{1,20}} ){{0,2}}(?:en|de) (?:[^\s.!?]{{1,20}} ){{0,3}}{SOURCE}"),
    ("nada ", r"(?:se (?:dice|menciona|indica|sabe|especifica)|dice|consta|indica|menciona|aparece)\w?\b"),
    (
        "(?:ningun[oa]|ningún)",
        rf""" (?:de (?:los|las|estos|estas|mis|sus|tus) )?(?:[^\s.!?]{{1,20}} ){{0,2}}?(?:{SOURCE}
        |{_FACTS}|parte|lugar|momento|sitio) (?:[^\s.!?]{{1,20}} ){{0,5}}?(?:{_MENTIONS}|del|de la
        |sobre|en|al respecto|a esto|a eso)\b""",
    ),
    (
        "en ning(?:una|ún) (?:parte|lugar|momento|sitio|apartado|punto|página)",
        r""" … (?:se|aparece|dice|menciona|consta|indica|figura|habla|del|de)\w?\b""",
    ),
    (
        "no ",
        rf"""(?:(?:se|está|están|fue|fueron|ha sido|han sido|es|son|consta|queda|quedan|viene|vienen
        |aparece|aparecen|figura|figuran|lo|la|me|ha|han|se ha|se han) ){{0,3}}(?:{_SAID}
        |{_PART})(?! (?:lugar a dudas|en español))""",
    ),
    (
        "no (?:hay|existe|existen|había|hubo|encuentro|se encuentra|se encuentran|encontré)",
        r""" (?:[^\s.!?]{1,20} ){0,3}?(?:información|datos|mención|referencias?|constancia|indicios
        |registros?|rastro|alusión|detalles|menciones|forma de (?:saber|determinar|verificar|averiguar)
        |manera de (?:saber|determinar|verificar|averiguar)|modo de (?:saber|determinar|verificar|averiguar)
        |nada (?:en|sobre|al)|palabra|respuesta|cifras?|pistas?|elementos|evidencia de (?:ello|eso)
        |resultados)\b""",
    ),
    (
        "sin ",
        r"""(?:información|datos|especificar|respuesta|determinar|conocer|más (?:información|datos|contexto
        |detalles)|acceso|mención|precisar)\b(?! (?:personales|privados))""",
    ),
    ("(?:información|datos|documentación|contexto|pruebas)", r" (?:\w{2,14} ){0,2}insuficientes?\b"),
    ("insuficientes?", r"\b"),
    (
        "(?:poca|escasa|falta|ausencia de|carezco de|me falta|me faltan|faltan|falta de)",
        rf" (?:la |los |el )?{_FACTS}",
    ),
    ("carezco", r"\b"),
    (
        "no (?:hay|tengo|existe|dispongo de|cuento con|se da|se dan|contiene|contienen)",
        r" (?:la )?(?:suficiente|bastante)s?\b",
    ),
    (
        "no ",
        r"""(?:es|son|resultan?|basta|bastan|alcanzan?) (?:\w{2,14} )?(?:suficientes?|bastan|para (?:saber
        |determinar|responder))\b""",
    ),
    (
        "no (?:está|queda|resulta|me queda|me resulta|tengo)",
        r" (?:\w{2,14} )?(?:clar[oa]|evidente|explícit[oa])\b",
    ),
    (
        """no (?:es posible|se puede|puede|se pueden|pueden|cabe|resulta posible|sería posible
        |se podría|hay forma de|hay manera de|hay modo de|se logra|se alcanza a|permite|permiten)""",
        rf""" (?:[^\s.!?]{{1,14}} )?(?:ser )?(?:{FINDS}|determinad[oa]s?|deducid[oa]s?|inferid[oa]s?
        |confirmad[oa]s?|respondid[oa]s?|verificad[oa]s?|contestad[oa]s?|establecid[oa]s?)""",
    ),
    ("(?:imposible|difícil|complicado|arriesgado)", rf" (?:de )?{FINDS}"),
    ("me (?:resulta|es) (?:imposible|difícil)", rf" {FINDS}"),
    ("se (?:me )?escapa", r"\b"),
    ("fuera de mi(?:s)? conocimientos?", r"\b"),
    ("me es (?:totalmente |completamente )?desconocid", r"[oa]\b"),
    (
        "(?:mi|mis) (?:conocimientos?|datos|información|entrenamiento)",
        r""" (?:\w{2,10} ){0,2}(?:no |termina|llegan? hasta|llega solo|solo llega|se limita|acaba)""",
    ),
    (
        "me (?:quedo|he quedado|pillas|pilla|has pillado|coges)",
        r""" (?:en blanco|en fuera de juego|desprevenid|sin respuesta)\w?\b""",
    ),
    ("(?:ahí|en eso) me ", r"(?:has|ha) pillado\b"),
    (
        """no (?:está|están|aparece|aparecen|se encuentra|se encuentran|se recoge|viene|vienen|figura
        |figuran|consta)""",
        rf""" (?:\w{{3,14}} )?(?:en|entre|dentro) (?:[^\s.!?]{{1,16}} ){{0,3}}{SOURCE}""",
    ),
    (
        "(?:quién sabe|vete a saber|vaya usted a saber|sabe dios|dios sabe|a saber)",
        r"(?=\s{0,3}(?:[.!?,;]|$))",
    ),
    ("(?:solo|sólo|únicamente) (?:puedo|podría)", r" (?:adivinar|especular|suponer|conjeturar)\b"),
    ("nadie me ", r"(?:ha|lo ha|lo) (?:dijo|dicho|informado|contado)\b"),
    (
        "(?:ni|tampoco)",
        rf""" (?:en )?(?:el|la|los|las) (?:[^\s.!?]{{1,14}} ){{0,2}}{SOURCE} … (?:ni|{_MENTIONS})\b""",
    ),
    (
        r"(?:\A|[.!?\n]\s{0,2})[\W]{0,9}",
        r"""(?:(?:lo siento|perdón|pues|uf|ay|hmm?|la verdad),? )?(?:desconocid[oa]|n/?d|sin respuesta
        |no sabría|ni idea|no especificad[oa]|sin datos|no consta|difícil (?:de )?decir\w{0,2}
        |no disponible|no figura|no aparece|no se sabe|paso palabra|pasapalabra|no estoy segur[oa]
        |no se menciona|no se indica|no se)\s{0,3}(?=[.,!?;:–]|\Z)""",
    ),
)
ANSWERED = r"""(?>[^\n]{0,90}?(?:\b(?:pero|aunque|sin embargo|quizás?|probablemente|seguramente|no obstante
        |diría|tal vez|calculo|eso sí|con todo|parece)\b|[;:,–—]))[^.!?\n]{0,60}?(?:\d|\b(?:creo
        |pienso|diría|probablemente|seguramente|unos|unas|es|era|fue|suele|parece|apunta|calculo
        |estimo|serán?|debe|sería|son|ronda|supongo|quizás?|casi)\b)|[^\n.!?]{0,60}?[.!?]\s(?:diría
        |probablemente|quizás?|calculo|creo|supongo|mi (?:mejor )?(?:estimación|suposición)
        |seguramente|tal vez)\b"""
