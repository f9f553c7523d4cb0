"""Amazon Bedrock. In: prompts. Out: signed JSON requests, and answers.

`credentials.py` signs. Start with `bedrock.py`.
"""
