"""English words of not knowing. Data; `refusal_words` says how a pattern is written."""

from __future__ import annotations

Phrases = tuple[tuple[str, str], ...]

LY = r"(?:\w{2,14}ly ){0,2}"
SOURCE = r"""(?:contexts?|documents?|passages?|texts?|excerpts?|extracts?|sources?|articles?|filings?
        |reports?|tables?|paragraphs?|materials?|transcripts?|letters?|statements?|snippets?
        |results?|minutes|memos?|memorand(?:um|a)|e-?mails?|messages?|notes|pages?|chapters?
        |sections?|files?|records?|data ?sets?|data ?sheets?|spreadsheets?|invoices?|receipts?
        |brochures?|leaflets?|manuals?|handbooks?|guides?|stud(?:y|ies)|papers?|abstracts?|reviews?
        |threads?|conversations?|chats?|timetables?|schedules?|menus?|listings?|captions?|images?
        |photos?|pictures?|charts?|graphs?|slides?|presentations?|web ?(?:page|site)s?|logs?|forms?
        |prospectus|10-[kq]s?|attachments?|uploads?|knowledge base|databases?|corpus|docs|resume|cv
        |biograph(?:y|ies)|poems?|stor(?:y|ies)|novels?|speech|interviews?|press releases?
        |summar(?:y|ies)|appendix|footnotes?|labels?|descriptions?|profiles?|agendas?|newsletters?
        |announcements?|notices?|certificates?|rulings?|judge?ments?|authors?|narrators?|writers?
        |recipes?|catalogu?es?|surveys?|itinerar(?:y|ies)|provided (?:information|data|details)
        |given (?:information|data|details)|available (?:information|data|details)
        |supplied (?:information|data|details)|retrieved (?:information|data))"""
_NORM = r"""(?:contracts?|leases?|agreements?|polic(?:y|ies)|clauses?|treat(?:y|ies)|laws?|acts?|statutes?
        |regulations?|constitution|terms|licen[sc]es?|deeds?|rules|plan|instructions|specifications?
        |warrant(?:y|ies)|syllabus)"""
_MODIFIERS = r"(?:(?!(?:that|who|which|says?|said|states?|shows?|he|she|they|it|you) )[^\s.!?]{1,30} ){0,4}"
_SAYS = r"""(?:mention|specif|stat(?!us)|say|sa(?:ys|id)|disclos|indicat|list|discuss|reveal|tell|told|refer
        |clarif|identif|nam(?:e|ing)|describ|explain|note|contain|address|elaborat|touch|spell|go into|speak
        |talk|quantif|record|document|break|detail|answer|comment|report|show|make (?:it )?(?:clear|any
        |mention|reference)|shed|settle|offer|speci)\w{0,4}\b"""
_MENTIONS = rf"(?:{_SAYS}|(?:includ|provid|giv|gave|cover|make|have|deal|suppl|appear to)\w{{0,4}}\b)"
_INFORMATION = r"""(?:information|info|data|details?|knowledge|answers?|access|records?|context|idea|figures?
        |numbers?|memory|means|clue|insight|evidence|mentions?|references?|indications?|recollection
        |notion|inkling|way|visibility|sources?|hint|trace|discussion|description|explanation
        |statement|clarity|guidance|specifics|material)\b"""
_KIND = r"""(?:(?:any|an?|that|this|the|enough|sufficient|specific|current|real-?time|live|up-to-date
        |reliable|detailed|direct|further|such|relevant|explicit|clear|available|additional|more|to
        |of|absolutely|about|on|your|his|her|their|its|personal|those|these|adequate|much|verifiable
        |trustworthy|good) ){0,3}"""
