"""OpenAI's two interfaces, and all services that have them. In: prompts. Out: JSON requests, and answers.

`chat.py` is chat completions and `responses.py` the Responses API. `style.py` says how services write
parameters, and `services.py` has one record for each. Start with `chat.py`.
"""
