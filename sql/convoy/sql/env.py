"""Alembic's environment: run on the connection that the caller hands in, or rendered as text for MySQL.

The caller (``convoy.brain.store.migrate``) holds the lock and the transaction.
"""

from __future__ import annotations

from alembic import context

from convoy.sql.config import VERSION_TABLE

if context.is_offline_mode():
    context.configure(
        dialect_name="mysql",
        version_table=VERSION_TABLE,
        literal_binds=True,
        output_buffer=context.config.attributes["output"],
    )
else:
    context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)

with context.begin_transaction():
    context.run_migrations()
