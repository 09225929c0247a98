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

INSERT INTO job (id, uid, name, namespace, template, image, user, strategy, model, cluster, node_type, state, origin, first_seen, last_seen) VALUES (1, 'uid-1', 'digits', 'default', 'template-1', 'image:1', 'ana', 'allreduce', 'mlp', '', '', 'Succeeded', 'measured', '2026-11-20 10:00:00.000000', '2026-11-20 12:00:00.500000');
INSERT INTO job (id, uid, name, namespace, template, image, user, strategy, model, cluster, node_type, state, origin, first_seen, last_seen) VALUES (2, 'uid-2', 'silent', 'default', '', '', '', '', '', '', '', 'Waiting', 'measured', '2026-11-20 10:00:00.000000', '2026-11-20 10:00:00.000000');
INSERT INTO job_feature (job_id, name, value) VALUES (1, 'parameters', 1000000.0);
INSERT INTO reporter (id, job_id, sender, incarnation, sequence, last_seen) VALUES (1, 1, 'master-0', 7, 42, '2026-11-20 12:00:00.500000');
INSERT INTO training_speed (job_id, ended_at, round, last_step, first_step, seconds, samples, workers, ps, nodes, batch_size, accumulation_steps, warming, compute_seconds, origin) VALUES (1, '2026-11-20 10:59:50.250000', 1, 10, 1, 10.0, 640.0, 1, 0, 1, 64, 1, 1, NULL, 'measured');
INSERT INTO training_speed (job_id, ended_at, round, last_step, first_step, seconds, samples, workers, ps, nodes, batch_size, accumulation_steps, warming, compute_seconds, origin) VALUES (1, '2026-11-20 11:00:00.250000', 1, 20, 11, 10.0, 700.0, 1, 0, 1, 64, 1, 0, 0.5, 'measured');
INSERT INTO training_speed (job_id, ended_at, round, last_step, first_step, seconds, samples, workers, ps, nodes, batch_size, accumulation_steps, warming, compute_seconds, origin) VALUES (1, '2026-11-20 11:00:10.250000', 1, 30, 21, 10.0, 720.0, 1, 0, 1, 64, 1, 0, 0.5, 'measured');
INSERT INTO training_speed (job_id, ended_at, round, last_step, first_step, seconds, samples, workers, ps, nodes, batch_size, accumulation_steps, warming, compute_seconds, origin) VALUES (1, '2026-11-20 11:30:00.000000', 2, 40, 31, 5.0, 720.0, 2, 0, 2, 32, 1, 0, NULL, 'measured');
INSERT INTO node_load (job_id, ended_at, node, seconds, role, `rank`, round, cpu_cores, memory_bytes, cpu_allotted, memory_allotted, origin) VALUES (1, '2026-11-20 11:00:05.000000', 'digits-edljob-worker-0', 10.0, 'worker', 0, 1, 0.9, 400000000, 1.0, NULL, 'measured');
INSERT INTO node_load (job_id, ended_at, node, seconds, role, `rank`, round, cpu_cores, memory_bytes, cpu_allotted, memory_allotted, origin) VALUES (1, '2026-11-20 11:30:00.000000', 'digits-edljob-worker-1', 10.0, 'worker', 1, 2, 0.8, 410000000, NULL, NULL, 'measured');
INSERT INTO job_event (id, job_id, happened_at, reason, node, round, step, message, evidence) VALUES (1, 1, '2026-11-20 11:10:00.000000', 'NodeFailed', 'digits-edljob-worker-0', 1, 30, 'it ended', '{"exit": "137"}');
INSERT INTO recommendation (id, job_id, made_at, stage, decision, reason, message, workers_before, free_cpu, workers, ps, worker_cpu, worker_memory, ps_cpu, ps_memory, predicted, lower90, upper90, lower99, upper99, price_per_hour, currency, observations, history_jobs, options, request, evidence, seconds) VALUES ('advice-1', 1, '2026-11-20 11:15:00.000000', 'RUNNING', 'CHANGE', 'FasterAtLarger', 'two are faster', 1, 4.0, 2, NULL, NULL, NULL, NULL, NULL, 140.0, 100.0, 180.0, 80.0, 200.0, 0.1, 'USD', 2, 3, '[]', '{}', '{}', 0.2);
INSERT INTO scale_plan (id, job_id, name, recommendation_id, created_at, carried_out_at, workers_before, workers_after, predicted, predicted_lower, predicted_upper, realized, realized_seconds, restart_seconds, reason, message, rolled_back) VALUES (1, 1, 'digits-scaleplan-1', 'advice-1', '2026-11-20 11:16:00.000000', '2026-11-20 11:17:00.000000', 1, 2, 140.0, 100.0, 180.0, 144.0, 60.0, 3.5, 'FasterAtLarger', 'grown', 0);
INSERT INTO history_observation (id, digest, origin, source, imported_at, job, workers, throughput, status) VALUES (1, '0000000000000000000000000000000000000000000000000000000000000001', 'imported', 'digits.csv', '2026-11-20 09:00:00.000000', 'past', 1, 70.0, 'ok');
