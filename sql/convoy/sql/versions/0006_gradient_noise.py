"""Windows of speed tell the noise of gradients.

Revision: 0006
"""

from __future__ import annotations

import sqlalchemy as sa

from convoy.sql.steps import add_column

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns; no master told it before."""
    for name in ("grad_sqr", "grad_var"):
        add_column("training_speed", sa.Column(name, sa.Double(), nullable=True))
