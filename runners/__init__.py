"""The engines that run pipelines. Each module documents the options that it sets, and why."""

#: Longer than any job. Beam stops watching a portable job after this many seconds, whatever its state, and
#: reports it as failed; Beam's default is a minute.
WATCHED_SECONDS = 10**9
