//! Kinds of failures of requests. Reports count failures by these stable names.

/// The host has no address. Reported only at the start, because addresses are resolved once.
pub const DNS: &str = "dns";
/// No server listens at the address.
pub const CONNECT_REFUSED: &str = "connect_refused";
/// The connection, the tunnel or the TLS handshake was not complete within the time limit.
pub const CONNECT_TIMEOUT: &str = "connect_timeout";
/// The connection failed for another reason: no route, no free local port or file descriptor.
pub const CONNECT: &str = "connect";
/// A proxy refused or failed to open a tunnel.
pub const PROXY: &str = "proxy";
/// The TLS handshake failed: an untrusted certificate, no common version, an alert. A handshake
/// that the peer cuts off is a [`RESET`].
pub const TLS: &str = "tls";
/// The connection was closed or reset before the head of a response arrived: while connecting, in
/// the TLS handshake, or after the request.
pub const RESET: &str = "reset";
/// The server reset the stream of the request (RST_STREAM of HTTP/2) before the head of a response.
/// The request is not repeated.
pub const STREAM_RESET: &str = "stream_reset";
/// The server ended the connection with an error code (GOAWAY of HTTP/2) before the head of a
/// response. The request is not repeated.
pub const GOAWAY: &str = "goaway";
/// There was no complete response within the time limit of the request.
pub const TIMEOUT: &str = "timeout";
/// The response is not HTTP, or contradicts itself.
pub const PROTOCOL: &str = "protocol";
/// The body ended early, or is longer than allowed.
pub const BODY: &str = "body";
/// The body does not fit into the memory for bodies, which all users share (`maxBody`).
pub const MAX_BODY: &str = "max_body";
/// A complete response has a status that the scenario did not expect. The client itself never
/// reports this kind.
pub const STATUS: &str = "status";
/// The request is invalid: a line break in a header, a space in a path.
pub const REQUEST: &str = "request";
/// The handshake was completed, but the certificate failed a check of the scenario. The client
/// itself never reports this kind.
pub const CERTIFICATE: &str = "certificate";
