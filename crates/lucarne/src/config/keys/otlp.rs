//! Keys under `otlp`.

use lucarne_settings::form::{Numbers, Shape};
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[
    &ENDPOINT,
    &HEADERS,
    &SERVICE_NAME,
    &SAMPLING_RATIO,
    &METRICS_INTERVAL,
]);

/// Keys of one header field.
pub(crate) static HEADER: Table = Table::of(&[&NAME, &VALUE]).following();

pub(crate) static ENDPOINT: Key<Shape> = Key::new(
    "endpoint",
    Shape::Text,
    "required",
    "URL of the collector, such as `http://localhost:4318`. The server adds `/v1/traces` and \
     `/v1/metrics`. The protocol is OTLP over HTTP with protobuf, without compression.",
);

pub(crate) static HEADERS: Key<Shape> = Key::new(
    "headers",
    Shape::List(&Shape::Map(&HEADER)),
    "none",
    "Header fields of each request, such as the token of the collector: a list of maps with the \
     next two keys.",
);

pub(crate) static NAME: Key<Shape> = Key::new(
    "name",
    Shape::Text,
    "required",
    "Of a header field: its name, such as `authorization`.",
);

pub(crate) static VALUE: Key<Shape> = Key::new(
    "value",
    Shape::Secret,
    "required",
    "Of a header field: the source of its value: a path, or `credential:NAME`, `env:NAME`, \
     `exec:COMMAND`, as for `secret`. One line, read at startup.",
);

pub(crate) static SERVICE_NAME: Key<Shape> = Key::new(
    "service_name",
    Shape::Text,
    "lucarne",
    "The attribute `service.name` of traces and metrics.",
);

pub(crate) static SAMPLING_RATIO: Key<Shape> = Key::new(
    "sampling_ratio",
    Shape::Text,
    "1",
    "The part of the submissions that is traced, from 0 to 1. It applies to requests without \
     `traceparent`; in the others, the flag `sampled` of the client decides.",
);

pub(crate) static METRICS_INTERVAL: Key<Shape> = Key::new(
    "metrics_interval",
    Shape::Either(&[Shape::Exactly("off"), Shape::Duration(Numbers::Refused)]),
    "60s",
    "Time between two exports of the metrics of `/metrics`, from 1 s to 1 h; `off` exports only \
     traces.",
);
