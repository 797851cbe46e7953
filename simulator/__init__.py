"""An SGLang-compatible server whose GPU is a model of one: what the suite is developed against and proved on.

Started as a separate process, `python -m simulator --model-path DIR --port P ...`, exactly where
`python -m sglang.launch_server` would be. Imports nothing from the other rooms: it must not be a friendly judge.
"""
