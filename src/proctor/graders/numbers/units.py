"""Scale words and units after a number.

English only. A letter can mean two things (`m` is million or metre), so a word has a list of meanings.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Unit(NamedTuple):
    """A unit. Two units of the same `kind` are compared by their factors."""

    family: str
    """What is measured: `money`, `share`, `mass` …"""
    kind: str
    """Units of a kind are multiples of one another: `EUR`, `kilogram`, `pound` …"""
    numerator: int = 1
    denominator: int = 1


class Meaning(NamedTuple):
    """The meaning of a word beside a number: a power of ten, or a unit."""

    power: int = 0
    unit: Unit | None = None


_SCALES: Final = {
    2: "hundred",
    3: "thousand thousands k K",
    5: "lakh lakhs",
    6: "million millions mil mill mln mn Mn MN m M MM mm Mio",
    7: "crore crores",
    9: "billion billions bil bill bln bn Bn BN b B Mrd",
    12: "trillion trillions tln trn tn Tn TN t T",
    15: "quadrillion quadrillions",
}
"""Powers of ten by their words; a word of one or two letters means it only in this spelling."""

_MONEY: Final = {
    "USD": "$ US$ USD usd dollar dollars us_dollar us_dollars u.s._dollar u.s._dollars",
    "EUR": "€ EUR eur euro euros",
    "GBP": "£ GBP gbp pounds_sterling british_pounds pound pounds",
    "JPY": "¥ JP¥ JPY jpy yen",
    "CNY": "¥ CN¥ CNY cny RMB rmb yuan renminbi",
    "INR": "₹ INR inr rupee rupees",
    "CHF": "CHF chf francs swiss_francs",
    "CAD": "C$ CA$ CAD canadian_dollars",
    "AUD": "A$ AU$ AUD australian_dollars",
    "NZD": "NZ$ NZD",
    "HKD": "HK$ HKD",
    "SGD": "S$ SGD",
    "TWD": "NT$ TWD",
    "BRL": "R$ BRL reais",
    "MXN": "MX$ MXN",
    "KRW": "₩ KRW",
    "RUB": "₽ RUB roubles rubles",
    "TRY": "₺ TRY",
    "ILS": "₪ ILS shekels",
    "peso": "peso pesos",
    **{code: code for code in ("SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "ZAR", "THB", "SAR", "AED")},
}

_CENTS: Final = {"cent cents": ("USD", "EUR", "CAD", "AUD", "NZD", "HKD", "SGD"), "penny pence": ("GBP",)}
"""Words for hundredths, and the currencies that they can belong to."""

_MEASURES: Final = """
share share 1 x X × times fold
share share 1/100 % ％ percent per_cent pct pct. percentage_point percentage_points percent_points pp ppt
share share 1/1000 ‰ per_mille per_mil
share share 1/10000 basis_point basis_points bp bps
parts ppm 1 ppm parts_per_million
mass kilogram 1/1000000 mg milligram milligrams
mass kilogram 1/1000 g gram grams gramme grammes
mass kilogram 1 kg Kg KG kilogram kilograms kilo kilos
mass kilogram 1000 t tonne tonnes metric_ton metric_tons
mass ton 1 ton tons
mass pound 1 lb lbs lb. lbs. pound pounds
mass pound 1/16 oz ounce ounces
length metre 1/1000000000 nm nanometre nanometres nanometer nanometers
length metre 1/1000000 µm μm micrometre micrometres micrometer micrometers micron microns
length metre 1/1000 mm millimetre millimetres millimeter millimeters
length metre 1/100 cm centimetre centimetres centimeter centimeters
length metre 1 m metre metres meter meters
length metre 1000 km kilometre kilometres kilometer kilometers
length inch 1 inch inches
length inch 12 ft foot feet
length inch 36 yd yard yards
length inch 63360 mi mile miles
area metre² 1 m² square_metre square_metres square_meter square_meters
area metre² 10000 ha hectare hectares
area metre² 1000000 km² square_kilometre square_kilometres square_kilometer square_kilometers
area foot² 1 square_foot square_feet sq_ft
area foot² 43560 acre acres
area mile² 1 square_mile square_miles
volume litre 1/1000 ml mL millilitre millilitres milliliter milliliters
volume litre 1 l L litre litres liter liters
volume litre 1000 m³ cubic_metre cubic_metres cubic_meter cubic_meters
volume gallon 1 gal gallon gallons
volume barrel 1 barrel barrels bbl
time second 1/1000 ms millisecond milliseconds
time second 1 s sec secs second seconds
time second 60 min mins minute minutes
time second 3600 h hr hrs hour hours
time second 86400 day days
time second 604800 week weeks
time month 1 month months
time month 3 quarter quarters
time month 12 year years yr yrs
temperature celsius 1 °C celsius degrees_celsius
temperature fahrenheit 1 °F fahrenheit degrees_fahrenheit
temperature kelvin 1 kelvin kelvins
angle degree 1 ° degree degrees
speed metre/second 1 m/s metres_per_second meters_per_second
speed kilometre/hour 1 km/h kph kmh
speed mile/hour 1 mph
power watt 1 W watt watts
power watt 1000 kW kilowatt kilowatts
power watt 1000000 MW megawatt megawatts
power watt 1000000000 GW gigawatt gigawatts
energy watthour 1 Wh
energy watthour 1000 kWh kilowatt-hours
energy watthour 1000000 MWh megawatt-hours
energy watthour 1000000000 GWh gigawatt-hours
energy joule 1 J joule joules
energy joule 1000 kJ kilojoule kilojoules
energy joule 1000000 MJ megajoule megajoules
energy calorie 1 cal calorie calories
energy calorie 1000 kcal kilocalorie kilocalories
frequency hertz 1 Hz hertz
frequency hertz 1000 kHz
frequency hertz 1000000 MHz
frequency hertz 1000000000 GHz
data byte 1 byte bytes
data byte 1000 kB KB kilobyte kilobytes
data byte 1000000 MB megabyte megabytes
data byte 1000000000 GB gigabyte gigabytes
data byte 1000000000000 TB terabyte terabytes
"""
"""Family, kind, factor, and words, with `_` for a space."""


def _build_table() -> dict[str, tuple[Meaning, ...]]:
    """Returns every word with its meanings; scales come first."""
    table: dict[str, tuple[Meaning, ...]] = {}

    def add(words: list[str], meaning: Meaning) -> None:
        for word in words:
            spelt = word.replace("_", " ")
            table[spelt] = (*table.get(spelt, ()), meaning)

    for power, scales in _SCALES.items():
        add(scales.split(), Meaning(power=power))
    for code, money in _MONEY.items():
        add(money.split(), Meaning(unit=Unit("money", code)))
    for cents, codes in _CENTS.items():
        for code in codes:
            add(cents.split(), Meaning(unit=Unit("money", code, 1, 100)))
    for line in _MEASURES.split("\n"):
        if line:
            family, kind, factor, *words = line.split(" ")
            numerator, _, denominator = factor.partition("/")
            add(words, Meaning(unit=Unit(family, kind, int(numerator), int(denominator or 1))))
    return table


_MEANINGS: Final = _build_table()
_MAX_SYMBOL_LENGTH: Final = 3


def get_meanings(word: str) -> tuple[Meaning, ...]:
    """Returns the meanings of a word or sign; empty if it is unknown.

    Words of more than three letters may be written with capitals; shorter ones are symbols and may not.
    """
    return _MEANINGS.get(word) or (_MEANINGS.get(word.lower(), ()) if len(word) > _MAX_SYMBOL_LENGTH else ())


# --- what follows ------------------------------------------------------------------------------------------

WORD: Final = re.compile(
    r"[*_]{0,3}(?P<gap>[ \t\u00a0\u2009\u202f-]?)\\?"
    r"(?P<word>[%％‰×]|°[CF]?|[A-Z]{0,2}\$|(?:JP|CN)?¥|[€£₹₩₽₺₪]|[A-Za-zµμ]+(?:[./][A-Za-z]+)*[²³]?\.?)"
)
"""A word or sign right after a number: the group `gap` is the text between, and `word` is the word."""
_SECOND_WORD: Final = re.compile(r"[ -]([A-Za-z]+)")
WordMeanings = tuple[tuple[Meaning, ...], ...]
"""The meanings of up to two words after a number: a scale and a unit, or one of them."""


def read_unit_words(text: str, at: int) -> tuple[WordMeanings, int] | None:
    """Reads the words after a number; returns their meanings and end, or None if they make it a name."""
    meanings_here, end = _read_word(text, at)
    if meanings_here is None:
        return None
    if not meanings_here:
        return (), at
    if not meanings_here[0].power:
        return (meanings_here,), end
    unit, last = _read_word(text, end)
    if unit and not unit[0].power:
        return (meanings_here, unit), last
    return (meanings_here,), end


def _read_word(text: str, at: int) -> tuple[tuple[Meaning, ...] | None, int]:
    """Returns the meanings of the next one or two words; empty if unknown, None for adjoining letters."""
    match = WORD.match(text, at)
    if match is None:
        is_joined = text[at : at + 1].isalnum() or text[at : at + 1] == "_"
        return (None if is_joined and not _is_unspaced_script(text[at]) else ()), at
    word, end = match["word"], match.end()
    is_joined = match.start("word") == at
    if match["gap"] == "-" and word[1:] in ("", ".") and word[0].isalpha():
        return None, at
    second = _SECOND_WORD.match(text, end)
    if second is not None:
        pair = get_meanings(f"{word} {second[1]}".lower())
        if pair:
            return pair, second.end()
    for part in (word, word.rstrip("."), word.partition("/")[0]):
        word_meanings = get_meanings(part)
        stop = end - len(word) + len(part)
        if word_meanings and not text[stop : stop + 1].isalnum():
            return word_meanings, stop
    return (None if is_joined and word[0].isalpha() else ()), at


def _is_unspaced_script(character: str) -> bool:
    """Whether a letter is of a script without a space between a number and the next word."""
    return character >= "\u0e00"
