//! Keys under `http`.

use std::time::Duration;

use lucarne_http::Limits;
use lucarne_net::{Network, NetworkError};
use lucarne_settings::form::{Count, Durations, Each, Sizes};
use lucarne_settings::section;

const TIMEOUT: Durations =
    Durations::within(Duration::from_millis(1), Duration::from_secs(3600)).former_numbers(1);
const INFLIGHT: Sizes = Sizes::within(1 << 20, 1 << 40).former_numbers(1);

section! {
    for Limits = [Limits::default()];

    /// Maximum size of the body of a submission; at most 2 MiB. Larger bodies get 413.
    // Real chains are far smaller than 2 MiB, and 256 chains of this size still fit into a tile.
    maxbody: Sizes = Sizes::within(1 << 10, 2 << 20).former_numbers(1) => body_bytes;

    /// Maximum number of connections at the same time, over all listeners. A further connection
    /// takes the place of an idle connection of another client, or is closed. One client may have
    /// an eighth of this number; the addresses of `trusted_proxies` may have all. The limit of open
    /// files (`LimitNOFILE`) can lower it; a warning at startup reports this.
    maxconnections: Count = Count::within(1, 1 << 30, "connections") => connections;

    /// Maximum bytes in flight over all clients: incomplete submissions, and decompressed responses
    /// that a client has not yet received. Above this limit: 503 with `Retry-After`.
    maxinflight: Sizes = INFLIGHT => inflight_bytes;

    /// The same for one client (an IPv4 address or an IPv6 /56); at least twice `maxbody`. All
    /// requests through a proxy count as one client. The first 16 KiB of each client do not count
    /// towards `maxinflight`. An ordinary submission therefore succeeds, regardless of other
    /// clients.
    maxclientinflight: Sizes = INFLIGHT => client_inflight_bytes;

    /// Time from the first byte of a request's head to its last, and for a TLS handshake.
    headertimeout: Durations = TIMEOUT => header_timeout;

    /// Time for the body of a submission to arrive.
    bodytimeout: Durations = TIMEOUT => body_timeout;

    /// Time that a connection can stay open without a request.
    idletimeout: Durations = TIMEOUT => idle_timeout;

    /// Time in which the client takes no byte of a response.
    writetimeout: Durations = TIMEOUT => write_timeout;

    /// Time for requests in flight to finish when the server stops.
    draintimeout: Durations = TIMEOUT => drain_timeout;

    /// The proxies in front of the server: addresses and address blocks (`10.0.0.0/8`). For the
    /// read limits, a request through one of them counts for the address that it forwards
    /// (`Forwarded`, `X-Forwarded-For`). `[]` means that there are no proxies. Without this key,
    /// the limits apply only to clients that cannot have come through a proxy:
    /// [limits.md](limits.md#configuration-of-read-limits).
    trusted_proxies: Each<Network, NetworkError> = Each(str::parse), "not set" => trusted_proxies;
}
