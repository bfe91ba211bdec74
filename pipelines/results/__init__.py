"""What a run left in its output folder, read again and checked."""
