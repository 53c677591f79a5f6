# 200 trials of `eval exact` take minutes on a busy machine.
set(extra_labels slow)
