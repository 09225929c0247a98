"""Views for analysts; docs/sql-views.md says what their columns mean.

They read roll-ups by the hour, so they are as fresh as the last `convoy brain maintain`.

Revision: 0004
"""

from __future__ import annotations

from convoy.sql.steps import create_view, on_mysql

revision = "0004"
down_revision = "0003"

_GIB_SECONDS = "3.865470566400e12"
"""Bytes times seconds in a GiB-hour: 2**30 * 3600."""


def upgrade() -> None:
    """Create the views, each after those that it reads."""
    create_view("pod_hour", _POD_HOUR)
    create_view("job_efficiency", _job_efficiency())
    create_view("waste_by_user", _WASTE_BY_USER)
    create_view("node_utilization", _node_utilization())
    create_view("plan_outcomes", _PLAN_OUTCOMES)


def _seconds(begin: str, end: str) -> str:
    """Return the seconds between two moments; to the millisecond on SQLite, which has no finer ones."""
    if on_mysql():
        return f"(TIMESTAMPDIFF(MICROSECOND, {begin}, {end}) / 1e6)"
    return f"((julianday({end}) - julianday({begin})) * 86400e0)"


def _hour_after(moment: str) -> str:
    if on_mysql():
        return f"({moment} + INTERVAL 1 HOUR)"
    return f"strftime('%Y-%m-%d %H:%M:%S.000000', {moment}, '+1 hour')"


def _later(one: str, other: str) -> str:
    return f"CASE WHEN {one} > {other} THEN {one} ELSE {other} END"


def _earlier(one: str, other: str) -> str:
    return f"CASE WHEN {one} < {other} THEN {one} ELSE {other} END"


def _of_agent(amount: str, known: str) -> str:
    """Return a sum over the agent's rows if they know the measure, else over all."""
    by_agent = "CASE WHEN l.source = 'agent' THEN {} ELSE 0 END"
    return f"CASE WHEN SUM({by_agent.format(known)}) > 0 THEN SUM({by_agent.format(amount)}) ELSE SUM({amount}) END"


_WASTED = "CASE WHEN {0}_allotted > {0}_used THEN {0}_allotted - {0}_used WHEN {0}_allotted IS NOT NULL THEN 0e0 END"

_SUMMED = f"""
  SELECT l.job_id, l.started_at, l.node, MAX(l.role) AS role,
    {_of_agent("l.cpu_sum", "l.cpu_time")} AS cpu_sum,
    {_of_agent("l.cpu_time", "l.cpu_time")} AS cpu_time,
    {_of_agent("l.memory_sum * l.seconds / l.windows", "l.memory_windows")} AS memory_sum,
    {_of_agent("l.memory_windows * l.seconds / l.windows", "l.memory_windows")} AS memory_time,
    {_of_agent("l.accelerator_sum", "l.accelerator_time")} AS accelerator_sum,
    {_of_agent("l.accelerator_time", "l.accelerator_time")} AS accelerator_time,
    MAX(l.cpu_allotted) AS cpu_allotted, MAX(l.memory_allotted) AS memory_allotted
  FROM job_node_load_1h l
  GROUP BY l.job_id, l.started_at, l.node"""

_USED = f"""
SELECT s.job_id, s.started_at AS hour, s.node AS pod, s.role,
  CASE WHEN s.cpu_time > 0 THEN s.cpu_sum / 3600e0 END AS core_hours_used,
  CASE WHEN s.cpu_time > 0 THEN COALESCE(s.cpu_allotted, n.cpu_allotted) * s.cpu_time / 3600e0 END
    AS core_hours_allotted,
  CASE WHEN s.memory_time > 0 THEN s.memory_sum / {_GIB_SECONDS} END AS gib_hours_used,
  CASE WHEN s.memory_time > 0 THEN COALESCE(s.memory_allotted, n.memory_allotted) * s.memory_time / {_GIB_SECONDS} END
    AS gib_hours_allotted,
  CASE WHEN s.accelerator_time > 0 THEN s.accelerator_sum / 3600e0 END AS accelerator_hours_used,
  CASE WHEN s.accelerator_time > 0 THEN n.accelerators * s.accelerator_time / 3600e0 END AS accelerator_hours_allotted
FROM ({_SUMMED}
) s LEFT JOIN job_node n ON n.job_id = s.job_id AND n.name = s.node"""

