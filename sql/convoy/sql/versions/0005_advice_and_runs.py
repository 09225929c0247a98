"""Advice that somebody decides about, and runs of the batch that one process at a time holds.

Revision: 0005
"""

from __future__ import annotations

import sqlalchemy as sa

from convoy.sql.steps import add_column, add_reference, create_index
from convoy.sql.types import UtcDateTime, name_type

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns; what is there was an answer to a master, about which nobody decides."""
    add_reference("recommendation", "run_id", "optimization_run", name="fk_recommendation_run")
    for column in (
        sa.Column("status", name_type(16), nullable=False, server_default=""),
        sa.Column("decided_by", name_type(255), nullable=False, server_default=""),
        sa.Column("decided_at", UtcDateTime(), nullable=True),
        sa.Column("decided_why", sa.Text(), nullable=True),
        sa.Column("plan", name_type(253), nullable=False, server_default=""),
    ):
        add_column("recommendation", column)
    create_index("ix_recommendation_run", "recommendation", ["run_id"])
    create_index("ix_recommendation_status", "recommendation", ["status", "made_at"])
    add_column("optimization_run", sa.Column("owner", name_type(255), nullable=False, server_default=""))
    add_column("optimization_run", sa.Column("starts", sa.Integer(), nullable=False, server_default="0"))
