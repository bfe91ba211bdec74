"""All laws of mechanisms: those of channels and privacy, and those of reports."""

from __future__ import annotations

import channel_laws
import report_laws
from law import LAWS, Law

__all__ = ["LAWS", "Law", "channel_laws", "report_laws"]
