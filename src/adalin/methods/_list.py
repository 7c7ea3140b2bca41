"""What the list of methods says of each."""

from adalin.methods._method import methods
from adalin.methods._rule import NEEDS, Rule

EVERYWHERE, STREAMS = "streams, sac, attach", "streams, attach"


def method_rows() -> list[tuple[str, str, str, str, str]]:
    """Name, summary, paper, what it needs, and where it works, of each method."""
    rows = []
    for name, part in methods().items():
        needs, where = "", "streams, sac"
        if isinstance(part, type) and issubclass(part, Rule):
            rule = part()
            words = [text for need, text in NEEDS.items() if need in rule.needs]
            needs = ", ".join(words) or "weights"
            of_tasks = "tasks" in rule.needs and not hasattr(rule, "every")
            where = STREAMS if rule.of_plain_sgd or of_tasks else EVERYWHERE
        elif isinstance(part, type) and hasattr(part, "usual_lr"):
            needs, where = "gradients", "streams"
        rows.append((name, part.summary, part.paper, needs, where))
    return rows
