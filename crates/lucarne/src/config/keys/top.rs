//! Keys at the top of the file.

use lucarne_settings::form::{Shape, Words};
use lucarne_settings::section;

use super::{LOG, MIRROR, SHARED, SUNLIGHT, http, operator, otlp, read_limits, tls, witness};
use crate::verification::VerifyBy;

section! {
    /// Addresses to listen on: `host:port`, `[::1]:port`, or `:port` for all interfaces. One
    /// address or a list. `:http` and `:https` also work.
    #[beside(SUNLIGHT)]
    listen: Shape = Shape::List(&Shape::Text), "required";

    /// The lock: a path (SQLite) or a URL, [see below](#the-lock). Paths in parameters of the URL
    /// are relative to the directory of this file, like all paths. `lucarne init` creates the lock
    /// before the first `serve`. An SQLite database created by Sunlight works. Put the database on
    /// another file system than the data.
    #[beside(SUNLIGHT)]
    checkpoints: Shape = Shape::Secret, "required";

    /// Password of the lock's database server, if the URL has none: a path, or `credential:NAME`,
    /// `env:NAME`, `exec:COMMAND`, as for `secret`. One line, read at startup.
    checkpointspassword: Shape = Shape::Secret, "none";

    /// A socket in the file system, through which the next `lucarne serve` takes over from this
    /// process [without a gap](../how-to/upgrade.md#upgrade-without-a-gap):
    /// `/run/lucarne/handover.sock`. Its directory must exist and be writable.
    handover: Shape = Shape::Text, "none";

    /// Certificate and key for HTTPS, see below.
    tls: Shape = Shape::Map(&tls::TABLE), "plain HTTP";

    /// Limits of the HTTP server, see below.
    http: Shape = Shape::Map(&http::TABLE), "below";

    /// Read limits per client, or `off`, [see below](#read_limits).
    read_limits: Shape =
        Shape::Either(&[Shape::Exactly("off"), Shape::Map(&read_limits::TABLE)]),
        "below";

    /// Name and contact addresses of the operator, for all logs, [see below](#operator).
    operator: Shape = Shape::Map(&operator::TABLE), "none";

    /// How the server verifies the signatures of submissions, for all logs. `fast`: Lucarne's own
    /// arithmetic for frequent keys. `general`: aws-lc-rs for all keys. See
    /// [two-verifiers.md](../explanation/two-verifiers.md).
    verification: Words<VerifyBy> =
        Words(&[("fast", VerifyBy::Fast), ("general", VerifyBy::General)]),
        is VerifyBy::default();

    /// Export of traces and metrics to an OpenTelemetry collector, [see below](#otlp). Only in a
    /// build with the feature `otlp`.
    otlp: Shape = Shape::Map(&otlp::TABLE), "none";

    /// Cosign the checkpoints of other logs, [see below](#witness) and
    /// [witness.md](../how-to/witness.md).
    #[beside(SUNLIGHT)]
    witness: Shape = Shape::Map(&witness::TABLE), "none";

    /// Copy other logs, and cosign the copies, [see below](#mirror) and
    /// [mirror.md](../how-to/mirror.md).
    mirror: Shape = Shape::Map(&MIRROR), "none";

    /// Values for every log that does not set them itself: any of [a log's
    /// settings](#settings-of-a-log-or-of-defaults).
    defaults: Shape = Shape::Map(&SHARED), "none";

    /// The logs: a list of maps.
    #[beside(SUNLIGHT)]
    logs: Shape = Shape::List(&Shape::Map(&LOG)), "this, `witness` or `mirror`";
}
