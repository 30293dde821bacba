"""The card of a method: what a user needs to know before choosing it."""

import re
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Card:
    """Facts about a method: name, source, abilities and cost.

    Parameters
    ----------
    name : str
        The name as printed in its paper.
    title : str
        The full name or the title of its idea.
    cost : str
        Time of a fit in bags (B), instances (N), features (d) and what else matters.
    when_to_use : str
        When to use it.
    paper : str
        Authors, title and venue; the first reference in the docstring of the method if not given.
    year : int
        Year of publication, likewise.
    detects, classifies : bool
        Whether it scores instances of positive bags, and whether it labels unseen bags; set by
        the hooks that the method implements.
    grid : dict of str to tuple
        What the benchmark protocol tunes by inner cross-validation on the training bags; a single
        value is used without a search; other parameters keep their defaults.
    shortfall : str
        Where its accuracy on the benchmark sets stays more than two points below what was
        published, by how much, and why; empty where it does not.
    default_chosen : str
        Where the defaults come from: the paper, a rule, or data, and which. Names every parameter
        with a number as default that changes the model.
    extra : str
        The extra of the installation that fitting it needs; empty where it needs none.
    """

    name: str
    title: str
    cost: str
    when_to_use: str
    paper: str = ""
    year: int = 0
    detects: bool = False
    classifies: bool = False
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    shortfall: str = ""
    default_chosen: str = ""
    extra: str = ""

    def completed(self, doc: str | None, *, detects: bool, classifies: bool) -> "Card":
        """Return the card with what a method does, and with the paper that its docstring names."""
        card = replace(self, detects=detects, classifies=classifies)
        _, _, references = (doc or "").partition("References\n    ----------\n")
        found = re.match(r"(.+?)[ ,(]*\b((?:19|20)\d\d)\b", " ".join(references.split()))
        if card.paper or found is None:
            return card
        return replace(card, paper=found[1], year=int(found[2]))
