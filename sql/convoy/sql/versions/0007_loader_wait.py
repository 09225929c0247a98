"""Windows of speed tell how long steps waited for their data, and how many processes loaded it.

Revision: 0007
"""

from __future__ import annotations

import sqlalchemy as sa

from convoy.sql.steps import add_column

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; no master told them before."""
    add_column("training_speed", sa.Column("loader_wait", sa.Double(), nullable=True))
    add_column("training_speed", sa.Column("loader_workers", sa.Integer(), nullable=True))
