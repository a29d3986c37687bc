"""What users ask: predictions, verdicts, sweeps, recommendations, schedules, exports."""
