"""What is asked: `conf/`, the schema that closes it, and what a user typed, checked before Hydra sees it.

strict      frozen records from plain values and back; ConfigError
schema      what a user may set (Config), and what one run is (RunConfig)
shape       width, depth and heads as the rules of a configuration ask for them
trackers    the dashboards by name, and what each needs
grammar     with which knobs the stories can be told
rules       what values may be held, each alone and all together
tree        chosen options and single values as one tree of plain values
compose     `conf/` and overrides to one configuration; the design axes and their variants
unusual     which overrides set a sweep apart from others of its size and text
"""
