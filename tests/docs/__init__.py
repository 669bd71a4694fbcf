"""The pages that people read, held against the code: README.md, CONTRIBUTING.md and docs/."""
