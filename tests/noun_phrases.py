"""Texts that stand alone: help and the pages of the API show them without the name that they are about."""

FRAGMENTS = {
    *("of", "in", "on", "by", "per", "as", "at", "to", "for", "from", "with", "until", "through", "like", "instead"),
    *("those", "these", "that", "which", "what", "how", "if", "when", "where", "who", "why", "or", "and", "else"),
    *("it", "its", "is", "are", "keep", "show", "write", "ends", "called", "asked", "slurm's", "ray's", "torch's"),
}
"""Words that no noun phrase begins with."""


def is_noun_phrase(text: str) -> bool:
    """Whether a text stands alone, as far as its beginning and its end show it."""
    return text[:1].isupper() and text.endswith(".") and text.split()[0].lower().rstrip(",.:;") not in FRAGMENTS
