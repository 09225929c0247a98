"""History from files and into files: past jobs' measurements, for a Brain that has seen none of its own yet.

``docs/history-format.md`` has the columns and the formats.
"""

from convoy.brain.ingest.history.file import open_history
from convoy.brain.ingest.history.importing import Imported, import_history, take

__all__ = ["Imported", "import_history", "open_history", "take"]
