"""What a statistic answers: estimates, ledgers, differences, and their words.

Nothing here knows Beam, or how a command is typed.
"""