_POD_HOUR = f"""
SELECT u.*,
  {_WASTED.format("u.core_hours")} AS core_hours_wasted,
  {_WASTED.format("u.gib_hours")} AS gib_hours_wasted,
  {_WASTED.format("u.accelerator_hours")} AS accelerator_hours_wasted
FROM ({_USED}
) u"""


def _share(of: str) -> str:
    """Return used over allotted, where what was allotted is known."""
    return (
        f"SUM(CASE WHEN {of}_allotted IS NOT NULL THEN {of}_used END) / NULLIF(SUM({of}_allotted), 0) AS {of}_share"
    )


def _totals(of: str) -> str:
    return f"SUM({of}_used) AS {of}_used, SUM({of}_allotted) AS {of}_allotted, {_share(of)}"


def _if_attempted(total: str) -> str:
    """Return a sum over a job's windows: 0 if it has none yet, NULL if it never told of a round."""
    return f"COALESCE(b.{total}, CASE WHEN b.attempts > 0 THEN 0e0 END) AS {total}"


def _job_efficiency() -> str:
    """Return a row a job; its time ends where its speed isn't summed yet.

    A job whose object rests is heard of by its pods' load: to the beginning of the last hour with some, since the
    roll-up doesn't say when in the hour that ended.
    """
    began = _earlier("j.first_seen", "COALESCE(a.started_at, j.first_seen)")
    told = _later("j.last_seen", "COALESCE(s.last_ended_at, j.last_seen)")
    heard = _later("COALESCE(l.last_hour, j.last_seen)", f"({told})")
    return f"""
SELECT e.*, e.samples / NULLIF(e.steady_seconds, 0) AS steady_speed,
  e.samples / NULLIF(e.elapsed_seconds, 0) AS effective_speed,
  e.steady_seconds / NULLIF(e.elapsed_seconds, 0) AS trained_share
FROM (
  SELECT j.uid AS job, j.name, j.namespace, j.template, j.user, j.cluster, j.strategy, j.state,
    j.gone_at, b.began, b.measured_until, COALESCE(b.hours_due, 0) AS hours_due,
    {_seconds("b.began", "b.measured_until")} AS elapsed_seconds,
    COALESCE(b.attempts, 0) AS attempts, {_if_attempted("samples")}, {_if_attempted("steady_seconds")},
    {_if_attempted("warming_seconds")},
    p.core_hours_used, p.core_hours_allotted, p.core_hours_share,
    p.gib_hours_used, p.gib_hours_allotted, p.gib_hours_share,
    p.accelerator_hours_used, p.accelerator_hours_allotted, p.accelerator_hours_share
  FROM job j
  JOIN (
    SELECT j.id AS job_id, {began} AS began,
      CASE WHEN d.hours_due > 0 THEN s.last_ended_at ELSE {heard} END AS measured_until,
      d.hours_due, a.attempts, s.samples, s.steady_seconds, s.warming_seconds
    FROM job j
    LEFT JOIN (
      SELECT job_id, COUNT(*) AS attempts, MIN(started_at) AS started_at FROM job_attempt GROUP BY job_id
    ) a ON a.job_id = j.id
    LEFT JOIN (
      SELECT job_id, MAX(last_ended_at) AS last_ended_at,
        SUM(CASE WHEN warming = 0 THEN samples ELSE 0e0 END) AS samples,
        SUM(CASE WHEN warming = 0 THEN seconds ELSE 0e0 END) AS steady_seconds,
        SUM(CASE WHEN warming = 0 THEN 0e0 ELSE seconds END) AS warming_seconds
      FROM training_speed_1h GROUP BY job_id
    ) s ON s.job_id = j.id
    LEFT JOIN (
      SELECT job_id, MAX(started_at) AS last_hour FROM job_node_load_1h GROUP BY job_id
    ) l ON l.job_id = j.id
    LEFT JOIN (
      SELECT subject_id, COUNT(*) AS hours_due FROM rollup_due WHERE series = 'training_speed' GROUP BY subject_id
    ) d ON d.subject_id = j.id
  ) b ON b.job_id = j.id
  LEFT JOIN (
    SELECT job_id, {_totals("core_hours")}, {_totals("gib_hours")}, {_totals("accelerator_hours")}
    FROM pod_hour GROUP BY job_id
  ) p ON p.job_id = j.id
) e"""