_FINDS = r"""(?:answer|find|determine|say|tell(?! you (?:enough|how))|verify|confirm|identify|locate
        |access|know|infer|calculate|compute|derive|look (?:(?:that|it|this|up) ?)?up|check|retrieve
        |predict|conclude|establish|ascertain|extract|be (?:sure|certain|definite|positive)
        |work (?:\w{2,4} )?out|judge|browse|see (?:any|where|when|that|it|what|who|how|whether|from
        |in)|spot|make out|pin (?:\w{2,4} )?down|figure (?:\w{2,4} )?out|trace|come up with|detect
        |pinpoint|speak to|point to|vouch|guarantee|recall|remember|discern|gather|name|quote|cite
        |deduce|estimate|assess|explain|show|read|count|rule out|speculate|put (?:a|an) \w{3,8} on
        |(?:give|provide|offer) (?:you )?(?:an? |any |the |that |more )?(?:exact|precise|specific
        |defini\w{2,5}|reliable|accurate|answer|figure|number|date|information|details|estimate))\b"""
_UNABLE = r"""(?:can'?t|cannot|can not|could(?:n'?t| not)|wouldn't be able to|won't be able to|am unable to
        |was unable to)"""
_HERE = rf"""(?! (?:in|on|for|until|to|when|because|as|unless|during|outside|before|after|without|by|at|with
    |under|among|yet|only|since|from|within|of)\b
    (?! (?:the |this |that |these |your |any |any of the |what |either |my )?(?:\w{{3,12}} ){{0,2}}
    (?:{SOURCE}|{_NORM}|time|moment|me|us)\b))"""
_PARTICIPLE = rf"""(?:been |being )?{LY}(?:(?:specified|mentioned|stated|provided|disclosed|indicated
        |spelled out|spelt out|broken (?:out|down)|referenced|quantified|elaborated|touched (?:on
        |upon)|made (?:clear|public|explicit))\b|(?:available|known|clear|given|included|found
        |listed|reported|contained|addressed|discussed|covered|present|described|noted|recorded
        |documented|identified|supplied|published|detailed|explained|shown|cited|revealed|set out
        |named|outlined|answered|apparent|evident|visible|written)\b(?![- ]cut){_HERE}|(?:in|part of
        |among|anywhere in|to be found in) (?:the|this|that|these|those|any of (?:the|these|your)
        |your|what|my)(?:\w{{3,14}} ){{0,3}}(?: )?(?:{SOURCE}|you)\b)"""
