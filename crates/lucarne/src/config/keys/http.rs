//! Keys under `http`.

use std::time::Duration;

use lucarne_settings::form::{Count, Durations, Shape, Sizes};
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[
    &MAXBODY,
    &MAXCONNECTIONS,
    &MAXINFLIGHT,
    &MAXCLIENTINFLIGHT,
    &HEADERTIMEOUT,
    &BODYTIMEOUT,
    &IDLETIMEOUT,
    &WRITETIMEOUT,
    &DRAINTIMEOUT,
    &TRUSTED_PROXIES,
]);

const TIMEOUT: Durations =
    Durations::within(Duration::from_millis(1), Duration::from_secs(3600)).former_numbers(1);

pub(crate) static MAXBODY: Key<Sizes> = Key::new(
    "maxbody",
    // Real chains are far smaller than 2 MiB, and 256 chains of this size still fit into a tile.
    Sizes::within(1 << 10, 2 << 20).former_numbers(1),
    "512KiB",
    "Maximum size of the body of a submission; at most 2 MiB. Larger bodies get 413.",
);

pub(crate) static MAXCONNECTIONS: Key<Count> = Key::new(
    "maxconnections",
    Count::within(1, 1 << 30, "connections"),
    "16384",
    "Maximum number of connections at the same time, over all listeners. A further connection \
     takes the place of an idle connection of another client, or is closed. One client may have \
     an eighth of this number; the addresses of `trusted_proxies` may have all. The limit of open \
     files (`LimitNOFILE`) can lower it; a warning at startup reports this.",
);

pub(crate) static MAXINFLIGHT: Key<Sizes> = Key::new(
    "maxinflight",
    Sizes::within(1 << 20, 1 << 40).former_numbers(1),
    "256MiB",
    "Maximum bytes in flight over all clients: incomplete submissions, and decompressed responses \
     that a client has not yet received. Above this limit: 503 with `Retry-After`.",
);

pub(crate) static MAXCLIENTINFLIGHT: Key<Sizes> = Key::new(
    "maxclientinflight",
    Sizes::within(1 << 20, 1 << 40).former_numbers(1),
    "32MiB",
    "The same for one client (an IPv4 address or an IPv6 /56); at least twice `maxbody`. All \
     requests through a proxy count as one client. The first 16 KiB of each client do not count \
     towards `maxinflight`. An ordinary submission therefore succeeds, regardless of other \
     clients.",
);

pub(crate) static HEADERTIMEOUT: Key<Durations> = Key::new(
    "headertimeout",
    TIMEOUT,
    "10s",
    "Time from the first byte of a request's head to its last, and for a TLS handshake.",
);

pub(crate) static BODYTIMEOUT: Key<Durations> = Key::new(
    "bodytimeout",
    TIMEOUT,
    "30s",
    "Time for the body of a submission to arrive.",
);

pub(crate) static IDLETIMEOUT: Key<Durations> = Key::new(
    "idletimeout",
    TIMEOUT,
    "75s",
    "Time that a connection can stay open without a request.",
);

pub(crate) static WRITETIMEOUT: Key<Durations> = Key::new(
    "writetimeout",
    TIMEOUT,
    "30s",
    "Time in which the client takes no byte of a response.",
);

pub(crate) static DRAINTIMEOUT: Key<Durations> = Key::new(
    "draintimeout",
    TIMEOUT,
    "15s",
    "Time for requests in flight to finish when the server stops.",
);

pub(crate) static TRUSTED_PROXIES: Key<Shape> = Key::new(
    "trusted_proxies",
    Shape::List(&Shape::Text),
    "not set",
    "The proxies in front of the server: addresses and address blocks (`10.0.0.0/8`). For the read \
     limits, a request through one of them counts for the address that it forwards (`Forwarded`, \
     `X-Forwarded-For`). `[]` means that there are no proxies. Without this key, the limits apply \
     only to clients that cannot have come through a proxy: \
     [limits.md](limits.md#configuration-of-read-limits).",
);
