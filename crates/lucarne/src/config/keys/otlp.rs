//! Keys under `otlp`.

use lucarne_settings::form::{Numbers, Shape};
use lucarne_settings::section;

section! {
    /// URL of the collector, such as `http://localhost:4318`. The server adds `/v1/traces` and
    /// `/v1/metrics`. The protocol is OTLP over HTTP with protobuf, without compression.
    endpoint: Shape = Shape::Text, "required";

    /// Header fields of each request, such as the token of the collector: a list of maps with the
    /// next two keys.
    headers: Shape = Shape::List(&Shape::Map(&header::TABLE)), "none";

    /// The attribute `service.name` of traces and metrics.
    service_name: Shape = Shape::Text, "lucarne";

    /// The part of the submissions that is traced, from 0 to 1. It applies to requests without
    /// `traceparent`; in the others, the flag `sampled` of the client decides.
    sampling_ratio: Shape = Shape::Text, "1";

    /// Time between two exports of the metrics of `/metrics`, from 1 s to 1 h; `off` exports only
    /// traces.
    metrics_interval: Shape =
        Shape::Either(&[Shape::Exactly("off"), Shape::Duration(Numbers::Refused)]),
        "60s";
}

/// Keys of one header field.
pub(crate) mod header {
    use super::*;

    section! {
        #![following]

        /// Name of a header field, such as `authorization`.
        name: Shape = Shape::Text, "required";

        /// Source of the value of a header field: a path, or `credential:NAME`, `env:NAME`,
        /// `exec:COMMAND`, as for `secret`. One line, read at startup.
        value: Shape = Shape::Secret, "required";
    }
}
