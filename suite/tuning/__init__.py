"""How many tokens to draft: depths and adaptive beside off, by clients and content, to flags that can be pasted."""
