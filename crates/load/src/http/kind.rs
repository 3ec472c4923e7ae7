//! The kinds of failures of a request, which are counted by name, and stay.

/// The name of the host was not found. At start only: addresses are looked up once.
pub const DNS: &str = "dns";
/// Nobody listens there.
pub const CONNECT_REFUSED: &str = "connect_refused";
/// No connection, or no TLS handshake, within the time for connecting.
pub const CONNECT_TIMEOUT: &str = "connect_timeout";
/// No connection for another reason: no route, no free local port or file descriptor.
pub const CONNECT: &str = "connect";
/// A proxy was asked for a tunnel, and gave none.
pub const PROXY: &str = "proxy";
/// The TLS handshake failed: an untrusted certificate, no common version, an alert. One that
/// the other side cuts off is a [`RESET`].
pub const TLS: &str = "tls";
/// The connection was closed or reset before the head of an answer had arrived: while it was
/// made, in the TLS handshake, or after the request.
pub const RESET: &str = "reset";
/// No whole answer within the time for the request.
pub const TIMEOUT: &str = "timeout";
/// The answer is not HTTP, or contradicts itself.
pub const PROTOCOL: &str = "protocol";
/// The body ended early, or is longer than allowed.
pub const BODY: &str = "body";
/// A whole answer with a status that the scenario did not expect. The client
/// never says so by itself.
pub const STATUS: &str = "status";
/// The request cannot be written: a line break in a header, a space in a path.
pub const REQUEST: &str = "request";
/// The handshake came to its end, and the certificate that was shown is not the one
/// it should be. The client never says so by itself.
pub const CERTIFICATE: &str = "certificate";
