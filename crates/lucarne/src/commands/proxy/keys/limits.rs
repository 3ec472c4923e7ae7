//! Keys under `limits`.

use std::time::Duration;

use lucarne_proxy::Limits;
use lucarne_settings::form::{Count, Durations, Sizes};
use lucarne_settings::section;

const TIMEOUT: Durations = Durations::within(Duration::from_nanos(1), Duration::MAX);

section! {
    for Limits = [Limits::default()];

    /// connections of clients; further connections get 503
    maxconnections: Count = Count::within(1, 1 << 24, "connections") => connections;

    /// connections of one client address (IPv6: /64); further connections get 429
    maxclientconnections: Count = Count::within(1, 1 << 24, "connections") => client_connections;

    /// size of the head of a request or a response
    maxheader: Sizes = Sizes::within(8 << 10, 1 << 20).former_numbers(1) => head_bytes;

    /// hosts with statistics; `storememory` limits the certificates
    maxhosts: Count = Count::within(1, 1 << 20, "hosts") => hosts;

    /// servers with idle connections
    maxidle: Count = Count::within(1, 1 << 16, "hosts") => idle_connections;

    /// lifetime of idle connections to servers
    keeptimeout: Durations = TIMEOUT => keep;

    /// time for the head of a request, and for an idle client
    headertimeout: Durations = TIMEOUT => head;

    /// time for the TLS handshake with a client
    handshaketimeout: Durations = TIMEOUT => handshake;

    /// time for each of: name resolution, connection, and TLS handshake with a server
    connecttimeout: Durations = TIMEOUT => connect;

    /// time until the response begins, after the last progress of the request's body
    answertimeout: Durations = TIMEOUT => response;

    /// time without a byte in a body or a tunnel; a body of known length must transfer at least 1
    /// KiB in this time
    idletimeout: Durations = TIMEOUT => idle;

    /// time for open requests when the proxy stops
    draintimeout: Durations = TIMEOUT => drain;
}
