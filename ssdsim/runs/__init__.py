"""Run folders: their files, their writers and readers, and the lock."""
