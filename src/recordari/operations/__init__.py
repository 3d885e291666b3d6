"""Running the service: health, statistics, reports, the doctor, maintenance, answers to idempotent requests."""
