"""Bundles on disk: folders or archives, and the keys that sign them.

In: the files of a bundle, or a run to write. Out: their bytes, checked for size and names; keys and trusted
keys. `reader.py` reads folders and archives (`strict_zip.py`), `writer.py` writes both; `keys.py` makes and
reads signing keys, `trust_store.py` keeps the keys that the user trusts. What the files mean is in
`proctor.proof`. Start reading with `reader.py`.
"""