NOT_KNOWING: Phrases = (
    ("nothing on ", r"(?:file|record|that|this|it)\b"),
    (
        "(?:it|that|this)",
        r""" (?:does(?:n't| not)|never) (?:actually |ever )?(?:say|mention|specify|state|tell|indicate
        |disclose)s?(?=\s{0,3}[.,;!]|\s*$| (?:who|what|when|where|how|why|whether|which|if
        |anything)\b)""",
    ),
    ("i", rf" {LY}(?:have|had) {LY}(?:no|not the|not a) (?:\w{{3,12}} ){{0,2}}{_INFORMATION}"),
    (
        "(?:something|anything|a detail|a point|a question|a fact|information) ",
        rf"(?:that )?(?:the|this|these|your) (?:\w{{3,14}} ){{0,2}}(?:{SOURCE}) (?:\w{{3,14}})\b",
    ),
    (
        "",
        rf"""n(?:o|')t (?:seem to |actually )?(?:appear|figure|feature|come up|show up|occur)(?: anywhere)?
        (?: in| on| among) (?:\w{{2,14}} ){{0,3}} ?{SOURCE}\b""",
    ),
    (
        "i",
        rf"""(?: ){LY}(?:do|did|would)(?:n'?t| not) {LY}(?:know\b(?! (?:about you|how to thank))|recall\b
        |remember\b|have (?:(?:that|this|it|those) (?:on|in|to|here|at|available|memori[sz]ed)\b
        |{_KIND}{_INFORMATION}|(?:that|this|it|one|an answer|a clue|the answer)\s{{0,3}}(?:[.,!]|$))|(?:see
        |find|spot|notice) (?:any|an?|that|this|it|the|where|anything|mention)\b|have (?:a
        |the) (?:\w{{4,12}} )?(?:clue|idea)\b)|(?: (?:have|had|hold|possess|see|find|found|saw|can find
        |could find|can see|located|was given|got)|'ve(?: got)?) {LY}(?:no|zero|nothing|neither
        |insufficient|nothing) (?:\w{{1,20}} ){{0,3}}(?:{_INFORMATION}|about|on|in|to|that|there)|(?: have
        |'ve) (?:got )?(?:no (?:\w{{3,12}} )?(?:idea|clue)|nothing)\b|(?: was| am| have been|'ve been
        |'m) (?:never|given no|told nothing|not) (?:been )?(?:told|given|shown|informed|provided)\b
        |(?: came across| come across| know of| hold| recall| know) (?:no|nothing|none)\b|(?: have|'ve|'m
        | am| was)(?: not|n'?t)(?: been|being)? (?:told|given|provided|informed|shown|briefed|privy)\b
        |(?: have|'ve)(?: not|n'?t) (?:got )?(?:a|the|any|enough|seen|heard|found|come across|read
        |the faintest)\b|(?: have|'ve)? ?(?: )never (?:heard|been told|come across|seen|learned|learnt
        |found)\b|(?: )?(?: lack|'m lacking|'m missing| am missing) {_KIND}(?:information|data|knowledge
        |context|details|access|means)\b|(?: ){LY}{_UNABLE} {LY}(?:(?:seem to|even|begin to|possibly
        |for the life of me) )?{_FINDS}|(?:'?m| am) {LY}(?:not (?:\w{{2,12}} )?(?:sure|certain|aware of
        |familiar with|informed|positive|clear on|privy to)|unsure|uncertain|unaware|unfamiliar|clueless
        |stumped|in the dark|at a loss|drawing a blank|no expert on|(?:unable|not able) to {_FINDS})|(?:'d
        | would) (?:only |just |merely )?(?:be (?:only |just |merely )?(?:guessing|speculating|making)
        |have to (?:guess|speculate|make)|need (?:more|further|additional|to (?:see|know|look)|the (?:actual
        |full|rest|original)))| (?:looked|searched|checked|read|went|combed|scanned|reviewed|have (?:looked
        |searched|checked|read|reviewed)) [^.!?\n]{{1,80}}? (?:found|find|see|saw|turned up) (?:no|nothing
        |none|neither)\b| can only (?:guess|speculate)\b| (?:draw|drew) a blank\b| came up (?:empty|blank)\b
        | wish i (?:knew|could tell)\b""",
    ),
    (
        "we",
        rf""" (?:(?:don'?t|do not|cannot|can't) (?:know|have (?:any |enough |that |this )?(?:information|data
        |details))\b|(?:{_UNABLE}|are (?:unable|not able) to) (?:answer|determine|infer|conclude|know|tell
        |say|establish|work out|be sure) … (?:from|based|with|without|given|who|what|when|how|whether
        |which)\b|aren't told\b|are (?:not|never) told\b|have no (?:information|way|data|record)\b)""",
    ),
    (
        "",
        rf"""n(?:o|')t {LY}(?:{_PARTICIPLE}|(?:enough|sufficient) {_KIND}(?:{_INFORMATION}|to go on\b
        |here to\b|to (?:say|tell|answer)))""",
    ),
    (
        "no ",
        rf"""(?:(?:way|means|basis|method)(?: for me| here)? (?:to|of|for) (?:know|tell|determin|verify
        |find|say|answer|check|confirm|infer)|(?:\w{{4,12}} )?(?:mention|information|info|clue
        |idea)\b(?<!had.no.idea)(?<!has.no.idea)(?<!have.no.idea)(?! (?:was lost|desk))
        |(?:(?:specific|direct|relevant|such|further|explicit|clear|available|additional|matching
        |other|actual) ){{0,2}}(?:information|info|data|details?|mentions?|references?|indications?
        |records?|answers?|context|figures?|results?|matches|hits|entry|entries|source|sources
        |statement|documents?|passages?|discussion|explanation|word|trace|hint|date|dates|amount
        |price|name|names)(?: (?:(?:is|was|are|were|has been|have been|could be
        |can be) )?{LY}(?:found|given|provided|available|mentioned|listed|included|stated|specified
        |recorded|as to|returned|supplied|in the (?:\w{{3,14}} ){{0,3}}{SOURCE}|(?:in|from) (?:this
        |your|these|what) |to (?:answer|determine|say)|here|for (?:this|that) (?:query|question
        |search))\b|\s{{0,2}}(?:[.!]|$))|(?:(?:specific|direct|relevant|further|explicit|clear
        |additional) )?(?:details?|data|references?|indications?|records?|context)(?: (?:(?:is|was
        |are|were) )?(?:available|about|on|regarding|concerning|relating|related|of (?:this|that|it
        |the|an?|any)))\b|(?:one|body) (?:has )?(?:told|informed|briefed) me\b|telling\b)""",
    ),
    ("nobody ", r"(?:has )?(?:told|informed|briefed) me\b"),
    (
        "unclear",
        r"""\b(?! (?:at first|initially|to (?:some|many|most)))(?= (?:from|who|what|when|where|why|how
        |whether|if|which|at|in|to|based|on|as|since|and|or|but|without|exactly)\b
        |\s{0,3}[.,;:!?)–—]|\s*$)""",
    ),
    (
        "un",
        r"""(?:specified|stated|mentioned|disclosed)\b(?! (?:sum|amount|location|number|fee|price|person
        |illness|time|part|type))""",
    ),
    ("insufficient ", r"(?:\w{1,20} ){0,2}(?:information|context|data|details?|evidence|knowledge)\b"),
    ("too little ", r"(?:\w{1,20} ){0,1}(?:information|context|data|details?|evidence|to go on|here)\b"),
    (
        "",
        rf"""(?:can(?:not|'t| not)|could(?:n't| not)) be (?:{LY}(?:determined|answered|inferred|verified
        |established|calculated|derived|ascertained|concluded|deduced|gleaned|worked out|read off|gathered
        |told|said|known|discerned|confirmed|pinned down|computed)\b|(?:found|located|seen|identified
        |recovered) (?:in|from|within|anywhere) (?:\w{{2,14}} ){{0,3}}{SOURCE}\b)""",
    ),
    ("impossible ", rf"(?:for (?:me|anyone|us) )?(?:to|for me to) {LY}{_FINDS}"),
    ("not possible ", rf"(?:for (?:me|us) )?to {LY}{_FINDS}"),
    (
        "hard ",
        r"""(?:for me )?to (?:say|tell|know|judge|pin down)\b(?! (?:no|good|apart|them|the difference
        |it apart|sorry|yes))""",
    ),
    (
        "difficult ",
        r"""(?:for me )?to (?:say|tell|know|judge|pin down)\b(?! (?:no|good|apart|them|the difference
        |it apart|sorry|yes))""",
    ),
    ("unknown", r" (?:to me|from|based|at this time|here)\b"),
    ("unfamiliar to me", ""),
    ("to me", r"(?<=mystery.to.me)|(?<=news.to.me)|(?<=unfamiliar.to.me)|(?<=new.to.me)"),
    (
        "nothing ",
        rf"""(?:(?:\S{{2,20}} ){{0,4}}(?:in|from|within|inside) (?:\S{{1,20}} ){{0,3}}(?:{SOURCE}|{_NORM}
        |what you|here)\b|(?:is|was) (?:said|mentioned|stated|given|specified|disclosed|recorded|provided)\b
        |(?:here|there|that) (?:says|mentions|states|tells|indicates)|(?:comes?|came) (?:up|to mind)|(?:on
        |about) (?:this|that|it)\b)""",
    ),
    (
        "(?:withheld|redacted|omitted|left out)",
        rf""" (?:in|from|of) (?:the |this |your )(?:\w{{3,14}} ){{0,2}}{SOURCE}""",
    ),
    ("beyond what ", rf"(?:the |these |this |your )(?:\w{{3,14}} ){{0,2}}{SOURCE}"),
    ("outside what ", rf"(?:the |these |this |your )(?:\w{{3,14}} ){{0,2}}{SOURCE}"),
    (
        "(?:outside|beyond) (?:of )?the scope of ",
        rf"""(?:the |these |this |your |what )(?:\w{{3,14}} ){{0,2}}{SOURCE}\b""",
    ),
    ("nowhere ", r"(?:in the|does|do\b|is it|mentioned|stated|specified|given|to be found in)"),
    ("none of ", rf"(?:them|(?:the|these|those|your|my) (?:\S{{1,20}} ){{0,3}}{SOURCE}) {_MENTIONS}"),
    ("neither ", rf"(?:of the )?(?:\w{{3,12}} ){{0,2}}(?:{SOURCE}|{_NORM}) {_MENTIONS}"),
    (
        "my ",
        r"""(?:\w{3,12} )?(?:knowledge|training(?: data)?|information|data|memory|search(?:es)?|records
        |sources|files?|notes)(?:(?: base| cut-?off)? (?:ends|stops|only (?:goes|extends|covers)
        |does(?:n't| not)|do(?:n't| not)|is limited|cuts off|lacks?|has no|have no|contains? no
        |contains? nothing|(?:returned|yielded|turned up|found|produced|came up) (?:no|empty
        |nothing)))\b""",
    ),
    ("my ", r"(?:knowledge cut-?off|training (?:cut-?off|data ends))\b"),
    (
        "(?:outside|beyond|past|after)",
        r""" (?:the scope of |the limits of )?my (?:\w{3,12} )?(?:knowledge|ken|training|information
        |understanding|expertise)\b""",
    ),
    (
        "search",
        r"""(?:es)? (?:for \S{1,30} )?(?:returned|yielded|turned up|produced|gave|found) (?:no|nothing
        |zero)\b""",
    ),
    ("turned up ", r"(?:nothing|no |empty|blank)"),
    ("guess is as good as mine", ""),
    ("any", r"(?:one|body)'s guess\b"),
    ("beats me", r"(?=\s{0,3}(?:[.!,;–—]|$))"),
    ("search me", r"(?=\s{0,3}(?:[.!,;–—]|$))"),
    ("who knows", r"(?=\s{0,3}(?:[.!?,;–—]|$))"),
    ("(?:god|heaven|heavens|lord|goodness)", r" (?:only )?knows\b"),
    ("escapes me", ""),
    ("me there", r"(?<=got.me.there)|(?<=lost.me.there)|(?<=stumped.me.there)"),
    ("rings no bell", ""),
    (
        "ring",
        r"""(?:s|ing)? (?:a|any) bells?\b(?<=n't.ring.a.bell)|(?<=not.ringing.any)
        |(?<=n't.ring.any) bells?""",
    ),
    ("above my pay", r"\b"),
    (
        "you ",
        r"""(?:have(?:n't| not)|did(?:n't| not)|never) (?:yet |actually |really )?(?:told? me|shared?
        |mention(?:ed)?|sa(?:y|id)|specif(?:y|ied)|provided?|give?n? me|attach(?:ed)?|upload(?:ed)?
        |included?|paste|pasted|tell me|state|stated)\b""",
    ),
    (
        "silent ",
        r"""(?:on|about|as to|regarding)\b(?<!was.silent.on)(?<!were.silent.on)(?<!fell.silent.on)
        (?<!stayed.silent.on)(?<!kept.silent.on)(?<!remained.silent.on)(?<!was.silent.about)
        (?<!kept.silent.about)(?<!remained.silent.about)""",
    ),
    ("(?:missing|absent)", rf" from (?:the |this |your |my )(?:\w{{3,14}} ){{0,3}}{SOURCE}\b"),
    (
        "(?:left|leaves)",
        r""" (?:\w{2,12} ){0,4}(?:unanswered|unspecified|unstated|open|blank)\s{0,2}(?:[.!]|$)""",
    ),
    (
        f"(?:{SOURCE[3:-1]}|{_NORM[3:-1]})",
        rf""",? {_MODIFIERS}(?:(?:do|does|did)(?:n'?t| not) {LY}
        (?:seem to |appear to |actually |ever )?{_SAYS}
        |(?<!was.)(?<!were.)never {LY}{_SAYS}|(?:fail|omit|neglect)(?:s|ed|ted)? to {_SAYS}|(?:says?
        |said|mentions?|states?|contains?|tells?|reveals?|discloses?|gives?|offers?
        |provides?) (?:\w{{2,4}} )?nothing\b|(?:contain|ha[sd]|have|make|made|give|gave|provide
        |offer|bear|show|include)[sd]?(?: no|n't any| not any
        | little)(?: \w{{1,20}}){{0,2}}(?: ){_INFORMATION}|(?:is|are|remains?|stays?
        |was) (?:\w{{3,12}} )?(?:silent|mute|vague|unclear)\b|(?:only|just|merely) (?:cover|mention
        |give|list|discuss|describe|go|say|state|talk|deal|include)s? [^.!?\n]{{1,60}}(?:,| but
        | and) not(?:hing)?\b)""",
    ),
    (
        SOURCE,
        rf""",? {_MODIFIERS}(?:(?:do|does|did)(?:n'?t| not) {LY}{_MENTIONS}
        |(?<!was.)(?<!were.)never {_MENTIONS}|lacks?\b|omits?\b|(?:skips|skirts|glosses
        |passes) (?:over |past |around )?(?:this|that|it|the)\b|says little\b
        |leaves? (?:\w{{2,10}} ){{1,3}}(?:out|open|unanswered)\b)""",
    ),
    (
        "",
        r"""(?:\A|[.!?\n]\s?)\W{0,9}(?:(?:sorry|hmm?|well|honestly|oh|ah|um|uh)[,.!]? )?(?:unknown|n/?a|idk
        |i dunno|dunno|not sure|no answer|none given|unsure|no (?:idea|clue)|not a clue|haven't a clue
        |hard to say|can't say|could be anything|couldn't tell you|couldn't say|don't know|do not know
        |not known|not that i know of|not given|not (?:to my|that i))\b(?:\W{1,3}(?:sorry|i'm afraid
        |honestly|really|at all|mate|friend))?\s{0,2}(?=[.,!?;:–—]|\Z|\n| (?:about|what|who|when|where|how
        |why|for|whether|if|which|on)\b|$)(?!\W{0,3}\w{1,20} (?:pleasures|soldier))""",
    ),
)
ANSWERED = r"""(?>[^\n]{0,90}?(?:\b(?:but|though|although|however|yet|still|nevertheless|nonetheless
        |that said|even so|if i had to|best guess|only that|except that|other than)\b
        |[;:—–]))[^.!?\n]{0,60}?(?:\d|\b(?:i(?:'d| would| think| believe| suspect| guess)|(?:my|best
        |educated) (?:\w{3,9} )?(?:guess|estimate)|probabl[ey]|likely|perhaps|maybe|roughly|about
        |around|approximately|it(?:'s| is| was)|the answer|should|most|is|was|points? to|must have
        |seems?|suggests?|appears)\b)|[^\n.!?]{0,60}?[.!?]\s(?:still|that said
        |my (?:\w{3,9} )?(?:guess|estimate)|if i had to|i(?:'d| would) (?:guess|say|estimate)
        |but (?:it|i(?:'d| would| think| believe))|probably|perhaps|maybe|roughly)\b"""
"""What follows on words of doubt in an answer that gives its answer all the same."""
