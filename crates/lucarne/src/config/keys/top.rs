//! Keys at the top of the file.

use lucarne_settings::form::{Shape, Words};
use lucarne_settings::{Key, Table};

use super::{LOG, SHARED, SUNLIGHT, http, operator, otlp, read_limits, tls};
use crate::verification::VerifyBy;

pub(crate) static TABLE: Table = Table::of(&[
    &LISTEN,
    &CHECKPOINTS,
    &CHECKPOINTSPASSWORD,
    &HANDOVER,
    &TLS,
    &HTTP,
    &READ_LIMITS,
    &OPERATOR,
    &VERIFICATION,
    &OTLP,
    &DEFAULTS,
    &LOGS,
]);

pub(crate) static LISTEN: Key<Shape> = Key::new(
    "listen",
    Shape::List(&Shape::Text),
    "required",
    "Addresses to listen on: `host:port`, `[::1]:port`, or `:port` for all interfaces. One address \
     or a list. `:http` and `:https` also work.",
)
.beside(SUNLIGHT);

pub(crate) static CHECKPOINTS: Key<Shape> = Key::new(
    "checkpoints",
    Shape::Secret,
    "required",
    "The lock: a path (SQLite) or a URL, [see below](#the-lock). Paths in parameters of the URL are \
     relative to the directory of this file, like all paths. `lucarne init` creates the lock before \
     the first `serve`. An SQLite database created by Sunlight works. Put the database on another \
     file system than the data.",
)
.beside(SUNLIGHT);

pub(crate) static CHECKPOINTSPASSWORD: Key<Shape> = Key::new(
    "checkpointspassword",
    Shape::Secret,
    "none",
    "Password of the lock's database server, if the URL has none: a path, or `credential:NAME`, \
     `env:NAME`, `exec:COMMAND`, as for `secret`. One line, read at startup.",
);

pub(crate) static HANDOVER: Key<Shape> = Key::new(
    "handover",
    Shape::Text,
    "none",
    "A socket in the file system, through which the next `lucarne serve` takes over from this \
     process [without a gap](../how-to/upgrade.md#upgrade-without-a-gap): \
     `/run/lucarne/handover.sock`. Its directory must exist and be writable.",
);

pub(crate) static TLS: Key<Shape> = Key::new(
    "tls",
    Shape::Map(&tls::TABLE),
    "plain HTTP",
    "Certificate and key for HTTPS, see below.",
);

pub(crate) static HTTP: Key<Shape> = Key::new(
    "http",
    Shape::Map(&http::TABLE),
    "below",
    "Limits of the HTTP server, see below.",
);

pub(crate) static READ_LIMITS: Key<Shape> = Key::new(
    "read_limits",
    Shape::Either(&[Shape::Exactly("off"), Shape::Map(&read_limits::TABLE)]),
    "below",
    "Read limits per client, or `off`, [see below](#read_limits).",
);

pub(crate) static OPERATOR: Key<Shape> = Key::new(
    "operator",
    Shape::Map(&operator::TABLE),
    "none",
    "Name and contact addresses of the operator, for all logs, [see below](#operator).",
);

pub(crate) static VERIFICATION: Key<Words<VerifyBy>> = Key::new(
    "verification",
    Words(&[("fast", VerifyBy::Fast), ("general", VerifyBy::General)]),
    "`fast`",
    "How the server verifies the signatures of submissions, for all logs. `fast`: Lucarne's own \
     arithmetic for frequent keys. `general`: aws-lc-rs for all keys. See \
     [two-verifiers.md](../explanation/two-verifiers.md).",
);

pub(crate) static OTLP: Key<Shape> = Key::new(
    "otlp",
    Shape::Map(&otlp::TABLE),
    "none",
    "Export of traces and metrics to an OpenTelemetry collector, [see below](#otlp). Only in a \
     build with the feature `otlp`.",
);

pub(crate) static DEFAULTS: Key<Shape> = Key::new(
    "defaults",
    Shape::Map(&SHARED),
    "none",
    "Values for every log that does not set them itself: any of [a log's \
     settings](#settings-of-a-log-or-of-defaults).",
);

pub(crate) static LOGS: Key<Shape> = Key::new(
    "logs",
    Shape::List(&Shape::Map(&LOG)),
    "required",
    "The logs: a list of maps.",
)
.beside(SUNLIGHT);
