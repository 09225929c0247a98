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
