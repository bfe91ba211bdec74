"""What a stream on an engine reads: each source begins where the files of earlier runs say."""
