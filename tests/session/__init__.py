"""The run itself: its journal, what is made of it, and taking it up again."""
