"""Where the pipeline runs. Each file says what it sets and why."""

#: As long as any job lasts. Beam stops watching a portable job after so many seconds, whatever its state, and
#: takes that for its failure; the default is a minute.
WATCHED_SECONDS = 10**9
