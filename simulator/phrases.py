"""The material that answers are made of, by kind of content. None of it means anything; all of it reads like its kind."""

from simulator.kinds import Kind

PHRASES: dict[Kind, tuple[str, ...]] = {
    "code": (
        "    for item in items:\n        total += item.weight\n",
        "    if not self._ready:\n        raise RuntimeError('not started')\n",
        "def update(state, value):\n    state.count += 1\n    return state\n\n",
        "    result = [convert(x) for x in values if x is not None]\n",
        "    with open(path) as source:\n        lines = source.readlines()\n",
        "class Node:\n    def __init__(self, key, left=None, right=None):\n        self.key = key\n\n",
        "    return max(candidates, key=lambda c: c.score)\n\n",
        "    while queue:\n        node = queue.popleft()\n        visit(node)\n",
        "    # keep the invariant: sorted by start\n",
        "    assert low <= high, (low, high)\n",
        "    except KeyError:\n        return default\n",
    ),
    "maths": (
        "Let n be an integer with n > 1. ",
        "Then the sum equals n(n + 1)/2, so that 2S = n(n + 1). ",
        "Hence x^2 - 4x + 3 = (x - 1)(x - 3) = 0, which gives x = 1 or x = 3.\n",
        "By induction, suppose that the claim holds for k; we show it for k + 1. ",
        "The derivative is f'(x) = 3x^2 - 2x, which vanishes at x = 0 and x = 2/3. ",
        "Since p divides ab and p is prime, p divides a or p divides b. ",
        "Therefore the determinant is 1*4 - 2*3 = -2.\n\n",
        "Adding both sides we obtain 5y = 10, and so y = 2. ",
        "This contradicts the assumption, which completes the proof.\n",
    ),
    "json": (
        '{"id": 17, "name": "valve", "active": true}, ',
        '{"id": 42, "name": "pump", "active": false}, ',
        '"tags": ["north", "spare"], ',
        '"position": {"x": 3, "y": 8}, ',
        '"status": "open", "count": 12, ',
        '"history": [{"at": 1200, "value": 0.5}, {"at": 1260, "value": 0.7}], ',
    ),
    "prose": (
        "The river turned slowly past the mill, and nobody spoke. ",
        "In the evening the old man put down his book and looked at the sea. ",
        "She had not expected the letter, least of all on such a morning.\n\n",
        "There was a long silence before the train began to move again. ",
        "What they remembered later was the light on the wet stones. ",
        "He walked home through streets that smelled of bread and rain. ",
        "Nothing in the house had changed, and yet it was another house. ",
        "The children counted the ships until it was too dark to see them.\n\n",
        "It is harder to forgive a small wrong than to forget a large one. ",
    ),
    "multilingual": (
        "La rivière coule lentement devant le moulin. ",
        "Der alte Mann legte das Buch weg und sah auf das Meer. ",
        "Nadie esperaba la carta aquella mañana. ",
        "Il treno partì dopo un lungo silenzio. ",
        "雨が静かに降っていた。",
        "他慢慢地走回家。",
        "Дети считали корабли до темноты. ",
        "아이들은 배를 세었다. ",
    ),
}

THOUGHTS: tuple[str, ...] = (
    "Let me read the question again. ",
    "The user wants a direct answer, so I work it out step by step. ",
    "First I look at what is given, then at what is asked. ",
    "That seems right; let me check it once more.\n",
    "There may be another way to see it. ",
)

GARBAGE: tuple[str, ...] = (" the the the the the the the the",)
