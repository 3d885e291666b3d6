"""PostgreSQL: connections, named queries, migrations, the outbox, jobs, the audit, backups."""
