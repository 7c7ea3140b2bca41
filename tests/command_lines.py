"""Command lines that differ in a few options."""


def vary(*arguments: object) -> list[str]:
    """The arguments, where an option that comes again replaces the one before."""
    options: dict[str, list[str]] = {}
    name = ""
    for word in map(str, arguments):
        if word.startswith("--"):
            name = word
            options[name] = []
        else:
            options.setdefault(name, []).append(word)
    words: list[str] = []
    for option, values in options.items():
        words += [option, *values] if option else values
    return words
