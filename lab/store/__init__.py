"""What was trained: run identity, the run store, and the records that are read from it. Standard library
only.
"""
