"""The state of a stream: the files in the folder of a run, from which the next process goes on."""