def _waste(of: str) -> str:
    return (
        f"SUM(p.{of}_allotted) AS {of}_allotted, SUM(CASE WHEN p.{of}_allotted IS NOT NULL THEN p.{of}_used END) "
        f"AS {of}_used, SUM(p.{of}_wasted) AS {of}_wasted"
    )


_WASTE_BY_USER = f"""
SELECT j.user, j.cluster, DATE(p.hour) AS day, COUNT(DISTINCT p.job_id) AS jobs,
  {_waste("core_hours")},
  {_waste("gib_hours")},
  {_waste("accelerator_hours")}
FROM pod_hour p JOIN job j ON j.id = p.job_id
GROUP BY j.user, j.cluster, DATE(p.hour)"""


def _node_utilization() -> str:
    """Return a row a machine and hour in which it was measured."""
    end = _hour_after("l.started_at")
    held = _seconds(_later("p.began", "l.started_at"), _earlier(f"COALESCE(p.ended, {end})", end))

    def means(of: str, used: str, allotted: str, most: str = "") -> str:
        return (
            f"{used} AS {of}_used, {most}"
            f"COALESCE(SUM({held} * p.{allotted}), 0) / 3600e0 AS {of}_allotted, "
            f"MAX(n.{of}_allocatable) AS {of}_allocatable, MAX(n.{of}_capacity) AS {of}_capacity"
        )

    def shares(of: str) -> str:
        return (
            f"h.{of}_used / NULLIF(h.{of}_capacity, 0) AS {of}_used_share, "
            f"h.{of}_allotted / NULLIF(h.{of}_allocatable, 0) AS {of}_allotted_share"
        )

    cpu = "MAX(l.cpu_sum) / NULLIF(MAX(l.cpu_time), 0)"
    memory = "MAX(l.memory_sum) / NULLIF(MAX(l.memory_windows), 0)"
    accelerators = "MAX(l.accelerator_sum) / NULLIF(MAX(l.accelerator_time), 0)"
    return f"""
SELECT h.*, {shares("cpu")}, {shares("memory")}, {shares("accelerators")}
FROM (
  SELECT c.name AS cluster, n.name AS machine, n.node_type, l.started_at AS hour, MAX(l.seconds) AS measured_seconds,
    {means("cpu", cpu, "cpu_allotted", "MAX(l.cpu_max) AS cpu_used_max, ")},
    {means("memory", memory, "memory_allotted", "MAX(l.memory_max) AS memory_used_max, ")},
    {means("accelerators", accelerators, "accelerators")}
  FROM node_load_1h l
  JOIN node n ON n.id = l.node_id
  JOIN cluster c ON c.id = n.cluster_id
  LEFT JOIN (
    SELECT o.node_id, COALESCE(o.started_at, o.created_at) AS began,
      COALESCE(o.ended_at, o.gone_at, j.gone_at, CASE WHEN j.state IN ('Succeeded', 'Failed') THEN j.last_seen END,
        m.gone_at) AS ended,
      o.cpu_allotted, o.memory_allotted, o.accelerators
    FROM job_node o JOIN job j ON j.id = o.job_id JOIN node m ON m.id = o.node_id
  ) p ON p.node_id = l.node_id AND p.began < {end} AND (p.ended IS NULL OR p.ended > l.started_at)
  GROUP BY c.name, n.name, n.node_type, l.node_id, l.started_at
) h"""


_PLAN_OUTCOMES = """
SELECT j.uid AS job, s.name AS plan, j.template, j.user, j.cluster, s.recommendation_id AS recommendation,
  r.made_at AS recommended_at, r.observations, r.history_jobs, s.reason, s.created_at, s.carried_out_at,
  s.workers_before, s.workers_after, s.predicted, s.predicted_lower, s.predicted_upper, s.realized,
  s.realized_seconds, s.realized / NULLIF(s.predicted, 0) - 1 AS error,
  CASE WHEN s.realized < s.predicted_lower OR s.realized > s.predicted_upper THEN 0
    WHEN s.realized >= s.predicted_lower AND s.realized <= s.predicted_upper THEN 1 END AS within_interval,
  s.restart_seconds, s.rolled_back
FROM scale_plan s JOIN job j ON j.id = s.job_id LEFT JOIN recommendation r ON r.id = s.recommendation_id"""
