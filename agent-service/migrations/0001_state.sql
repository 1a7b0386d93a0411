-- What the service knows: its configuration, tasks, receipts, triggers.
-- A migration that was released is never changed; a later one is added.

-- Facts about the directory itself, such as the configuration that it belongs to.
CREATE TABLE facts (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The part of a task that changes; kept small, since each change rewrites the row.
CREATE TABLE tasks (
  sequence       INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of submission, never used twice
  id             TEXT NOT NULL UNIQUE,
  context_id     TEXT NOT NULL,
  state          INTEGER NOT NULL,                  -- TaskState of A2A, by its number in the proto
  status_millis  INTEGER NOT NULL,                  -- since 1970, UTC
  change         INTEGER NOT NULL UNIQUE,           -- the place of that status among all changes of status
  created_millis INTEGER NOT NULL,
  expires_millis INTEGER,                           -- a queued task of an event ends REJECTED then
  generation     INTEGER NOT NULL DEFAULT 1,        -- grows with each change of state (A2A 1.1)
  origin         TEXT NOT NULL CHECK (origin IN ('message', 'event')),
  depth          INTEGER NOT NULL CHECK (depth BETWEEN 0 AND 4),
  traceparent    TEXT,                              -- of the call that brought it
  instance_key   TEXT,                              -- which agent process served it
  usage          TEXT                               -- tokens, as JSON
) STRICT;

-- Each index below serves one question, so that no answer costs more when more is retained.
CREATE INDEX tasks_queued    ON tasks (sequence)       WHERE state = 1;
CREATE INDEX tasks_working   ON tasks (sequence)       WHERE state = 2;
CREATE INDEX tasks_ended     ON tasks (sequence)       WHERE state IN (3, 4, 5, 7);
CREATE INDEX tasks_expiring  ON tasks (expires_millis) WHERE state = 1 AND expires_millis IS NOT NULL;

-- What was asked; written once.
CREATE TABLE inputs (
  sequence     INTEGER PRIMARY KEY REFERENCES tasks (sequence) ON DELETE CASCADE,
  message_id   TEXT NOT NULL,
  parts        TEXT,    -- of a message, as JSON
  metadata     TEXT,    -- of a message, as JSON
  event        TEXT,    -- of an event, as JSON
  instructions TEXT,    -- of an event: the trigger's prompt
  CHECK ((parts IS NULL) <> (event IS NULL)),
  CHECK ((event IS NULL) = (instructions IS NULL))
) STRICT;

-- What came of it; written once.
CREATE TABLE results (
  sequence INTEGER PRIMARY KEY REFERENCES tasks (sequence) ON DELETE CASCADE,
  id       TEXT NOT NULL, -- of the artifact, or of the status message
  text     TEXT NOT NULL
) STRICT;

-- What submission IDs were answered; the last 4096.
CREATE TABLE receipts (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  key      TEXT NOT NULL UNIQUE,
  content  BLOB NOT NULL CHECK (length(content) = 32), -- SHA-256
  task_id  TEXT,
  reason   TEXT,
  CHECK ((task_id IS NULL) <> (reason IS NULL))
) STRICT;

-- The sequence of each trigger. Nanoseconds since 1970, UTC.
CREATE TABLE triggers (
  source      TEXT NOT NULL,
  type        TEXT NOT NULL,
  sequence    INTEGER NOT NULL,
  last_nanos  INTEGER,
  fired_nanos INTEGER,
  PRIMARY KEY (source, type)
) STRICT, WITHOUT ROWID;

-- One row for each tool call, written before its result is used.
CREATE TABLE audit (
  position        INTEGER PRIMARY KEY AUTOINCREMENT,
  sequence        INTEGER NOT NULL REFERENCES tasks (sequence) ON DELETE CASCADE,
  at_millis       INTEGER NOT NULL,
  tool            TEXT NOT NULL,
  decision        TEXT NOT NULL,
  why             TEXT NOT NULL,
  arguments       BLOB NOT NULL CHECK (length(arguments) = 32), -- SHA-256
  excerpt         TEXT NOT NULL,
  duration_millis INTEGER,
  outcome         TEXT
) STRICT;

CREATE INDEX audit_by_task ON audit (sequence);
