"""The registry of models: files in a folder, their rows in the store; one champion for each kind of model."""

from convoy.brain.store.model_files.folder import Folder
from convoy.brain.store.model_files.registry import Loaded, Registry
from convoy.brain.store.model_files.versions import Stage, Version

__all__ = ["Folder", "Loaded", "Registry", "Stage", "Version"]
