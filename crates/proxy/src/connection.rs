//! Connections with clients: how they are served, and what is told of their end.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::limits::{FIELDS, Limits, STREAM_WINDOW, STREAMS};

/// HTTP/1.1, within the limits of the proxy.
pub(crate) fn builder_http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(limits.head_bytes)
        .max_headers(FIELDS)
        .max_buf_size(limits.head_bytes.max(64 << 10))
        // Answers carry the date of the server that made them.
        .auto_date_header(false)
        // Names are written as the server wrote them. Those of HTTP/2 have no capitals.
        .preserve_header_case(true)
        .title_case_headers(true);
    builder
}

/// HTTP/2, within the same limits.
pub(crate) fn builder_http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(15))
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(4 << 20);
    builder
}

/// Tells why a connection ended, if not as it should.
pub(crate) fn tell(client: SocketAddr, ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        let cause = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        tracing::debug!(%client, "a connection ended: {error}{cause}");
    }
}
