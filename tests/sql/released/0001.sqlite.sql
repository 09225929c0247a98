BEGIN TRANSACTION;
CREATE TABLE convoy_schema_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT convoy_schema_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "convoy_schema_version" VALUES('0001');
CREATE TABLE history_observation (
	id INTEGER NOT NULL, 
	digest CHAR(64) NOT NULL, 
	origin VARCHAR(16) NOT NULL, 
	source VARCHAR(255) NOT NULL, 
	imported_at DATETIME NOT NULL, 
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
	observed_at DATETIME, 
	window_seconds DOUBLE, 
	status VARCHAR(16) NOT NULL, 
	grad_sqr DOUBLE, 
	grad_var DOUBLE, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_history_observation_digest UNIQUE (digest)
);
INSERT INTO "history_observation" VALUES(1,'0000000000000000000000000000000000000000000000000000000000000001','imported','digits.csv','2026-11-20 09:00:00.000000','past',NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,70.0,NULL,NULL,NULL,'ok',NULL,NULL);
CREATE TABLE job (
	id INTEGER NOT NULL, 
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
	first_seen DATETIME NOT NULL, 
	last_seen DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_job_uid UNIQUE (uid)
);
INSERT INTO "job" VALUES(1,'uid-1','digits','default','template-1','image:1','ana','allreduce','mlp','','','Succeeded','measured','2026-11-20 10:00:00.000000','2026-11-20 12:00:00.500000');
INSERT INTO "job" VALUES(2,'uid-2','silent','default','','','','','','','','Waiting','measured','2026-11-20 10:00:00.000000','2026-11-20 10:00:00.000000');
CREATE TABLE job_event (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	happened_at DATETIME NOT NULL, 
	reason VARCHAR(128) NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	round BIGINT NOT NULL, 
	step BIGINT, 
	message TEXT NOT NULL, 
	evidence JSON NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_job_event_job_time_reason_node UNIQUE (job_id, happened_at, reason, node), 
	CONSTRAINT fk_job_event_job FOREIGN KEY(job_id) REFERENCES job (id)
);
INSERT INTO "job_event" VALUES(1,1,'2026-11-20 11:10:00.000000','NodeFailed','digits-edljob-worker-0',1,30,'it ended','{"exit": "137"}');
CREATE TABLE job_feature (
	job_id INTEGER NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	value DOUBLE NOT NULL, 
	PRIMARY KEY (job_id, name), 
	CONSTRAINT fk_job_feature_job FOREIGN KEY(job_id) REFERENCES job (id)
);
INSERT INTO "job_feature" VALUES(1,'parameters',1000000.0);
CREATE TABLE node_load (
	job_id BIGINT NOT NULL, 
	ended_at DATETIME NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	seconds DOUBLE NOT NULL, 
	role VARCHAR(32) NOT NULL, 
	rank INTEGER NOT NULL, 
	round BIGINT NOT NULL, 
	cpu_cores DOUBLE NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	cpu_allotted DOUBLE, 
	memory_allotted BIGINT, 
	origin VARCHAR(16) NOT NULL, 
	PRIMARY KEY (job_id, ended_at, node)
)
 WITHOUT ROWID

;
INSERT INTO "node_load" VALUES(1,'2026-11-20 11:00:05.000000','digits-edljob-worker-0',10.0,'worker',0,1,0.9,400000000,1.0,NULL,'measured');
INSERT INTO "node_load" VALUES(1,'2026-11-20 11:30:00.000000','digits-edljob-worker-1',10.0,'worker',1,2,0.8,410000000,NULL,NULL,'measured');
CREATE TABLE recommendation (
	id VARCHAR(36) NOT NULL, 
	job_id INTEGER NOT NULL, 
	made_at DATETIME NOT NULL, 
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
);
INSERT INTO "recommendation" VALUES('advice-1',1,'2026-11-20 11:15:00.000000','RUNNING','CHANGE','FasterAtLarger','two are faster',1,4.0,2,NULL,NULL,NULL,NULL,NULL,140.0,100.0,180.0,80.0,200.0,0.1,'USD',2,3,'[]','{}','{}',0.2);
CREATE TABLE reporter (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	sender VARCHAR(253) NOT NULL, 
	incarnation BIGINT NOT NULL, 
	sequence BIGINT NOT NULL, 
	last_seen DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_reporter_job_sender_incarnation UNIQUE (job_id, sender, incarnation), 
	CONSTRAINT fk_reporter_job FOREIGN KEY(job_id) REFERENCES job (id)
);
INSERT INTO "reporter" VALUES(1,1,'master-0',7,42,'2026-11-20 12:00:00.500000');
CREATE TABLE scale_plan (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	name VARCHAR(253) NOT NULL, 
	recommendation_id VARCHAR(36), 
	created_at DATETIME NOT NULL, 
	carried_out_at DATETIME, 
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
	rolled_back BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_scale_plan_job_name UNIQUE (job_id, name), 
	CONSTRAINT fk_scale_plan_job FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_scale_plan_recommendation FOREIGN KEY(recommendation_id) REFERENCES recommendation (id)
);
INSERT INTO "scale_plan" VALUES(1,1,'digits-scaleplan-1','advice-1','2026-11-20 11:16:00.000000','2026-11-20 11:17:00.000000',1,2,140.0,100.0,180.0,144.0,60.0,3.5,'FasterAtLarger','grown',0);
CREATE TABLE training_speed (
	job_id BIGINT NOT NULL, 
	ended_at DATETIME NOT NULL, 
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
	warming BOOLEAN NOT NULL, 
	compute_seconds DOUBLE, 
	origin VARCHAR(16) NOT NULL, 
	PRIMARY KEY (job_id, ended_at, round, last_step)
)
 WITHOUT ROWID

;
INSERT INTO "training_speed" VALUES(1,'2026-11-20 10:59:50.250000',1,10,1,10.0,640.0,1,0,1,64,1,1,NULL,'measured');
INSERT INTO "training_speed" VALUES(1,'2026-11-20 11:00:00.250000',1,20,11,10.0,700.0,1,0,1,64,1,0,0.5,'measured');
INSERT INTO "training_speed" VALUES(1,'2026-11-20 11:00:10.250000',1,30,21,10.0,720.0,1,0,1,64,1,0,0.5,'measured');
INSERT INTO "training_speed" VALUES(1,'2026-11-20 11:30:00.000000',2,40,31,5.0,720.0,2,0,2,32,1,0,NULL,'measured');
CREATE INDEX ix_job_name ON job (name, namespace);
CREATE INDEX ix_job_template ON job (template);
CREATE INDEX ix_job_last_seen ON job (last_seen);
CREATE INDEX ix_job_event_reason ON job_event (reason, happened_at);
CREATE INDEX ix_recommendation_job_made_at ON recommendation (job_id, made_at);
CREATE INDEX ix_recommendation_made_at ON recommendation (made_at);
CREATE INDEX ix_scale_plan_created_at ON scale_plan (created_at);
CREATE INDEX ix_scale_plan_recommendation ON scale_plan (recommendation_id);
CREATE INDEX ix_history_observation_job ON history_observation (job);
CREATE INDEX ix_history_observation_template ON history_observation (template);
COMMIT;
