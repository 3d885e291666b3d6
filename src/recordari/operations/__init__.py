"""Running the service: health, statistics, reports, the doctor, maintenance, answers kept for idempotent requests."""
