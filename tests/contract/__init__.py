"""The simulator held to real SGLang: the same questions, answers of the same shape."""
