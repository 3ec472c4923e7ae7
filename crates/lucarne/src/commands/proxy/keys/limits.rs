//! Keys under `limits`.

use std::time::Duration;

use lucarne_settings::form::{Count, Durations, Sizes};
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[
    &MAXCONNECTIONS,
    &MAXCLIENTCONNECTIONS,
    &MAXHEADER,
    &MAXHOSTS,
    &MAXIDLE,
    &KEEPTIMEOUT,
    &HEADERTIMEOUT,
    &HANDSHAKETIMEOUT,
    &CONNECTTIMEOUT,
    &ANSWERTIMEOUT,
    &IDLETIMEOUT,
    &DRAINTIMEOUT,
]);

const TIMEOUT: Durations = Durations::within(Duration::from_nanos(1), Duration::MAX);

pub(crate) static MAXCONNECTIONS: Key<Count> = Key::new(
    "maxconnections",
    Count::within(1, 1 << 24, "connections"),
    "4096",
    "connections of clients; further connections get 503",
);

pub(crate) static MAXCLIENTCONNECTIONS: Key<Count> = Key::new(
    "maxclientconnections",
    Count::within(1, 1 << 24, "connections"),
    "1024",
    "connections of one client address (IPv6: /64); further connections get 429",
);

pub(crate) static MAXHEADER: Key<Sizes> = Key::new(
    "maxheader",
    Sizes::within(8 << 10, 1 << 20).former_numbers(1),
    "64KiB",
    "size of the head of a request or a response",
);

pub(crate) static MAXHOSTS: Key<Count> = Key::new(
    "maxhosts",
    Count::within(1, 1 << 20, "hosts"),
    "1000",
    "hosts with statistics; `storememory` limits the certificates",
);

pub(crate) static MAXIDLE: Key<Count> = Key::new(
    "maxidle",
    Count::within(1, 1 << 16, "hosts"),
    "512",
    "servers with idle connections",
);

pub(crate) static KEEPTIMEOUT: Key<Durations> = Key::new(
    "keeptimeout",
    TIMEOUT,
    "60s",
    "lifetime of idle connections to servers",
);

pub(crate) static HEADERTIMEOUT: Key<Durations> = Key::new(
    "headertimeout",
    TIMEOUT,
    "60s",
    "time for the head of a request, and for an idle client",
);

pub(crate) static HANDSHAKETIMEOUT: Key<Durations> = Key::new(
    "handshaketimeout",
    TIMEOUT,
    "10s",
    "time for the TLS handshake with a client",
);

pub(crate) static CONNECTTIMEOUT: Key<Durations> = Key::new(
    "connecttimeout",
    TIMEOUT,
    "10s",
    "time for each of: name resolution, connection, and TLS handshake with a server",
);

pub(crate) static ANSWERTIMEOUT: Key<Durations> = Key::new(
    "answertimeout",
    TIMEOUT,
    "120s",
    "time until the response begins, after the last progress of the request's body",
);

pub(crate) static IDLETIMEOUT: Key<Durations> = Key::new(
    "idletimeout",
    TIMEOUT,
    "300s",
    "time without a byte in a body or a tunnel; a body of known length must transfer at least 1 \
     KiB in this time",
);

pub(crate) static DRAINTIMEOUT: Key<Durations> = Key::new(
    "draintimeout",
    TIMEOUT,
    "10s",
    "time for open requests when the proxy stops",
);
