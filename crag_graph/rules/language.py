"""Which language a text is in, as far as sentence borders need it.

The script decides where it can. For Latin script a handful of function words vote; English wins ties, and what is
unknown is treated as English, whose rules do least harm.

>>> detect_language("Die Pumpe ist nicht mehr an."), detect_language("यह पहला है।"), detect_language("The pump is off.")
('de', 'hi', 'en')
"""

import re

_SCRIPTS = {
    "ja": "\u3040-\u30ff",  # kana first: Japanese also uses Han
    "ko": "\uac00-\ud7af\u1100-\u11ff",
    "zh": "\u3400-\u9fff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "ta": "\u0b80-\u0bff",
    "th": "\u0e00-\u0e7f",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17ff",
    "ar": "\u0600-\u06ff",
    "he": "\u0590-\u05ff",
    "el": "\u0370-\u03ff",
    "ru": "\u0400-\u04ff",
    "ka": "\u10a0-\u10ff",
    "hy": "\u0530-\u058f",
    "am": "\u1200-\u137f",
}
_PATTERNS = {language: re.compile(f"[{chars}]") for language, chars in _SCRIPTS.items()}
_FUNCTION_WORDS = {
    "en": "the of and to in is was for on that with as are at by from this which",
    "de": "der die das und ist im am den von zu mit nicht ein eine auf für z.b dass wird heute",
    "fr": "le la les des et est une dans pour que qui sur avec pas du aux sont au",
    "es": "el la los las y es una en para que con por del se no como",
    "it": "il lo la gli e è una per che con non del della sono nel",
    "pt": "o a os as e é uma para que com não do da em por",
    "nl": "de het een en is van op voor met niet dat zijn wordt",
}
_VOTES = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}
_UNSPACED = frozenset({"th", "lo", "my", "km"})
_SAMPLE = 2_000  # characters are enough to tell, and keep long texts cheap


def detect_language(text: str) -> str:
    """Return the likely ISO 639-1 code of a text."""
    sample = text[:_SAMPLE]
    letters = sum(map(str.isalpha, sample)) or 1
    for language, pattern in _PATTERNS.items():
        share = len(pattern.findall(sample)) / letters
        if share > (0.1 if language == "ja" else 0.3):
            return language
    words = re.findall(r"[^\W\d_]+(?:\.[^\W\d_])*", sample.lower())
    votes = {language: sum(word in known for word in words) for language, known in _VOTES.items()}
    return max(votes, key=lambda language: (votes[language], language == "en"))


def is_unspaced(language: str) -> bool:
    """Return whether the language marks neither words nor sentence ends, so that length must do."""
    return language in _UNSPACED
