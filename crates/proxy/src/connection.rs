//! Connections with clients: their HTTP settings, and the log line about their end.

use std::net::SocketAddr;
use std::time::Duration;

use http::StatusCode;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioTimer;

use crate::core::Core;
use crate::limits::{FIELDS, Limits, STREAM_WINDOW, STREAMS, http2_head};
use crate::records::Recording;
use crate::stalled::StreamExecutor;

/// Returns the settings of HTTP/1.1, within the limits of the proxy.
pub(crate) fn builder_http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(limits.head_bytes)
        .max_headers(FIELDS)
        .max_buf_size(limits.head_bytes.max(64 << 10))
        // Responses keep the date of their server.
        .auto_date_header(false)
        // Field names keep the case that the server sent. Names from HTTP/2 servers, which are in
        // lower case, are written in title case.
        .preserve_header_case(true)
        .title_case_headers(true);
    builder
}

/// Returns the settings of HTTP/2, within the limits of the proxy.
pub(crate) fn builder_http2(limits: &Limits) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(StreamExecutor::new(limits.idle));
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(15))
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(http2_head(limits.head_bytes))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(4 << 20);
    builder
}

/// Logs the error that ended a connection, if any. A request with an invalid head has ended the
/// connection, and counts as a failure.
pub(crate) fn log_end(core: &Core, client: SocketAddr, ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        if error.is_parse() {
            core.stats.failed("http_request_error");
            tracing::info!(%client, "the head of a request is not accepted: {error}");
            let status = if error.is_parse_too_large() {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            } else {
                StatusCode::BAD_REQUEST
            };
            Recording::invalid(core, client, status, error.to_string());
            return;
        }
        let cause = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        tracing::debug!(%client, "connection ended: {error}{cause}");
    }
}
