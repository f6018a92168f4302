"""Alembic's entry: runs the migrations on the connection that batch.store.migrate hands over."""

from alembic import context

from batch.tables import Base

connection = context.config.attributes["connection"]
# SQLite alters a table by copying it.
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
