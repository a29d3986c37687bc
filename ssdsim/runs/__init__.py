"""Run folders: their files, who writes and reads them, and who may."""
