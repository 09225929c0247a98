-- The store of Convoy's Brain for MySQL 8 and MariaDB 10.6 or newer, rendered from the migrations.
-- Don't edit: `python -m convoy.sql.render` writes it anew. `convoy brain migrate` does the same to a server.

CREATE TABLE convoy_schema_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT convoy_schema_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE IF NOT EXISTS job (
    id BIGINT NOT NULL AUTO_INCREMENT,
    uid VARCHAR(64) NOT NULL,
    name VARCHAR(253) NOT NULL,
    namespace VARCHAR(63) NOT NULL,
    template VARCHAR(255) NOT NULL,
    image VARCHAR(1024) NOT NULL,
    user VARCHAR(255) NOT NULL,
    strategy VARCHAR(32) NOT NULL,
    model VARCHAR(255) NOT NULL,
    cluster VARCHAR(255) NOT NULL,
    node_type VARCHAR(255) NOT NULL,
    state VARCHAR(32) NOT NULL,
    origin VARCHAR(16) NOT NULL,
    first_seen DATETIME(6) NOT NULL,
    last_seen DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_job_uid UNIQUE (uid)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_job_name ON job (name, namespace);

CREATE INDEX ix_job_template ON job (template);

CREATE INDEX ix_job_last_seen ON job (last_seen);

CREATE TABLE IF NOT EXISTS job_feature (
    job_id BIGINT NOT NULL,
    name VARCHAR(128) NOT NULL,
    value DOUBLE NOT NULL,
    PRIMARY KEY (job_id, name),
    CONSTRAINT fk_job_feature_job FOREIGN KEY(job_id) REFERENCES job (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS reporter (
    id BIGINT NOT NULL AUTO_INCREMENT,
    job_id BIGINT NOT NULL,
    sender VARCHAR(253) NOT NULL,
    incarnation BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    last_seen DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_reporter_job_sender_incarnation UNIQUE (job_id, sender, incarnation),
    CONSTRAINT fk_reporter_job FOREIGN KEY(job_id) REFERENCES job (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS training_speed (
    job_id BIGINT NOT NULL,
    ended_at DATETIME(6) NOT NULL,
    round BIGINT NOT NULL,
    last_step BIGINT NOT NULL,
    first_step BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    samples DOUBLE NOT NULL,
    samples_per_second DOUBLE GENERATED ALWAYS AS (samples / seconds) STORED,
    workers INTEGER NOT NULL,
    ps INTEGER NOT NULL,
    nodes INTEGER,
    batch_size INTEGER,
    accumulation_steps INTEGER,
    warming BOOL NOT NULL,
    compute_seconds DOUBLE,
    origin VARCHAR(16) NOT NULL,
    PRIMARY KEY (job_id, ended_at, round, last_step)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS node_load (
    job_id BIGINT NOT NULL,
    ended_at DATETIME(6) NOT NULL,
    node VARCHAR(253) NOT NULL,
    seconds DOUBLE NOT NULL,
    `role` VARCHAR(32) NOT NULL,
    `rank` INTEGER NOT NULL,
    round BIGINT NOT NULL,
    cpu_cores DOUBLE NOT NULL,
    memory_bytes BIGINT NOT NULL,
    cpu_allotted DOUBLE,
    memory_allotted BIGINT,
    origin VARCHAR(16) NOT NULL,
    PRIMARY KEY (job_id, ended_at, node)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_event (
    id BIGINT NOT NULL AUTO_INCREMENT,
    job_id BIGINT NOT NULL,
    happened_at DATETIME(6) NOT NULL,
    reason VARCHAR(128) NOT NULL,
    node VARCHAR(253) NOT NULL,
    round BIGINT NOT NULL,
    step BIGINT,
    message TEXT NOT NULL,
    evidence JSON NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_job_event_job_time_reason_node UNIQUE (job_id, happened_at, reason, node),
    CONSTRAINT fk_job_event_job FOREIGN KEY(job_id) REFERENCES job (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_job_event_reason ON job_event (reason, happened_at);

CREATE TABLE IF NOT EXISTS recommendation (
    id VARCHAR(36) NOT NULL,
    job_id BIGINT NOT NULL,
    made_at DATETIME(6) NOT NULL,
    stage VARCHAR(16) NOT NULL,
    decision VARCHAR(16) NOT NULL,
    reason VARCHAR(128) NOT NULL,
    message TEXT NOT NULL,
    workers_before INTEGER NOT NULL,
    free_cpu DOUBLE,
    workers INTEGER,
    ps INTEGER,
    worker_cpu DOUBLE,
    worker_memory BIGINT,
    ps_cpu DOUBLE,
    ps_memory BIGINT,
    predicted DOUBLE,
    lower90 DOUBLE,
    upper90 DOUBLE,
    lower99 DOUBLE,
    upper99 DOUBLE,
    price_per_hour DOUBLE,
    currency VARCHAR(8) NOT NULL,
    observations INTEGER NOT NULL,
    history_jobs INTEGER NOT NULL,
    options JSON NOT NULL,
    request JSON NOT NULL,
    evidence JSON NOT NULL,
    seconds DOUBLE NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT fk_recommendation_job FOREIGN KEY(job_id) REFERENCES job (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_recommendation_job_made_at ON recommendation (job_id, made_at);

CREATE INDEX ix_recommendation_made_at ON recommendation (made_at);

CREATE TABLE IF NOT EXISTS scale_plan (
    id BIGINT NOT NULL AUTO_INCREMENT,
    job_id BIGINT NOT NULL,
    name VARCHAR(253) NOT NULL,
    recommendation_id VARCHAR(36),
    created_at DATETIME(6) NOT NULL,
    carried_out_at DATETIME(6),
    workers_before INTEGER NOT NULL,
    workers_after INTEGER NOT NULL,
    predicted DOUBLE,
    predicted_lower DOUBLE,
    predicted_upper DOUBLE,
    realized DOUBLE,
    realized_seconds DOUBLE,
    restart_seconds DOUBLE,
    reason VARCHAR(128) NOT NULL,
    message TEXT NOT NULL,
    rolled_back BOOL NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_scale_plan_job_name UNIQUE (job_id, name),
    CONSTRAINT fk_scale_plan_job FOREIGN KEY(job_id) REFERENCES job (id),
    CONSTRAINT fk_scale_plan_recommendation FOREIGN KEY(recommendation_id) REFERENCES recommendation (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_scale_plan_created_at ON scale_plan (created_at);

CREATE INDEX ix_scale_plan_recommendation ON scale_plan (recommendation_id);

CREATE TABLE IF NOT EXISTS history_observation (
    id BIGINT NOT NULL AUTO_INCREMENT,
    digest CHAR(64) NOT NULL,
    origin VARCHAR(16) NOT NULL,
    source VARCHAR(255) NOT NULL,
    imported_at DATETIME(6) NOT NULL,
    job VARCHAR(255) NOT NULL,
    template VARCHAR(255),
    model VARCHAR(255),
    strategy VARCHAR(255),
    mode VARCHAR(255),
    cluster VARCHAR(255),
    accelerator VARCHAR(255),
    node_type VARCHAR(255),
    workers INTEGER NOT NULL,
    ps INTEGER,
    nodes INTEGER,
    accelerators_per_worker DOUBLE,
    batch_size DOUBLE,
    accumulation_steps DOUBLE,
    worker_cpu DOUBLE,
    ps_cpu DOUBLE,
    cluster_cpu DOUBLE,
    worker_memory DOUBLE,
    ps_memory DOUBLE,
    worker_memory_used DOUBLE,
    ps_memory_used DOUBLE,
    worker_cpu_used DOUBLE,
    ps_cpu_used DOUBLE,
    ps_cpu_used_max DOUBLE,
    compute_seconds DOUBLE,
    throughput DOUBLE,
    throughput_sd DOUBLE,
    observed_at DATETIME(6),
    window_seconds DOUBLE,
    status VARCHAR(16) NOT NULL,
    grad_sqr DOUBLE,
    grad_var DOUBLE,
    PRIMARY KEY (id),
    CONSTRAINT uq_history_observation_digest UNIQUE (digest)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_history_observation_job ON history_observation (job);

CREATE INDEX ix_history_observation_template ON history_observation (template);

INSERT INTO convoy_schema_version (version_num) VALUES ('0001');

CREATE TABLE IF NOT EXISTS cluster (
    id BIGINT NOT NULL AUTO_INCREMENT,
    name VARCHAR(255) NOT NULL,
    uid VARCHAR(64) NOT NULL,
    version VARCHAR(64) NOT NULL,
    first_seen DATETIME(6) NOT NULL,
    last_seen DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_cluster_name UNIQUE (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS node (
    id BIGINT NOT NULL AUTO_INCREMENT,
    cluster_id BIGINT NOT NULL,
    name VARCHAR(253) NOT NULL,
    uid VARCHAR(64) NOT NULL,
    node_type VARCHAR(255) NOT NULL,
    zone VARCHAR(255) NOT NULL,
    accelerator VARCHAR(255) NOT NULL,
    cpu_capacity DOUBLE,
    memory_capacity BIGINT,
    accelerators_capacity DOUBLE,
    cpu_allocatable DOUBLE,
    memory_allocatable BIGINT,
    accelerators_allocatable DOUBLE,
    ready BOOL,
    schedulable BOOL,
    labels JSON NOT NULL,
    first_seen DATETIME(6) NOT NULL,
    last_seen DATETIME(6) NOT NULL,
    gone_at DATETIME(6),
    PRIMARY KEY (id),
    CONSTRAINT uq_node_cluster_name UNIQUE (cluster_id, name),
    CONSTRAINT fk_node_cluster FOREIGN KEY(cluster_id) REFERENCES cluster (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS node_event (
    id BIGINT NOT NULL AUTO_INCREMENT,
    node_id BIGINT NOT NULL,
    happened_at DATETIME(6) NOT NULL,
    reason VARCHAR(128) NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_node_event_node_time_reason UNIQUE (node_id, happened_at, reason),
    CONSTRAINT fk_node_event_node FOREIGN KEY(node_id) REFERENCES node (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_node_event_happened_at ON node_event (happened_at);

ALTER TABLE job ADD COLUMN mode VARCHAR(16) NOT NULL DEFAULT '';

ALTER TABLE job ADD COLUMN optimize_mode VARCHAR(32) NOT NULL DEFAULT '';

ALTER TABLE job ADD COLUMN model_parameters DOUBLE;

ALTER TABLE job ADD COLUMN dataset VARCHAR(255) NOT NULL DEFAULT '';

ALTER TABLE job ADD COLUMN dataset_samples DOUBLE;

ALTER TABLE job ADD COLUMN batch_size DOUBLE;

ALTER TABLE job ADD COLUMN learning_rate DOUBLE;

ALTER TABLE job ADD COLUMN accelerator VARCHAR(255) NOT NULL DEFAULT '';

ALTER TABLE job ADD COLUMN gone_at DATETIME(6);

ALTER TABLE reporter ADD COLUMN refused BIGINT NOT NULL DEFAULT '0';

ALTER TABLE reporter ADD COLUMN speed_round BIGINT NOT NULL DEFAULT '0';

ALTER TABLE reporter ADD COLUMN speed_step BIGINT NOT NULL DEFAULT '0';

ALTER TABLE reporter ADD COLUMN speed_ended_at DATETIME(6);

ALTER TABLE scale_plan ADD COLUMN uid VARCHAR(64) NOT NULL DEFAULT '';

ALTER TABLE scale_plan ADD COLUMN phase VARCHAR(32) NOT NULL DEFAULT '';

ALTER TABLE scale_plan ADD COLUMN gone_at DATETIME(6);

CREATE INDEX ix_job_user ON job (user);

CREATE INDEX ix_scale_plan_uid ON scale_plan (uid);

CREATE INDEX ix_job_event_happened_at ON job_event (happened_at);

CREATE TABLE IF NOT EXISTS job_attempt (
    job_id BIGINT NOT NULL,
    round BIGINT NOT NULL,
    workers INTEGER NOT NULL,
    ps INTEGER NOT NULL,
    nodes INTEGER,
    batch_size INTEGER,
    accumulation_steps INTEGER,
    started_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6) NOT NULL,
    first_step BIGINT NOT NULL,
    last_step BIGINT NOT NULL,
    steady_since DATETIME(6),
    steady_until DATETIME(6),
    PRIMARY KEY (job_id, round),
    CONSTRAINT fk_job_attempt_job FOREIGN KEY(job_id) REFERENCES job (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_node (
    id BIGINT NOT NULL AUTO_INCREMENT,
    job_id BIGINT NOT NULL,
    name VARCHAR(253) NOT NULL,
    uid VARCHAR(64) NOT NULL,
    `role` VARCHAR(32) NOT NULL,
    `rank` INTEGER,
    node_id BIGINT,
    cpu_allotted DOUBLE,
    memory_allotted BIGINT,
    accelerators DOUBLE,
    phase VARCHAR(32) NOT NULL,
    reason VARCHAR(128) NOT NULL,
    exit_code INTEGER,
    restarts INTEGER NOT NULL,
    created_at DATETIME(6),
    started_at DATETIME(6),
    ended_at DATETIME(6),
    gone_at DATETIME(6),
    PRIMARY KEY (id),
    CONSTRAINT uq_job_node_job_name UNIQUE (job_id, name),
    CONSTRAINT fk_job_node_node FOREIGN KEY(node_id) REFERENCES node (id),
    CONSTRAINT fk_job_node_job FOREIGN KEY(job_id) REFERENCES job (id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_job_node_node ON job_node (node_id);

CREATE INDEX ix_job_node_uid ON job_node (uid);

CREATE INDEX ix_job_node_name ON job_node (name);

INSERT INTO job_attempt (job_id, round, workers, ps, nodes, batch_size, accumulation_steps, started_at, ended_at, first_step, last_step, steady_since, steady_until) SELECT s.job_id, s.round, MAX(s.workers), MAX(s.ps), MAX(s.nodes), MAX(s.batch_size), MAX(s.accumulation_steps), MIN(DATE_SUB(s.ended_at, INTERVAL ROUND(s.seconds * 1000000) MICROSECOND)), MAX(s.ended_at), MIN(s.first_step), MAX(s.last_step), MIN(CASE WHEN s.warming THEN NULL ELSE s.ended_at END), MAX(CASE WHEN s.warming THEN NULL ELSE s.ended_at END) FROM training_speed s JOIN job j ON j.id = s.job_id LEFT JOIN job_attempt a ON a.job_id = s.job_id AND a.round = s.round WHERE a.job_id IS NULL GROUP BY s.job_id, s.round;

CREATE TABLE IF NOT EXISTS job_node_load (
    job_id BIGINT NOT NULL,
    ended_at DATETIME(6) NOT NULL,
    node VARCHAR(253) NOT NULL,
    source VARCHAR(16) NOT NULL,
    seconds DOUBLE NOT NULL,
    `role` VARCHAR(32) NOT NULL,
    `rank` INTEGER,
    round BIGINT NOT NULL,
    cpu_allotted DOUBLE,
    memory_allotted BIGINT,
    cpu_cores DOUBLE,
    memory_bytes BIGINT,
    network_received DOUBLE,
    network_sent DOUBLE,
    disk_read DOUBLE,
    disk_written DOUBLE,
    accelerator_busy DOUBLE,
    accelerator_memory BIGINT,
    PRIMARY KEY (job_id, ended_at, node, source)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO job_node (job_id, name, uid, role, `rank`, cpu_allotted, memory_allotted, phase, reason, restarts) SELECT l.job_id, l.node, '', MAX(l.role), MAX(l.`rank`), MAX(l.cpu_allotted), MAX(l.memory_allotted), '', '', 0 FROM node_load l JOIN job j ON j.id = l.job_id LEFT JOIN job_node n ON n.job_id = l.job_id AND n.name = l.node WHERE n.id IS NULL GROUP BY l.job_id, l.node;

INSERT INTO job_node_load (job_id, ended_at, node, source, seconds, role, `rank`, round, cpu_cores, memory_bytes, cpu_allotted, memory_allotted) SELECT l.job_id, l.ended_at, l.node, 'agent', l.seconds, l.role, l.`rank`, l.round, l.cpu_cores, l.memory_bytes, l.cpu_allotted, l.memory_allotted FROM node_load l LEFT JOIN job_node_load n ON n.job_id = l.job_id AND n.ended_at = l.ended_at AND n.node = l.node AND n.source = 'agent' WHERE n.job_id IS NULL;

DROP TABLE node_load;

CREATE TABLE IF NOT EXISTS node_load (
    node_id BIGINT NOT NULL,
    ended_at DATETIME(6) NOT NULL,
    seconds DOUBLE NOT NULL,
    cpu_cores DOUBLE,
    memory_bytes BIGINT,
    network_received DOUBLE,
    network_sent DOUBLE,
    disk_read DOUBLE,
    disk_written DOUBLE,
    accelerator_busy DOUBLE,
    accelerator_memory BIGINT,
    PRIMARY KEY (node_id, ended_at)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS model_version (
    id BIGINT NOT NULL AUTO_INCREMENT,
    name VARCHAR(64) NOT NULL,
    version INTEGER NOT NULL,
    digest CHAR(64) NOT NULL,
    stage VARCHAR(16) NOT NULL,
    code_version VARCHAR(64) NOT NULL,
    schema_hash CHAR(64) NOT NULL,
    created_at DATETIME(6) NOT NULL,
    trained_from DATETIME(6),
    trained_until DATETIME(6),
    `rows` BIGINT NOT NULL,
    jobs BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    file VARCHAR(1024) NOT NULL,
    metrics JSON NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_model_version_name_version UNIQUE (name, version),
    CONSTRAINT uq_model_version_name_digest UNIQUE (name, digest)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS optimization_run (
    id BIGINT NOT NULL AUTO_INCREMENT,
    window_from DATETIME(6) NOT NULL,
    window_until DATETIME(6) NOT NULL,
    mode VARCHAR(16) NOT NULL,
    engine VARCHAR(255) NOT NULL,
    state VARCHAR(16) NOT NULL,
    stage VARCHAR(32) NOT NULL,
    began_at DATETIME(6) NOT NULL,
    ended_at DATETIME(6),
    deadline_at DATETIME(6),
    jobs INTEGER NOT NULL,
    recommendations INTEGER NOT NULL,
    plans INTEGER NOT NULL,
    message TEXT NOT NULL,
    report JSON NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT uq_optimization_run_window_mode UNIQUE (window_from, window_until, mode)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

UPDATE convoy_schema_version SET version_num='0002' WHERE convoy_schema_version.version_num = '0001';

CREATE TABLE IF NOT EXISTS training_speed_1m (
    job_id BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    round BIGINT NOT NULL,
    workers INTEGER NOT NULL,
    ps INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    batch_size INTEGER NOT NULL,
    accumulation_steps INTEGER NOT NULL,
    warming BOOL NOT NULL,
    windows BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    samples DOUBLE NOT NULL,
    speeds DOUBLE NOT NULL,
    squares DOUBLE NOT NULL,
    compute_sum DOUBLE NOT NULL,
    compute_time DOUBLE NOT NULL,
    first_step BIGINT NOT NULL,
    last_step BIGINT NOT NULL,
    last_ended_at DATETIME(6) NOT NULL,
    PRIMARY KEY (job_id, started_at, round, workers, ps, nodes, batch_size, accumulation_steps, warming)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_node_load_1m (
    job_id BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    node VARCHAR(253) NOT NULL,
    source VARCHAR(16) NOT NULL,
    round BIGINT NOT NULL,
    steady BOOL NOT NULL,
    `role` VARCHAR(32) NOT NULL,
    cpu_allotted DOUBLE,
    memory_allotted BIGINT,
    windows BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    cpu_sum DOUBLE NOT NULL,
    cpu_time DOUBLE NOT NULL,
    cpu_max DOUBLE,
    memory_sum DOUBLE NOT NULL,
    memory_windows BIGINT NOT NULL,
    memory_max BIGINT,
    network_received DOUBLE,
    network_sent DOUBLE,
    disk_read DOUBLE,
    disk_written DOUBLE,
    accelerator_sum DOUBLE NOT NULL,
    accelerator_time DOUBLE NOT NULL,
    accelerator_memory_max BIGINT,
    PRIMARY KEY (job_id, started_at, node, source, round, steady)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS node_load_1m (
    node_id BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    windows BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    cpu_sum DOUBLE NOT NULL,
    cpu_time DOUBLE NOT NULL,
    cpu_max DOUBLE,
    memory_sum DOUBLE NOT NULL,
    memory_windows BIGINT NOT NULL,
    memory_max BIGINT,
    network_received DOUBLE,
    network_sent DOUBLE,
    disk_read DOUBLE,
    disk_written DOUBLE,
    accelerator_sum DOUBLE NOT NULL,
    accelerator_time DOUBLE NOT NULL,
    accelerator_memory_max BIGINT,
    PRIMARY KEY (node_id, started_at)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS training_speed_1h (
    job_id BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    round BIGINT NOT NULL,
    workers INTEGER NOT NULL,
    ps INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    batch_size INTEGER NOT NULL,
    accumulation_steps INTEGER NOT NULL,
    warming BOOL NOT NULL,
    windows BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    samples DOUBLE NOT NULL,
    speeds DOUBLE NOT NULL,
    squares DOUBLE NOT NULL,
    compute_sum DOUBLE NOT NULL,
    compute_time DOUBLE NOT NULL,
    first_step BIGINT NOT NULL,
    last_step BIGINT NOT NULL,
    last_ended_at DATETIME(6) NOT NULL,
    PRIMARY KEY (job_id, started_at, round, workers, ps, nodes, batch_size, accumulation_steps, warming)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS job_node_load_1h (
    job_id BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    node VARCHAR(253) NOT NULL,
    source VARCHAR(16) NOT NULL,
    round BIGINT NOT NULL,
    steady BOOL NOT NULL,
    `role` VARCHAR(32) NOT NULL,
    cpu_allotted DOUBLE,
    memory_allotted BIGINT,
    windows BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    cpu_sum DOUBLE NOT NULL,
    cpu_time DOUBLE NOT NULL,
    cpu_max DOUBLE,
    memory_sum DOUBLE NOT NULL,
    memory_windows BIGINT NOT NULL,
    memory_max BIGINT,
    network_received DOUBLE,
    network_sent DOUBLE,
    disk_read DOUBLE,
    disk_written DOUBLE,
    accelerator_sum DOUBLE NOT NULL,
    accelerator_time DOUBLE NOT NULL,
    accelerator_memory_max BIGINT,
    PRIMARY KEY (job_id, started_at, node, source, round, steady)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS node_load_1h (
    node_id BIGINT NOT NULL,
    started_at DATETIME(6) NOT NULL,
    windows BIGINT NOT NULL,
    seconds DOUBLE NOT NULL,
    cpu_sum DOUBLE NOT NULL,
    cpu_time DOUBLE NOT NULL,
    cpu_max DOUBLE,
    memory_sum DOUBLE NOT NULL,
    memory_windows BIGINT NOT NULL,
    memory_max BIGINT,
    network_received DOUBLE,
    network_sent DOUBLE,
    disk_read DOUBLE,
    disk_written DOUBLE,
    accelerator_sum DOUBLE NOT NULL,
    accelerator_time DOUBLE NOT NULL,
    accelerator_memory_max BIGINT,
    PRIMARY KEY (node_id, started_at)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE INDEX ix_training_speed_1h_started_at ON training_speed_1h (started_at);

CREATE INDEX ix_job_node_load_1h_started_at ON job_node_load_1h (started_at);

CREATE INDEX ix_node_load_1h_started_at ON node_load_1h (started_at);

CREATE TABLE IF NOT EXISTS rollup_due (
    series VARCHAR(32) NOT NULL,
    subject_id BIGINT NOT NULL,
    hour DATETIME(6) NOT NULL,
    changes BIGINT NOT NULL,
    PRIMARY KEY (series, subject_id, hour)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS series_kept (
    series VARCHAR(32) NOT NULL,
    complete_since DATETIME(6) NOT NULL,
    PRIMARY KEY (series)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;

INSERT INTO rollup_due (series, subject_id, hour, changes) SELECT 'training_speed', g.subject, g.hour, 1 FROM (SELECT DISTINCT s.job_id AS subject, TIMESTAMP(DATE(s.ended_at), MAKETIME(HOUR(s.ended_at), 0, 0)) AS hour FROM training_speed s) g LEFT JOIN rollup_due d ON d.series = 'training_speed' AND d.subject_id = g.subject AND d.hour = g.hour WHERE d.series IS NULL;

ALTER TABLE training_speed PARTITION BY RANGE COLUMNS(ended_at) (PARTITION p_past VALUES LESS THAN ('2000-01-01'), PARTITION p_future VALUES LESS THAN (MAXVALUE));

ALTER TABLE training_speed_1m PARTITION BY RANGE COLUMNS(started_at) (PARTITION p_past VALUES LESS THAN ('2000-01-01'), PARTITION p_future VALUES LESS THAN (MAXVALUE));

INSERT INTO rollup_due (series, subject_id, hour, changes) SELECT 'job_node_load', g.subject, g.hour, 1 FROM (SELECT DISTINCT s.job_id AS subject, TIMESTAMP(DATE(s.ended_at), MAKETIME(HOUR(s.ended_at), 0, 0)) AS hour FROM job_node_load s) g LEFT JOIN rollup_due d ON d.series = 'job_node_load' AND d.subject_id = g.subject AND d.hour = g.hour WHERE d.series IS NULL;

ALTER TABLE job_node_load PARTITION BY RANGE COLUMNS(ended_at) (PARTITION p_past VALUES LESS THAN ('2000-01-01'), PARTITION p_future VALUES LESS THAN (MAXVALUE));

ALTER TABLE job_node_load_1m PARTITION BY RANGE COLUMNS(started_at) (PARTITION p_past VALUES LESS THAN ('2000-01-01'), PARTITION p_future VALUES LESS THAN (MAXVALUE));

INSERT INTO rollup_due (series, subject_id, hour, changes) SELECT 'node_load', g.subject, g.hour, 1 FROM (SELECT DISTINCT s.node_id AS subject, TIMESTAMP(DATE(s.ended_at), MAKETIME(HOUR(s.ended_at), 0, 0)) AS hour FROM node_load s) g LEFT JOIN rollup_due d ON d.series = 'node_load' AND d.subject_id = g.subject AND d.hour = g.hour WHERE d.series IS NULL;

ALTER TABLE node_load PARTITION BY RANGE COLUMNS(ended_at) (PARTITION p_past VALUES LESS THAN ('2000-01-01'), PARTITION p_future VALUES LESS THAN (MAXVALUE));

ALTER TABLE node_load_1m PARTITION BY RANGE COLUMNS(started_at) (PARTITION p_past VALUES LESS THAN ('2000-01-01'), PARTITION p_future VALUES LESS THAN (MAXVALUE));

UPDATE convoy_schema_version SET version_num='0003' WHERE convoy_schema_version.version_num = '0002';

CREATE OR REPLACE SQL SECURITY INVOKER VIEW pod_hour AS
SELECT u.*,
  CASE WHEN u.core_hours_allotted > u.core_hours_used THEN u.core_hours_allotted - u.core_hours_used WHEN u.core_hours_allotted IS NOT NULL THEN 0e0 END AS core_hours_wasted,
  CASE WHEN u.gib_hours_allotted > u.gib_hours_used THEN u.gib_hours_allotted - u.gib_hours_used WHEN u.gib_hours_allotted IS NOT NULL THEN 0e0 END AS gib_hours_wasted,
  CASE WHEN u.accelerator_hours_allotted > u.accelerator_hours_used THEN u.accelerator_hours_allotted - u.accelerator_hours_used WHEN u.accelerator_hours_allotted IS NOT NULL THEN 0e0 END AS accelerator_hours_wasted
FROM (
SELECT s.job_id, s.started_at AS hour, s.node AS pod, s.role,
  CASE WHEN s.cpu_time > 0 THEN s.cpu_sum / 3600e0 END AS core_hours_used,
  CASE WHEN s.cpu_time > 0 THEN COALESCE(s.cpu_allotted, n.cpu_allotted) * s.cpu_time / 3600e0 END
    AS core_hours_allotted,
  CASE WHEN s.memory_time > 0 THEN s.memory_sum / 3.865470566400e12 END AS gib_hours_used,
  CASE WHEN s.memory_time > 0 THEN COALESCE(s.memory_allotted, n.memory_allotted) * s.memory_time / 3.865470566400e12 END
    AS gib_hours_allotted,
  CASE WHEN s.accelerator_time > 0 THEN s.accelerator_sum / 3600e0 END AS accelerator_hours_used,
  CASE WHEN s.accelerator_time > 0 THEN n.accelerators * s.accelerator_time / 3600e0 END AS accelerator_hours_allotted
FROM (
  SELECT l.job_id, l.started_at, l.node, MAX(l.role) AS role,
    CASE WHEN SUM(CASE WHEN l.source = 'agent' THEN l.cpu_time ELSE 0 END) > 0 THEN SUM(CASE WHEN l.source = 'agent' THEN l.cpu_sum ELSE 0 END) ELSE SUM(l.cpu_sum) END AS cpu_sum,
    CASE WHEN SUM(CASE WHEN l.source = 'agent' THEN l.cpu_time ELSE 0 END) > 0 THEN SUM(CASE WHEN l.source = 'agent' THEN l.cpu_time ELSE 0 END) ELSE SUM(l.cpu_time) END AS cpu_time,
    CASE WHEN SUM(CASE WHEN l.source = 'agent' THEN l.memory_windows ELSE 0 END) > 0 THEN SUM(CASE WHEN l.source = 'agent' THEN l.memory_sum * l.seconds / l.windows ELSE 0 END) ELSE SUM(l.memory_sum * l.seconds / l.windows) END AS memory_sum,
    CASE WHEN SUM(CASE WHEN l.source = 'agent' THEN l.memory_windows ELSE 0 END) > 0 THEN SUM(CASE WHEN l.source = 'agent' THEN l.memory_windows * l.seconds / l.windows ELSE 0 END) ELSE SUM(l.memory_windows * l.seconds / l.windows) END AS memory_time,
    CASE WHEN SUM(CASE WHEN l.source = 'agent' THEN l.accelerator_time ELSE 0 END) > 0 THEN SUM(CASE WHEN l.source = 'agent' THEN l.accelerator_sum ELSE 0 END) ELSE SUM(l.accelerator_sum) END AS accelerator_sum,
    CASE WHEN SUM(CASE WHEN l.source = 'agent' THEN l.accelerator_time ELSE 0 END) > 0 THEN SUM(CASE WHEN l.source = 'agent' THEN l.accelerator_time ELSE 0 END) ELSE SUM(l.accelerator_time) END AS accelerator_time,
    MAX(l.cpu_allotted) AS cpu_allotted, MAX(l.memory_allotted) AS memory_allotted
  FROM job_node_load_1h l
  GROUP BY l.job_id, l.started_at, l.node
) s LEFT JOIN job_node n ON n.job_id = s.job_id AND n.name = s.node
) u;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW job_efficiency AS
SELECT e.*, e.samples / NULLIF(e.steady_seconds, 0) AS steady_speed,
  e.samples / NULLIF(e.elapsed_seconds, 0) AS effective_speed,
  e.steady_seconds / NULLIF(e.elapsed_seconds, 0) AS trained_share
FROM (
  SELECT j.uid AS job, j.name, j.namespace, j.template, j.user, j.cluster, j.strategy, j.state,
    j.gone_at, b.began, b.measured_until, COALESCE(b.hours_due, 0) AS hours_due,
    (TIMESTAMPDIFF(MICROSECOND, b.began, b.measured_until) / 1e6) AS elapsed_seconds,
    COALESCE(b.attempts, 0) AS attempts, COALESCE(b.samples, CASE WHEN b.attempts > 0 THEN 0e0 END) AS samples, COALESCE(b.steady_seconds, CASE WHEN b.attempts > 0 THEN 0e0 END) AS steady_seconds,
    COALESCE(b.warming_seconds, CASE WHEN b.attempts > 0 THEN 0e0 END) AS warming_seconds,
    p.core_hours_used, p.core_hours_allotted, p.core_hours_share,
    p.gib_hours_used, p.gib_hours_allotted, p.gib_hours_share,
    p.accelerator_hours_used, p.accelerator_hours_allotted, p.accelerator_hours_share
  FROM job j
  JOIN (
    SELECT j.id AS job_id, CASE WHEN j.first_seen < COALESCE(a.started_at, j.first_seen) THEN j.first_seen ELSE COALESCE(a.started_at, j.first_seen) END AS began,
      CASE WHEN d.hours_due > 0 THEN s.last_ended_at ELSE CASE WHEN COALESCE(l.last_hour, j.last_seen) > (CASE WHEN j.last_seen > COALESCE(s.last_ended_at, j.last_seen) THEN j.last_seen ELSE COALESCE(s.last_ended_at, j.last_seen) END) THEN COALESCE(l.last_hour, j.last_seen) ELSE (CASE WHEN j.last_seen > COALESCE(s.last_ended_at, j.last_seen) THEN j.last_seen ELSE COALESCE(s.last_ended_at, j.last_seen) END) END END AS measured_until,
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
    SELECT job_id, SUM(core_hours_used) AS core_hours_used, SUM(core_hours_allotted) AS core_hours_allotted, SUM(CASE WHEN core_hours_allotted IS NOT NULL THEN core_hours_used END) / NULLIF(SUM(core_hours_allotted), 0) AS core_hours_share, SUM(gib_hours_used) AS gib_hours_used, SUM(gib_hours_allotted) AS gib_hours_allotted, SUM(CASE WHEN gib_hours_allotted IS NOT NULL THEN gib_hours_used END) / NULLIF(SUM(gib_hours_allotted), 0) AS gib_hours_share, SUM(accelerator_hours_used) AS accelerator_hours_used, SUM(accelerator_hours_allotted) AS accelerator_hours_allotted, SUM(CASE WHEN accelerator_hours_allotted IS NOT NULL THEN accelerator_hours_used END) / NULLIF(SUM(accelerator_hours_allotted), 0) AS accelerator_hours_share
    FROM pod_hour GROUP BY job_id
  ) p ON p.job_id = j.id
) e;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW waste_by_user AS
SELECT j.user, j.cluster, DATE(p.hour) AS day, COUNT(DISTINCT p.job_id) AS jobs,
  SUM(p.core_hours_allotted) AS core_hours_allotted, SUM(CASE WHEN p.core_hours_allotted IS NOT NULL THEN p.core_hours_used END) AS core_hours_used, SUM(p.core_hours_wasted) AS core_hours_wasted,
  SUM(p.gib_hours_allotted) AS gib_hours_allotted, SUM(CASE WHEN p.gib_hours_allotted IS NOT NULL THEN p.gib_hours_used END) AS gib_hours_used, SUM(p.gib_hours_wasted) AS gib_hours_wasted,
  SUM(p.accelerator_hours_allotted) AS accelerator_hours_allotted, SUM(CASE WHEN p.accelerator_hours_allotted IS NOT NULL THEN p.accelerator_hours_used END) AS accelerator_hours_used, SUM(p.accelerator_hours_wasted) AS accelerator_hours_wasted
FROM pod_hour p JOIN job j ON j.id = p.job_id
GROUP BY j.user, j.cluster, DATE(p.hour);

CREATE OR REPLACE SQL SECURITY INVOKER VIEW node_utilization AS
SELECT h.*, h.cpu_used / NULLIF(h.cpu_capacity, 0) AS cpu_used_share, h.cpu_allotted / NULLIF(h.cpu_allocatable, 0) AS cpu_allotted_share, h.memory_used / NULLIF(h.memory_capacity, 0) AS memory_used_share, h.memory_allotted / NULLIF(h.memory_allocatable, 0) AS memory_allotted_share, h.accelerators_used / NULLIF(h.accelerators_capacity, 0) AS accelerators_used_share, h.accelerators_allotted / NULLIF(h.accelerators_allocatable, 0) AS accelerators_allotted_share
FROM (
  SELECT c.name AS cluster, n.name AS machine, n.node_type, l.started_at AS hour, MAX(l.seconds) AS measured_seconds,
    MAX(l.cpu_sum) / NULLIF(MAX(l.cpu_time), 0) AS cpu_used, MAX(l.cpu_max) AS cpu_used_max, COALESCE(SUM((TIMESTAMPDIFF(MICROSECOND, CASE WHEN p.began > l.started_at THEN p.began ELSE l.started_at END, CASE WHEN COALESCE(p.ended, (l.started_at + INTERVAL 1 HOUR)) < (l.started_at + INTERVAL 1 HOUR) THEN COALESCE(p.ended, (l.started_at + INTERVAL 1 HOUR)) ELSE (l.started_at + INTERVAL 1 HOUR) END) / 1e6) * p.cpu_allotted), 0) / 3600e0 AS cpu_allotted, MAX(n.cpu_allocatable) AS cpu_allocatable, MAX(n.cpu_capacity) AS cpu_capacity,
    MAX(l.memory_sum) / NULLIF(MAX(l.memory_windows), 0) AS memory_used, MAX(l.memory_max) AS memory_used_max, COALESCE(SUM((TIMESTAMPDIFF(MICROSECOND, CASE WHEN p.began > l.started_at THEN p.began ELSE l.started_at END, CASE WHEN COALESCE(p.ended, (l.started_at + INTERVAL 1 HOUR)) < (l.started_at + INTERVAL 1 HOUR) THEN COALESCE(p.ended, (l.started_at + INTERVAL 1 HOUR)) ELSE (l.started_at + INTERVAL 1 HOUR) END) / 1e6) * p.memory_allotted), 0) / 3600e0 AS memory_allotted, MAX(n.memory_allocatable) AS memory_allocatable, MAX(n.memory_capacity) AS memory_capacity,
    MAX(l.accelerator_sum) / NULLIF(MAX(l.accelerator_time), 0) AS accelerators_used, COALESCE(SUM((TIMESTAMPDIFF(MICROSECOND, CASE WHEN p.began > l.started_at THEN p.began ELSE l.started_at END, CASE WHEN COALESCE(p.ended, (l.started_at + INTERVAL 1 HOUR)) < (l.started_at + INTERVAL 1 HOUR) THEN COALESCE(p.ended, (l.started_at + INTERVAL 1 HOUR)) ELSE (l.started_at + INTERVAL 1 HOUR) END) / 1e6) * p.accelerators), 0) / 3600e0 AS accelerators_allotted, MAX(n.accelerators_allocatable) AS accelerators_allocatable, MAX(n.accelerators_capacity) AS accelerators_capacity
  FROM node_load_1h l
  JOIN node n ON n.id = l.node_id
  JOIN cluster c ON c.id = n.cluster_id
  LEFT JOIN (
    SELECT o.node_id, COALESCE(o.started_at, o.created_at) AS began,
      COALESCE(o.ended_at, o.gone_at, j.gone_at, CASE WHEN j.state IN ('Succeeded', 'Failed') THEN j.last_seen END,
        m.gone_at) AS ended,
      o.cpu_allotted, o.memory_allotted, o.accelerators
    FROM job_node o JOIN job j ON j.id = o.job_id JOIN node m ON m.id = o.node_id
  ) p ON p.node_id = l.node_id AND p.began < (l.started_at + INTERVAL 1 HOUR) AND (p.ended IS NULL OR p.ended > l.started_at)
  GROUP BY c.name, n.name, n.node_type, l.node_id, l.started_at
) h;

CREATE OR REPLACE SQL SECURITY INVOKER VIEW plan_outcomes AS
SELECT j.uid AS job, s.name AS plan, j.template, j.user, j.cluster, s.recommendation_id AS recommendation,
  r.made_at AS recommended_at, r.observations, r.history_jobs, s.reason, s.created_at, s.carried_out_at,
  s.workers_before, s.workers_after, s.predicted, s.predicted_lower, s.predicted_upper, s.realized,
  s.realized_seconds, s.realized / NULLIF(s.predicted, 0) - 1 AS error,
  CASE WHEN s.realized < s.predicted_lower OR s.realized > s.predicted_upper THEN 0
    WHEN s.realized >= s.predicted_lower AND s.realized <= s.predicted_upper THEN 1 END AS within_interval,
  s.restart_seconds, s.rolled_back
FROM scale_plan s JOIN job j ON j.id = s.job_id LEFT JOIN recommendation r ON r.id = s.recommendation_id;

UPDATE convoy_schema_version SET version_num='0004' WHERE convoy_schema_version.version_num = '0003';

ALTER TABLE recommendation ADD COLUMN run_id BIGINT;

ALTER TABLE recommendation ADD CONSTRAINT fk_recommendation_run FOREIGN KEY(run_id) REFERENCES optimization_run (id);

ALTER TABLE recommendation ADD COLUMN status VARCHAR(16) NOT NULL DEFAULT '';

ALTER TABLE recommendation ADD COLUMN decided_by VARCHAR(255) NOT NULL DEFAULT '';

ALTER TABLE recommendation ADD COLUMN decided_at DATETIME(6);

ALTER TABLE recommendation ADD COLUMN decided_why TEXT;

ALTER TABLE recommendation ADD COLUMN plan VARCHAR(253) NOT NULL DEFAULT '';

CREATE INDEX ix_recommendation_run ON recommendation (run_id);

CREATE INDEX ix_recommendation_status ON recommendation (status, made_at);

ALTER TABLE optimization_run ADD COLUMN owner VARCHAR(255) NOT NULL DEFAULT '';

ALTER TABLE optimization_run ADD COLUMN starts INTEGER NOT NULL DEFAULT '0';

UPDATE convoy_schema_version SET version_num='0005' WHERE convoy_schema_version.version_num = '0004';

ALTER TABLE training_speed ADD COLUMN grad_sqr DOUBLE;

ALTER TABLE training_speed ADD COLUMN grad_var DOUBLE;

UPDATE convoy_schema_version SET version_num='0006' WHERE convoy_schema_version.version_num = '0005';

ALTER TABLE training_speed ADD COLUMN loader_wait DOUBLE;

ALTER TABLE training_speed ADD COLUMN loader_workers INTEGER;

UPDATE convoy_schema_version SET version_num='0007' WHERE convoy_schema_version.version_num = '0006';
