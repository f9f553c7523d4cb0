"""Batch APIs: many requests in one file or body, answered within a day at half the price.

In: encoded requests with custom ids. Out: replies, in any order. Each service is one class in one file, named
by the `batches` of its `TargetKind`; it implements `BatchService` of `proctor.batch_protocol`, and knows
neither prompts nor outputs. `connection.py` sends for all of them. Start with `openai.py`.
"""
