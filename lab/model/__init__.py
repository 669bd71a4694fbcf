"""The model: `transformer.py` reads top to bottom and names no variant; each structural axis is one file
beside it.
"""
