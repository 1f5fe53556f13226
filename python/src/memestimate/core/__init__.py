"""The recorder's machinery: dispatch, storages, phases, frames, the file that is written."""
